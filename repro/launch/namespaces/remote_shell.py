"""What mpirun starts its daemons with in the hosts of a shaped network, where Python's path has a space or a colon.

Open MPI cuts its setting at spaces, and at colons into alternatives; quotes do not count. So a script of a path without
them starts Python.
"""

from __future__ import annotations

import hashlib
import shlex
import sys

from repro.core.atomic import write_atomically
from repro.launch.namespaces import private

CUT_AT = (" ", ":")
SETTINGS = ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent")  # of Open MPI 4 and 5


def variables() -> dict[str, str]:
    """The settings for this Python, over those of `repro.launch.shaped`; none where that one's words can be cut."""
    if not any(each in sys.executable for each in CUT_AT):
        return {}
    text = f'exec {shlex.quote(sys.executable)} -m repro.launch.namespaces.enter --rsh "$@"\n'
    script = private.short_folder("rsh") / hashlib.sha256(text.encode()).hexdigest()[:16]
    write_atomically(script, text)
    return dict.fromkeys(SETTINGS, f"/bin/sh {script}")
