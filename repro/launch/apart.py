"""Run a command in a network namespace that has only loopback: `python -m repro.launch.apart COMMAND...`.

mpirun's daemon listens on all interfaces, and Open MPI 4 has no setting to change that. Where network namespaces are
not permitted, the command runs without one. Open MPI's session files go to a folder that only this user can access: by
default they are in `ompi.HOST.UID` below $TMPDIR or /tmp, and in a user namespace every user has UID 0.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn

from repro.core.command_process import temporary_folder
from repro.core.processes import end_with_parent
from repro.launch.namespaces import linux, private

# the settings of Open MPI 4 and 5 for the folder of session files
SESSION_FOLDERS = ("OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base")


def main(command: list[str]) -> NoReturn:
    base = temporary_folder() or str(private.short_folder("mpi"))
    for name in SESSION_FOLDERS:
        os.environ.setdefault(name, base)
    with contextlib.suppress(OSError):
        if os.geteuid():
            linux.become_root_of_own()
        linux.unshare_namespaces(linux.NEWNET)
        linux.loopback_up()
    end_with_parent()  # entering a user namespace resets the parent-death signal
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
