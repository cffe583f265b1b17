"""mpirun's session folder: other users' files cannot block it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from repro.core.errors import InputError
from repro.launch.local import find_mpirun, rank_environment
from tests.support.waiting import LIMIT_S

pytestmark = pytest.mark.ranks


def test_files_at_openmpis_default_place_do_no_harm(tmp_path):
    try:
        mpirun = find_mpirun()
    except InputError as missing:
        pytest.skip(str(missing))
    occupied = [tmp_path / f"ompi.{socket.gethostname()}.{user}" for user in {0, os.getuid()}]
    for path in occupied:
        path.write_text("somebody else's")
    command = [sys.executable, "-m", "repro.launch.apart", mpirun, "-n", "2", "printenv", "OMPI_COMM_WORLD_RANK"]
    own = rank_environment(threads=1) | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == ["0", "1"]
    assert sorted(tmp_path.iterdir()) == sorted(occupied)
