"""Imported by every Python that has this folder on PYTHONPATH, as the pool from which ranks of tests are forked: a file
of the name in $TESTED_FULL finds no room on the disk."""

import contextlib
import os

ROOM = "TESTED_FULL"


def without_room(descriptor):
    """`repro.common.no_links.descriptor`, but that what is written to the file of that name meets a full disk."""

    def opened(path, flags):
        if path.name == os.environ.get(ROOM) and flags & os.O_ACCMODE != os.O_RDONLY:
            os.close(descriptor(path, flags))
            return os.open("/dev/full", flags & os.O_ACCMODE)
        return descriptor(path, flags)

    return opened


with contextlib.suppress(ImportError):
    from repro.common import no_links

    no_links.descriptor = without_room(no_links.descriptor)
