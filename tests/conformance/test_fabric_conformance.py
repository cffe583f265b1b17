"""One suite over all fabrics: virtual in this process, mpi under mpirun, torch (gloo) under torchrun.

Real ranks are started once for each fabric and number of ranks; that launch runs every check of the suite.
"""

import functools
import tempfile
from pathlib import Path

import pytest

from repro.common.errors import ReproError
from repro.fabric.virtual import Network, run
from tests.support import ranks
from tests.support.fabric_checks import suite as fabric_suite

REAL = [(fabric, size) for fabric in ("mpi", "torch") for size in (3, 4)]  # 2: test_eager, test_gtopk
EACH = [(fabric, size, check) for fabric, size in REAL for check in fabric_suite.CHECKS]


@pytest.mark.parametrize("check", fabric_suite.CHECKS)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_virtual(size, check):
    try:
        run(size, fabric_suite.CHECKS[check], Network(1e-4, 1e-8), timeout_s=fabric_suite.LIMIT_S)
    except fabric_suite.Skip as reason:
        pytest.skip(str(reason))


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


@pytest.mark.ranks
@pytest.mark.parametrize("fabric, size, check", EACH, ids=["-".join(map(str, each)) for each in EACH])
def test_real(fabric, size, check, request):
    if any("test_fabric_faults" in item.nodeid for item in request.session.items):
        ranks.fault_ends()  # torchrun waits half a minute for a rank that has stopped: let it, meanwhile
    found, end = launched(fabric, size)
    outcome = found.get(check, {})
    bad = {rank: said for rank, said in outcome.items() if said != "ok" and not said.startswith("skip")}
    missing = [rank for rank in range(size) if rank not in outcome]
    if bad or missing:
        report = "\n".join(f"--- rank {rank}: {said}" for rank, said in bad.items())
        pytest.fail(f"{report}\nnot run on ranks: {missing}; the launch: {end or 'ended well'}", pytrace=False)
    if all(said != "ok" for said in outcome.values()):
        pytest.skip(outcome[0].removeprefix("skip "))


@pytest.mark.ranks
@pytest.mark.parametrize("fabric, size", REAL)
def test_the_launch_ends_well(fabric, size):
    assert launched(fabric, size)[1] is None
