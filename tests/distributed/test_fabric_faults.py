"""A rank that dies or stops under mpirun or torchrun: the launch ends by itself and says who, what and how long."""

import re

import pytest

from repro.common.errors import FaultError
from tests.support import ranks

pytestmark = pytest.mark.ranks


@pytest.mark.parametrize("fabric", ["mpi", "torch"])
def test_a_killed_rank_is_named(fabric):
    end = ranks.fault_ends()[fabric, "kill"].result()
    assert isinstance(end, FaultError)
    assert re.search(rf"rank {ranks.FAULTY_RANK} (was lost: ended|had ended) by SIGKILL", str(end)), end


@pytest.mark.parametrize("fabric", ["mpi", "torch"])
def test_the_others_end_when_a_rank_stops(fabric):
    end = ranks.fault_ends()[fabric, "stop"].result()
    assert isinstance(end, FaultError)
    said = str(end)
    assert re.search(r"rank [02]\b.*(receive from|send to) rank \d.*tag \d+.*channel 0.*\b8 s", said), said
    assert "no sign of life" not in said


@pytest.mark.parametrize("fabric", ["mpi", "torch"])
@pytest.mark.parametrize("fault", ["missing", "silent", *ranks.UNHEARD])
def test_ranks_that_wait_for_nobody_in_particular_name_who_does_not_come(fabric, fault):
    end = ranks.fault_ends()[fabric, fault].result()
    assert isinstance(end, FaultError)
    assert re.search(
        rf"rank [02] \(.*\brank {ranks.FAULTY_RANK}\b", str(end)
    ) and f"nothing after {ranks.FAULT_TIMEOUT_S:g} s" in str(end), end
