"""The emulated fabric's parts that need no ranks; `tests/distributed/test_fabrics.py` runs it with ranks."""

import threading
import time
from types import SimpleNamespace

import pytest

from repro import launch
from repro.core.errors import InputError, ReproError, TooBusy
from repro.core.ethernet import GOODPUT_SHARE
from repro.experiment import config as configs
from repro.experiment import testbeds
from repro.fabric.real.emulated import PIECE, DelayedSend, DelayedSender, EmulatedFabric, Shared, Window
from repro.records import kinds


def bed(**changes):
    entries = configs.compose("pipesgd/fig4-alexnet", ["testbed=emulated/pipesgd-alexnet"])["testbed"]
    return testbeds.testbed_of(entries | changes)


def test_a_window_has_the_requested_length_and_the_memory_of_a_piece():
    window = Window()
    long = window.of(40 * PIECE + 3)
    assert len(long) == 40 * PIECE + 3 and not long[-9:].any()
    long[5] = 7
    assert all(long[piece * PIECE + 5] == 7 for piece in range(40)), "every piece is the same memory"
    longer = window.of(100 * PIECE)
    assert longer[99 * PIECE + 5] == 7 and long[5] == 7, "the earlier one stays"
    assert len(window.of(0)) == 0


def test_sleeps_that_were_late_before_a_checkpoint_count_after_a_resume():
    killed, resumed = (object.__new__(EmulatedFabric) for _ in range(2))
    for fabric in (killed, resumed):
        fabric.shared, fabric.rank = Shared(None), 0
    killed.shared.late_s += [1.5, 0.5]
    resumed.load_state_dict(killed.state_dict())
    with pytest.raises(TooBusy, match="2 s too long in 100 s"):
        resumed.observed(100.0)
    assert resumed.observed(200.0) == {"sleeps": 2, "late_s": 2.0, "latest_s": 1.5}


def test_a_delayed_sender_posts_late_and_in_order():
    posted, all_there = [], threading.Event()
    delayed_sender = DelayedSender(0.02)

    def message(number):
        def send():
            posted.append((number, time.monotonic()))
            if number == 4:
                all_there.set()

        return DelayedSend(SimpleNamespace(), send, f"message {number}", None)

    began = time.monotonic()
    for number in range(5):
        delayed_sender.post(message(number))
    assert all_there.wait(10)
    assert [number for number, _ in posted] == [0, 1, 2, 3, 4]
    assert min(when for _, when in posted) >= began + 0.02


def test_the_error_of_a_delayed_send_is_raised_in_its_wait():
    class Refused(Exception):
        pass

    def refuse():
        raise Refused

    late = DelayedSend(SimpleNamespace(), refuse, "a message", None)
    assert not late.done()
    late.post()
    with pytest.raises(Refused):
        late.done()


def test_the_links_carry_the_papers_payload_at_a_fraction_of_the_rate():
    place = launch.launcher_for(bed(slow_down=40, beta_s_per_byte=8e-10))
    assert place.kind == place.fabric == kinds.EMULATED
    assert place.rate_gbit * GOODPUT_SHARE == pytest.approx(10 / 40, rel=1e-5)


@pytest.mark.parametrize(
    "changes, complaint",
    [
        ({"slow_down": 0.5}, "testbed.slow_down=0.5"),
        ({"shrink": 0}, "testbed.shrink=0"),
        ({"arithmetic": "real"}, "testbed.arithmetic=real"),
        ({"launcher": "virtual"}, "testbed.launcher=virtual: testbed .* is emulated; valid: mpirun"),
    ],
)
def test_invalid_emulated_testbeds_are_refused(changes, complaint):
    with pytest.raises(InputError, match=complaint):
        launch.launcher_for(bed(**changes))


@pytest.mark.parametrize("slow_down, ranks, complaint", [(1000, 4, "rate of 0.01"), (40, 101, "101 hosts")])
def test_an_impossible_network_is_refused_before_ranks_start(slow_down, ranks, complaint):
    with pytest.raises(ReproError, match=complaint):
        launch.launcher_for(bed(slow_down=slow_down, beta_s_per_byte=8e-10)).check(ranks)
