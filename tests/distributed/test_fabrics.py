"""mpi under mpirun, torch (gloo) under torchrun: the suite of all fabrics, and ranks that die or stop.

Real ranks are started once for each fabric and number of ranks; that launch runs every check of the suite. A launch
with a rank that dies or stops ends by itself and says who, what and how long.
"""

import functools
import json
import re
import tempfile
from pathlib import Path

import pytest

from repro.core.errors import FaultError, ReproError
from tests.support import ranks
from tests.support.fabric_checks import suite as fabric_suite

pytestmark = pytest.mark.ranks

# 2: test_eager, test_gtopk; a power of two once, for what depends on it stands above the fabrics
REAL = [("mpi", 3), ("mpi", 4), ("torch", 3), ("emulated", 3)]
EACH = [(fabric, size, check) for fabric, size in REAL for check in fabric_suite.CHECKS]


@pytest.fixture(scope="module", autouse=True)
def begun(request):
    """Faults are nearly all waiting: they begin now, and are looked at after the suite."""
    if any(item.originalname == "test_a_killed_rank_is_named" for item in request.session.items):
        ranks.fault_ends()


@functools.cache
def launched(fabric, size):
    """What every rank says of every check, and how the launch ended."""
    with tempfile.TemporaryDirectory() as folder:
        end = None
        try:
            ranks.launch(fabric, size, "suite", Path(folder))
        except ReproError as error:
            end = str(error)
        return ranks.outcomes(Path(folder), size), end


@pytest.mark.parametrize("fabric, size, check", EACH, ids=["-".join(map(str, each)) for each in EACH])
def test_real(fabric, size, check):
    found, end = launched(fabric, size)
    outcome = found.get(check, {})
    bad = {rank: said for rank, said in outcome.items() if said != "ok" and not said.startswith("skip")}
    missing = [rank for rank in range(size) if rank not in outcome]
    if bad or missing:
        report = "\n".join(f"--- rank {rank}: {said}" for rank, said in bad.items())
        pytest.fail(f"{report}\nnot run on ranks: {missing}; the launch: {end or 'ended well'}", pytrace=False)
    if all(said != "ok" for said in outcome.values()):
        pytest.skip(outcome[0].removeprefix("skip "))


@pytest.mark.parametrize("fabric, size", REAL)
def test_the_launch_ends_well(fabric, size):
    assert launched(fabric, size)[1] is None


@pytest.mark.parametrize("fabric, size", [("mpi", 6), ("torch", 2)])
def test_auto_is_the_same_on_all_ranks(fabric, size, tmp_path):
    """With 3, 4 and emulated: in the suite."""
    ranks.launch(fabric, size, "auto", tmp_path)
    found = [json.loads((tmp_path / f"rank{rank}").read_text()) for rank in range(size)]
    assert found == [found[0]] * size and found[0]["measured"]


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
    # on a busy machine a rank that is slow to answer may stand beside the one that never does
    assert re.search(
        rf"rank [02] \(.*\brank ([02], )*{ranks.FAULTY_RANK}\b", str(end)
    ) and f"nothing after {ranks.FAULT_TIMEOUT_S:g} s" in str(end), end
