"""A command in a network of its own that has nothing but loopback: whatever listens there, nobody outside can reach.

mpirun's daemon listens on all interfaces, and Open MPI 4 has no setting for that. mpirun's own files are in a folder of
this user alone: by default they are in `ompi.HOST.UID` in $TMPDIR or /tmp, and whoever is root of a user namespace has
UID 0, as root and others do.
`python -m repro.launch.apart COMMAND...` becomes the command; where no network namespace is permitted it runs as it is.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn

from repro.core.processes import end_with_parent
from repro.launch.namespaces import linux, private

# where Open MPI 4 and 5 keep a job's files
SESSION_FOLDERS = ("OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base")


def main(command: list[str]) -> NoReturn:
    base = str(private.short_folder("mpi"))
    for name in SESSION_FOLDERS:
        os.environ.setdefault(name, base)
    with contextlib.suppress(OSError):
        if os.geteuid():
            linux.become_root_of_own()
        linux.unshare(linux.NEWNET)
        linux.loopback_up()
    end_with_parent()  # a user namespace may have cost the process what its parent had set
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
