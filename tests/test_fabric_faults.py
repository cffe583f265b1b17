"""A rank that dies or stops under mpirun or torchrun: the launch ends by itself and says who, what and how long."""

import functools
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from repro.errors import FaultError, ReproError
from tests import ranks

FAULTS = [(fabric, fault) for fabric in ("mpi", "torch") for fault in ("kill", "stop")]
pytestmark = pytest.mark.ranks


def end_of(fabric, fault):
    with tempfile.TemporaryDirectory() as folder:
        try:
            ranks.launch(fabric, 3, fault, Path(folder), stall_s=75)
        except ReproError as error:
            return error
    return None


@functools.cache
def ends():
    """All at once, because most of it is waiting."""
    with ThreadPoolExecutor(len(FAULTS)) as pool:
        return dict(zip(FAULTS, pool.map(lambda each: end_of(*each), FAULTS)))


@pytest.mark.parametrize("fabric", ["mpi", "torch"])
def test_a_killed_rank_is_named(fabric):
    end = ends()[fabric, "kill"]
    assert isinstance(end, FaultError)
    assert re.search(rf"rank {ranks.FAULTY_RANK} (was lost: ended|had ended) by SIGKILL", str(end)), end


@pytest.mark.parametrize("fabric", ["mpi", "torch"])
def test_the_others_end_when_a_rank_stops(fabric):
    end = ends()[fabric, "stop"]
    assert isinstance(end, FaultError)
    said = str(end)
    assert re.search(r"rank [02]\b.*(receive from|send to) rank \d.*tag \d+.*channel 0.*\b3 s", said), said
    assert "no sign of life" not in said
