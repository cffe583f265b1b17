"""How long runs will take, by what is recorded of ones like them."""

import json

import pytest

from repro.cli.main import main
from repro.experiment.expand import expand_runs
from repro.experiment.identify import identify_runs
from repro.experiment.key import Keys
from repro.launch.forecast import (
    LIKE,
    SAME,
    SIZE,
    UNKNOWN,
    Duration,
    Estimate,
    Forecast,
    Workload,
    estimate_runs,
    fill_unknown,
    run_duration,
    total_duration,
)
from repro.records.record import Found
from repro.records.variants import REFERENCE, WORKSPACE
from tests.support import records
from tests.support.cli import EXPERIMENT


@pytest.fixture(scope="module")
def runs():
    found = expand_runs(EXPERIMENT, ["device=cpu", "dataset.standin=always"], "quick")
    identify_runs(found)
    return found


def finished(run, seconds, origin=REFERENCE, hour=10, **changes):
    """A record of a run that began at an hour; half of its time it iterated."""
    own = {"key": "older", "iterations": run.iterations}
    ended = f"2026-01-01T{hour}:{seconds // 60:02d}:{seconds % 60:02d}+00:00"
    rest = {"hardware": {"class": "old"}, "wall": {"total_s": seconds / 2}}
    when = {"provenance": {"started_at": f"2026-01-01T{hour}:00:00+00:00", "finished_at": ended}}
    return Found(origin, records.finished(run, **(own | rest | when | changes)))


def test_the_same_run_counts_most_then_its_variant_at_another_size_then_the_experiment(runs):
    first, *_ = runs
    assert estimate_runs([first], []) == [Estimate(None, UNKNOWN)]
    here = first.hardware["class"]
    like = finished(first, 30, variant="another variant", hardware={"class": here})
    assert estimate_runs([first], [like]) == [Estimate(30.0, LIKE, here)]
    longer = finished(first, 100, scale="full", iterations=5 * first.iterations)
    assert estimate_runs([first], [like, longer]) == [Estimate(60.0, SIZE, "old")]  # 50 s of start, a fifth of the rest
    shorter = finished(first, 10, scale="full", iterations=int(first.iterations / 5))
    assert estimate_runs([first], [longer, shorter])[0].by == SIZE
    more_epochs = finished(first, 100, iterations=5 * first.iterations)
    assert estimate_runs([first], [more_epochs]) == [Estimate(60.0, SIZE, "old")]
    same = [finished(first, 40, hour=10), finished(first, 50, hour=11)]
    assert estimate_runs([first], [*same, like, longer]) == [Estimate(40.0, SAME, "old")]


def test_what_others_took_of_a_busy_machine_is_left_out(runs):
    first, *_ = runs
    taken = {"processes_s": 50.0, "hypervisor_s": 10.0, "available_s": 80.0}
    busy = finished(first, 100, cpu_taken=taken)
    assert estimate_runs([first], [busy]) == [Estimate(25.0, SAME, "old")]


def test_a_dry_run_scales_by_iterations_as_a_run_does(runs):
    planned = expand_runs(EXPERIMENT, ["device=cpu", "dataset.standin=always"], "quick")
    keys = Keys()
    for run in planned:
        keys.assign(run)
    assert [run.iterations for run in planned] == [run.iterations for run in runs] and planned[0].iterations


def test_the_duration_of_a_probe_at_another_size_is_unknown():
    full = Workload(("validation", "shaped"), ("p=2", "shaped/1g", None), "measured", "key", "full", None, "old")
    known = Forecast([Duration(full, 240.0, 230.0)])
    assert known.of(full._replace(key="newer")) == Estimate(240.0, SAME, "old")
    assert known.of(full._replace(key="newer", scale="quick")) == Estimate()
    other = full._replace(key="newer", variant=("p=3", "shaped/1g", None))
    assert known.of(other) == Estimate(240.0, LIKE, "old")
    assert known.of(other._replace(scale="quick")) == Estimate()


def test_other_runs_count_if_they_are_of_this_machine_and_agree(runs):
    first, *_ = runs
    here = {"hardware": {"class": first.hardware["class"]}}
    near = [finished(first, seconds, variant=f"v{seconds}", **here) for seconds in (30, 40, 50)]
    assert estimate_runs([first], near) == [Estimate(40.0, LIKE, first.hardware["class"])]
    changed = finished(first, 30, model={"name": "softmax"}, changed=["model.name"], **here)
    assert estimate_runs([first], [changed]) == [Estimate()]  # nor the other way round
    scattered = [*near, finished(first, 300, variant="slow", **here)]
    assert estimate_runs([first], scattered) == [Estimate(most_s=300.0)]  # a bound, no estimate
    assert estimate_runs([first], [finished(first, 30, variant="elsewhere")]) == [Estimate()]


def test_a_run_of_the_workspace_counts_more_than_a_later_one_of_the_reference(runs):
    theirs, ours = finished(runs[0], 50, hour=12), finished(runs[0], 25, WORKSPACE, hour=11)
    assert estimate_runs(runs[:1], [theirs, ours]) == [Estimate(25.0, SAME, "old")]


@pytest.mark.parametrize(
    "said", [{}, {"started_at": 3, "finished_at": 4}, {"started_at": "2026-01-01", "finished_at": ""}]
)
def test_a_record_without_times_says_nothing(runs, said):
    assert run_duration(finished(runs[0], 30, provenance=said).record) is None


def test_measured_runs_go_one_by_one_and_simulated_ones_side_by_side(runs):
    some = [*[run for run in runs if not run.simulated][:2], *[run for run in runs if run.simulated][:3]]
    times = [Estimate(seconds, SAME, "old") for seconds in (10.0, None, 4.0, 2.0, 9.0)]
    assert total_duration(some, times, cores=2).seconds == 10 + 9
    assert total_duration(some, times, cores=1).seconds == 10 + 15
    assert total_duration(some, times, cores=1).machines == {"old": 5}
    assert total_duration([], [], 2).seconds == 0 and fill_unknown([None, None]) == [0.0, 0.0]


def test_a_dry_run_says_what_is_there_and_how_long_the_rest_takes(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    timing = ["testbed=paper/pipesgd", "testbed.arithmetic=none", "--dry-run"]
    assert main(["run", EXPERIMENT, *timing, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told and {row["experiment"] for row in told} == {EXPERIMENT}
    assert {row["state"] for row in told} <= {"published", "stale", "missing"}
    assert main(["run", EXPERIMENT, *timing]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[1].startswith(EXPERIMENT) and said[2].startswith(f"{len(told)} of {len(told)} runs to do: ")
    assert main(["run", "pipesgd", "--dry-run"]) == 0
    assert "for the pages" in capsys.readouterr().out
    assert not list(tmp_path.glob("*/*/*/*")), "a dry run left something"
