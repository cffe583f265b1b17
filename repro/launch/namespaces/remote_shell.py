"""mpirun's remote shell for the hosts of a shaped network, if Python's path has a space or a colon.

Open MPI splits its setting at spaces, and at colons into alternatives, whether or not they are quoted. Therefore a
script at a path without these characters starts Python.
"""

from __future__ import annotations

import hashlib
import shlex
import sys

from repro.core.atomic import write_atomically
from repro.launch.namespaces import private

SEPARATORS = (" ", ":")
SETTINGS = ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent")  # of Open MPI 4 and 5


def shell_variables() -> dict[str, str]:
    """Settings that replace those of `repro.launch.shaped`; none if Python's path has no separator."""
    if not any(each in sys.executable for each in SEPARATORS):
        return {}
    text = f'exec {shlex.quote(sys.executable)} -m repro.launch.namespaces.enter --rsh "$@"\n'
    script = private.short_folder("rsh") / hashlib.sha256(text.encode()).hexdigest()[:16]
    write_atomically(script, text)
    return dict.fromkeys(SETTINGS, f"/bin/sh {script}")
