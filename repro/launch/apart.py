"""A command in a network of its own that has nothing but loopback: whatever listens there, nobody outside can reach.

mpirun's daemon listens on all interfaces, and Open MPI 4 has no setting for that.
`python -m repro.launch.apart COMMAND...` becomes the command; where no network namespace is permitted it runs as it is.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn

from repro.common.processes import end_with_parent
from repro.testbed import linux


def main(command: list[str]) -> NoReturn:
    with contextlib.suppress(OSError):
        if os.geteuid():
            linux.become_root_of_own()
        linux.unshare(linux.NEWNET)
        linux.loopback_up()
    end_with_parent()  # a user namespace may have cost the process what its parent had set
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
