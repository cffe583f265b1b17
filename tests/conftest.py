"""What all tests share: hypothesis without time limits (the machine is busy) and without a database on disk; Ctrl-C;
on how many threads they run; the pool that their ranks and commands are forked from."""

import gc
import os
import signal
import sys

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("repro", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repro")

# The tensors of tests are small, and threads of PyTorch that are more than the cores wait for one another. Set before
# anything imports it, and for what tests start too, unless that chooses for itself.
os.environ.setdefault("OMP_NUM_THREADS", "1")

gc.disable()  # until all tests are collected: imports make a million objects, which stay

# A shell that starts the tests in the background ignores SIGINT for them, nohup SIGHUP, and every command that they
# start would inherit that: those that a test ends by such a signal would never end.
for sign, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(sign) is signal.SIG_IGN:
        signal.signal(sign, handler)


def pytest_collection_finish():
    gc.freeze()  # collections of garbage need not visit what was imported
    gc.set_threshold(10_000)  # by default a tenth of the time, as tables of draws are millions of objects
    gc.enable()


PAGES = "tests/reports/papers/"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """As `--dist loadfile`, but one process builds the papers' pages, for all files of tests that look at them."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return PAGES if file.startswith(PAGES) else file

    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes():
    """The processes of pytest-xdist share the pool of the one that starts them."""
    from tests.support import ranks

    os.environ[ranks.SHARED] = ranks.pool().python


@pytest.fixture(scope="module", autouse=True)
def one_pool():
    """The ranks of small runs are forked from the pool of all tests too, and end with the tests of a file."""
    if real := sys.modules.get("repro.testing.real"):  # only if a test has imported PyTorch anyway
        from tests.support.ranks import pool

        real.rank_pool = pool
        yield
        real.end_ranks()
    else:
        yield


@pytest.fixture
def pooled(monkeypatch):
    """The ranks of commands in this process are forked from what all tests have theirs of, which has PyTorch."""
    from repro.launch.pool import Pools
    from tests.support.ranks import forks_from, pool

    monkeypatch.setattr(Pools, "python", forks_from(pool().python))
