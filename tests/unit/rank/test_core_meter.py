"""What other processes and the hypervisor took of a run's cores is computed from the kernel's counters."""

from __future__ import annotations

import pytest

from repro.rank import meters
from repro.rank.meters import CoreMeter, CoreTimes, core_times, cpu_taken
from repro.records.busy import MOST_TAKEN, on_busy_machine
from repro.records.record import CpuTaken

# user nice system idle iowait irq softirq steal guest guest_nice, in ticks of 10 ms; cores 0 to 2
STAT = """\
cpu  9 9 9 9 9 9 9 9 9 9
cpu0 100 20 30 400 50 60 70 8 90 10
cpu1 200 0 0 0 0 0 0 4 0 0
cpu2 7000 0 0 0 0 0 0 7000 0 0
intr 1 2 3
"""


def test_the_run_s_own_cores_count_without_idleness_and_interrupts():
    assert core_times(STAT, {0}, 0.01) == pytest.approx((1.5, 0.08))
    assert core_times(STAT, {0, 1}, 0.01) == pytest.approx((3.5, 0.12))


@pytest.mark.parametrize("text", ["", "cpu0 1 2 3 4 5 6 7 8\n", "cpu0 1 2 3 4 5 6 7 8\ncpu1 0 0 0 0 0 0 0 0\n"])
def test_counters_that_lack_a_core_or_count_nothing_say_nothing(text, tmp_path, monkeypatch):
    assert core_times(text, {0, 1}, 0.01) is None
    monkeypatch.setattr(meters, "STAT", tmp_path / "stat")
    meters.STAT.write_text(text)
    monkeypatch.setattr(meters.os, "sched_getaffinity", lambda _: {0, 1})
    assert CoreMeter().since_last() is None and cpu_taken([None]) is None


def test_a_meter_counts_since_the_last_time(tmp_path, monkeypatch):
    monkeypatch.setattr(meters, "STAT", tmp_path / "stat")
    monkeypatch.setattr(meters.os, "sched_getaffinity", lambda _: {1})
    meters.STAT.write_text("cpu1 100 0 0 0 0 0 0 0\n")
    meter = CoreMeter()
    for ticks, stolen in ((300, 40), (350, 40)):
        meters.STAT.write_text(f"cpu1 {ticks} 0 0 0 0 0 0 {stolen}\n")
        last = meter.since_last()
    assert (last.busy_s, last.stolen_s) == pytest.approx((0.5, 0.0))


def ranks(count: int, busy_s: float, rank_s: float, cores: str = "machine [0, 1]", stolen_s: float = 0.0):
    """The messages of ranks on two cores after ten seconds."""
    return [CoreTimes(cores, 20.0, busy_s, stolen_s, rank_s)] * count


def share(messages) -> float:
    return cpu_taken(messages).share


def test_ranks_that_compete_with_each_other_take_nothing():
    assert share(ranks(8, busy_s=20, rank_s=2.5)) == 0
    assert on_busy_machine("measured", share(ranks(8, busy_s=20, rank_s=2.5))) == ""


def test_other_processes_and_the_hypervisor_do():
    assert share(ranks(2, busy_s=20, rank_s=7)) == pytest.approx(0.3)
    assert share(ranks(2, busy_s=14, rank_s=7, stolen_s=6)) == pytest.approx(0.3)
    assert on_busy_machine("measured", 0.31) == "on a busy machine (31 % taken by others)"


def test_each_machine_has_its_own_others():
    idle, busy = ranks(2, busy_s=14, rank_s=7), ranks(2, busy_s=20, rank_s=7, cores="another [0, 1]")
    assert share([*idle, *busy]) == pytest.approx(0.15)
    assert cpu_taken([*idle, None]) is None


def test_what_is_not_known_or_not_measured_is_not_marked():
    for kind, taken in (("measured", None), ("measured", float("nan")), ("measured", MOST_TAKEN), ("emulated", 0.9)):
        assert on_busy_machine(kind, taken) == ""
    assert CpuTaken(processes_s=0.0, hypervisor_s=0.0, available_s=0.0).share is None
    assert CpuTaken(processes_s=-0.02, hypervisor_s=0.0, available_s=9.0).share == 0
