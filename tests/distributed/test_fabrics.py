"""The fabric conformance suite on real ranks (MPI under mpirun, gloo under torchrun); killed and stopped ranks.

The ranks of a fabric are started once and run every check of the suite.
"""

import functools
import re
import tempfile
from pathlib import Path

import pytest

from repro.core.errors import FaultError, ReproError
from tests.support import ranks
from tests.support.fabric_checks import suite as fabric_suite

pytestmark = pytest.mark.ranks

SIZE = 3  # other numbers of ranks: on the virtual fabric, which has the same algorithms
REAL = ["mpi", "torch", "emulated"]


@pytest.fixture(scope="module", autouse=True)
def started_faults(request):
    """Start the launches with faults, which mostly wait, before the suite."""
    if any(item.originalname == "test_a_killed_rank_is_named" for item in request.session.items):
        ranks.fault_ends()


@functools.cache
def launched(fabric):
    """Every rank's outcome of every check, and the error with which the launch ended, or None."""
    with tempfile.TemporaryDirectory() as folder:
        error = None
        try:
            ranks.launch(fabric, SIZE, "suite", Path(folder))
        except ReproError as raised:
            error = str(raised)
        return ranks.outcomes(Path(folder), SIZE), error


@pytest.mark.parametrize("check", fabric_suite.CHECKS)
@pytest.mark.parametrize("fabric", REAL)
def test_real(fabric, check):
    outcomes, error = launched(fabric)
    outcome = outcomes.get(check, {})
    bad = {rank: text for rank, text in outcome.items() if text != "ok" and not text.startswith("skip")}
    missing = [rank for rank in range(SIZE) if rank not in outcome]
    if bad or missing:
        report = "\n".join(f"--- rank {rank}: {text}" for rank, text in bad.items())
        pytest.fail(f"{report}\nnot run on ranks: {missing}; the launch: {error or 'succeeded'}", pytrace=False)
    if all(text != "ok" for text in outcome.values()):
        pytest.skip(outcome[0].removeprefix("skip "))


@pytest.mark.parametrize("fabric", REAL)
def test_the_launch_succeeds(fabric):
    assert launched(fabric)[1] is None


@pytest.mark.parametrize("fabric", ["mpi", "torch"])
def test_a_killed_rank_is_named(fabric):
    end = ranks.fault_ends()[fabric, "kill"].result()
    assert isinstance(end, FaultError)
    assert re.search(rf"rank {ranks.FAULTY_RANK} (was lost: ended|had ended) by SIGKILL", str(end)), end


@pytest.mark.parametrize("fabric", ["mpi", "torch"])
def test_the_others_end_when_a_rank_stops(fabric):
    end = ranks.fault_ends()[fabric, "stop"].result()
    assert isinstance(end, FaultError)
    assert re.search(r"rank [02]\b.*(receive from|send to) rank \d.*tag \d+.*channel 0.*\b8 s", str(end)), end


@pytest.mark.parametrize("fabric", ["mpi", "torch"])
@pytest.mark.parametrize("fault", ["missing", "silent", *ranks.UNHEARD])
def test_waits_without_a_peer_name_the_missing_rank(fabric, fault):
    end = ranks.fault_ends()[fabric, fault].result()
    assert isinstance(end, FaultError)
    # on a busy machine a rank that is slow to respond may be named beside the one that never does
    assert re.search(rf"rank [02] \(.*\brank ([02], )*{ranks.FAULTY_RANK}\b", str(end)), end
    assert f"nothing after {ranks.FAULT_TIMEOUT_S:g} s" in str(end), end
