"""Schedules of pipelines against golden files, invariants of random schedules, and `repro schedule`."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from repro.algorithms.pipeline import timeline
from repro.algorithms.pipeline.layout import Layout, make_layout
from repro.algorithms.pipeline.passes import BACKWARD, FORWARD, SEMANTICS, Plan, flush_of
from repro.algorithms.pipeline.versions import Versions
from repro.cli.main import main
from repro.core.errors import InputError
from repro.strategies.shared import pipeline as pipelines
from tests.unit.strategies.test_pipedream import BLOCKS
from tests.unit.strategies.test_pipedream import run as train

_SECTIONS = Path(__file__).with_name("schedules.txt").read_text().split("# ")[1:]
DRAWN = dict(section.split("\n", 1) for section in _SECTIONS)  # name -> a schedule as text


def placed(config: str) -> Layout:
    """One block a stage."""
    stages = len(config.split("-"))
    return make_layout(config, range(1, stages), stages)


def plan(config: str, minibatches: int, **how) -> Plan:
    return Plan(placed(config), minibatches, **how)


# --- where a run may stop


def test_a_run_stops_between_updates_and_at_its_end_after_all():
    """Rounds of two minibatches, of nine in all: the last round is of one. Iterations are of three."""
    replicated = plan("2-1", 9)
    assert [replicated.stop_at(minibatches) for minibatches in range(1, 10)] == [0, 2, 2, 4, 4, 6, 6, 8, 9]
    assert [replicated.next_stop(minibatch, 3) for minibatch in (0, 2, 5, 6, 8)] == [2, 6, 6, 9, 9]
    assert [plan("1-1", 7).stop_at(minibatches) for minibatches in (1, 6, 7)] == [1, 6, 7]


# --- text

# file -> configuration, how, units of a forward and a backward pass, what `repro schedule` is given for it
GOLDEN = {
    "1f1b": ("1-1-1-1", {}, (1, 1), []),  # Figure 8
    "1f1b-backward-twice-as-long": ("1-1-1-1", {}, (1, 2), ["--backward", "2"]),
    "model-parallel": ("1-1-1-1", {"in_flight": 1}, (1, 1), ["--in-flight", "1"]),  # Figure 3
    "gpipe": ("1-1-1-1", {"schedule": "gpipe", "flush": 4}, (1, 1), ["--schedule", "gpipe"]),
    "1f1b-flush": ("1-1-1-1", {"schedule": "1f1b-flush", "flush": 4}, (1, 1), ["--schedule", "1f1b-flush"]),
    "replicated": ("2-1-1", {}, (1, 1), []),
    "replicated-no-overlap": ("2-1-1", {"overlap": False}, (1, 1), ["--overlap", "off"]),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name):
    config, how, units, _ = GOLDEN[name]
    assert timeline.draw_plan(plan(config, 8, **how), *units) + "\n" == DRAWN[name]


# --- what holds of every schedule, on random configurations


def stages(one: Plan) -> int:
    return len(one.layout.stages)


def chosen(seed: int) -> tuple[str, int, random.Random]:
    """A configuration of up to six stages and five replicas, and a number of minibatches that may not fill it."""
    draw = random.Random(seed)
    replicas = [draw.choice([1, 1, 2, 3, 4, 5]) for _ in range(draw.randint(1, 6))]
    minibatches = draw.choice([1, 2, sum(replicas) - 1 or 1, draw.randint(1, 60)])
    return "-".join(map(str, replicas)), minibatches, draw


def any_plan(seed: int) -> Plan:
    """Of any schedule and with any options that are allowed."""
    config, minibatches, draw = chosen(seed)
    schedule = draw.choice(["1f1b", "1f1b", "gpipe", "1f1b-flush"])
    if schedule != "1f1b":
        return plan(config, minibatches, schedule=schedule, flush=draw.randint(1, 3) * flush_of(placed(config)))
    return plan(config, minibatches, semantics=draw.choice(SEMANTICS), overlap=draw.random() < 0.5)


PLANS = [any_plan(seed) for seed in range(50)]


@pytest.mark.parametrize("one", PLANS)
def test_every_pass_happens_once_on_its_rank_and_in_order(one):
    passes = timeline.simulate_plan(one, seconds=lambda stage, kind: 1.0 + 0.5 * stage + (kind == BACKWARD))
    last, every = stages(one) - 1, range(one.minibatches)
    wanted = {(stage, kind, t) for stage in range(last + 1) for kind in (FORWARD, BACKWARD) for t in every}
    assert Counter((p.stage, p.kind, p.minibatch) for p in passes) == Counter(wanted)
    found = {(p.stage, p.kind, p.minibatch): p for p in passes}
    for (stage, kind, t), p in found.items():
        assert p.rank == one.layout.rank_of(stage, t) and one.layout.place(p.rank) == (stage, t % one.replicas(stage))
        if kind == FORWARD and stage:
            assert found[stage - 1, FORWARD, t].end <= p.start
        if kind == BACKWARD:
            assert found[stage, FORWARD, t].end <= p.start
            assert stage == last or found[stage + 1, BACKWARD, t].end <= p.start
    for rank in range(one.layout.ranks):
        mine = sorted((p.start, p.end) for p in passes if p.rank == rank)
        assert all(before[1] <= after[0] for before, after in pairwise(mine))


def most_in_flight(one: Plan, stage: int, replica: int) -> int:
    under_way, most = 0, 0
    for op in one.ops(stage, replica):
        under_way += 1 if op.kind == FORWARD else -1
        most = max(most, under_way)
    return most


def test_never_more_in_flight_than_the_window():
    for one in PLANS:
        assert one.window(0) == one.layout.noam
        for stage in range(stages(one)):
            share = one.flush // one.replicas(stage) if one.flush else one.minibatches
            allowed = share if one.schedule == "gpipe" else min(one.window(stage), share)
            for replica in range(one.replicas(stage)):
                assert most_in_flight(one, stage, replica) == min(allowed, one.count(stage, replica))


@pytest.mark.parametrize("config", ["1-1-1-1", "2-1-1", "1-3"])
@pytest.mark.parametrize("in_flight", [1, 2, 3, 9])
def test_no_more_are_admitted_than_asked_for(config, in_flight):
    one = plan(config, 40, in_flight=in_flight)
    assert most_in_flight(one, 0, 0) == min(in_flight, one.layout.noam)


def test_1f1b_alternates_between_start_up_and_drain():
    for seed in range(50):
        config, minibatches, _ = chosen(seed)
        one = plan(config, minibatches)
        for stage in range(stages(one)):
            for replica in range(one.replicas(stage)):
                count = one.count(stage, replica)
                ahead = min(one.window(stage), count)
                kinds = "".join(op.kind for op in one.ops(stage, replica))
                assert kinds == "F" * ahead + "BF" * (count - ahead) + "B" * ahead


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("overlap", [True, False])
def test_noam_minibatches_in_flight_never_deadlock(semantics, overlap):
    for seed in range(25):
        config, minibatches, _ = chosen(seed)
        timeline.simulate_plan(plan(config, minibatches, semantics=semantics, overlap=overlap))
        timeline.check_deadlock(plan(config, 10_000 + seed, semantics=semantics, overlap=overlap))


@pytest.mark.parametrize("units", [(1, 1), (1, 2), (2, 3), (3, 1)])
@pytest.mark.parametrize("length", [1, 2, 5, 8])
def test_a_balanced_straight_pipeline_is_never_idle_in_its_steady_state(length, units):
    """Section 3.3, also where a backward pass takes longer than a forward pass."""
    passes = timeline.timeline_passes(plan("-".join(["1"] * length), 3 * length + 5), *units)
    for rank in range(length):
        mine = sorted((p.start, p.end, p.kind, p.minibatch) for p in passes if p.rank == rank)
        first = next(i for i, (*_, kind, _) in enumerate(mine) if kind == BACKWARD)
        last = max(i for i, (*_, kind, _) in enumerate(mine) if kind == FORWARD)
        assert all(before[1] == after[0] for before, after in pairwise(mine[first : last + 1]))


@pytest.mark.parametrize("overlap", [True, False])
def test_a_plan_that_deadlocks_is_refused_in_one_line(overlap):
    """Two replicas of the input stage with one minibatch each: a third is admitted when both have ended their round."""
    with pytest.raises(InputError, match=r"1f1b of 2-1-1 deadlocks: rank 0 \(stage 0\).*minibatch 2; give it") as said:
        timeline.check_deadlock(plan("2-1-1", 16, in_flight=1, overlap=overlap))
    assert "\n" not in str(said.value)


def test_a_flush_that_replicas_cannot_share_is_refused():
    with pytest.raises(InputError, match="a flush of 3 minibatches cannot be shared by the 2 replicas of stage 1"):
        plan("1-2", 12, schedule="gpipe", flush=3)


# --- versions of the weights


def test_versions_start_with_the_first_and_never_go_back():
    """And no gradient uses weights that include updates of later minibatches."""
    for one, stage in [(each, stage) for each in PLANS for stage in range(stages(each))]:
        versions = [one.version(stage, k, 0) for k in range(one.count(stage, 0))]
        assert versions[:1] == [0] and all(a <= b for a, b in pairwise(versions))
        assert all(version <= one.update_of(stage, k) for k, version in enumerate(versions))


def test_vertical_sync_has_one_version_in_all_stages():
    """Counted in minibatches, if the groups of updates divide each other; else the whole updates among them."""
    for config, minibatches, draw in map(chosen, range(50)):
        one = plan(config, minibatches, semantics="vertical_sync", overlap=draw.random() < 0.5)
        for t in range(minibatches):
            counts = [one.version(s, t // m, t % m) * m for s, m in enumerate(map(one.group, range(stages(one))))]
            for stage, count in enumerate(counts):
                if one.group(0) % one.group(stage) == 0:
                    assert count == counts[0]
                else:
                    assert counts[0] - one.group(stage) < count <= counts[0]


@pytest.mark.parametrize("config", ["1-1", "1-1-1-1-1", "2-1-1", "3-1", "1-2-1", "2-3"])
def test_predicted_versions(config):
    """Stashing: as many as minibatches in flight, and one more where replicas go on while they synchronise. Vertical
    sync: in all of a straight pipeline the input stage's. Naive: one."""
    for options in ({}, {"overlap": False}, {"in_flight": 2}):
        one = plan(config, 12, **options)
        places = [one.layout.place(rank) for rank in range(one.layout.ranks)]
        assert [one.stashes(*p) + 1 for p in places] == [one.window(p.stage) + one.overlaps(p.stage) for p in places]
    naive = plan(config, 12, semantics="naive")
    assert {naive.stashes(*place) for place in places} == {0}
    if set(config) == {"1", "-"}:
        synced = plan(config, 12, semantics="vertical_sync")
        assert {synced.stashes(*place) + 1 for place in places} == {synced.layout.noam}


@pytest.mark.parametrize(
    ("config", "options"), [("1-1-1-1-1", {"in_flight": 2}), ("2-1-1", {}), ("2-1-1", {"overlap": False}), ("2-3", {})]
)
@pytest.mark.parametrize("semantics", SEMANTICS)
def test_a_run_holds_the_predicted_versions_and_minibatches(config, options, semantics, monkeypatch):
    recorded = []

    class Recorded(Versions):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            recorded.append(self)

    monkeypatch.setattr(pipelines, "Versions", Recorded)
    options, cuts = options | {"semantics": semantics}, list(range(1, len(config.split("-"))))
    states = train(config, cuts, steps=6, options=options).states
    one = Plan(make_layout(config, cuts, BLOCKS), 100, **options)
    places = [one.layout.place(rank) for rank in range(one.layout.ranks)]
    assert [versions.peak for versions in recorded] == [one.stashes(*place) + 1 for place in places]
    assert [state["most_flying"] for state in states] == [one.most_in_flight(place.stage) for place in places]


# --- from the shell


@pytest.mark.parametrize("name", ["1f1b-flush", "replicated-no-overlap"])
def test_the_command_prints_it(name, capsys):
    config, _, _, arguments = GOLDEN[name]
    assert main(["schedule", config, *arguments]) == 0
    head, text = capsys.readouterr().out.split("\n", 1)
    assert text == DRAWN[name]
    assert f" of {config}, " in head and "8 minibatches in " in head


def test_as_json(capsys):
    assert main(["schedule", "2-1", "--minibatches", "3", "--backward", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    passes = found.pop("passes")
    settings = {"config": "2-1", "schedule": "1f1b", "minibatches": 3, "flush": None, "in_flight": None}
    settings |= {"semantics": "stashing", "overlap": True}
    assert found == settings | {"noam": 2, "forward": 1, "backward": 2}
    assert len(passes) == 2 * 2 * 3
    assert passes[0] == {"rank": 0, "stage": 0, "kind": "F", "minibatch": 0, "start": 0.0, "end": 1.0}
    [last] = [one for one in passes if (one["stage"], one["kind"], one["minibatch"]) == (1, "B", 0)]
    assert last == {"rank": 2, "stage": 1, "kind": "B", "minibatch": 0, "start": 2.0, "end": 4.0}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["two"], "config two: must be the replicas of each stage, as in 2-1-1"),
        (["1-1", "--schedule", "pipe"], "unknown schedule 'pipe'; valid: gpipe"),
        (["1-1", "--flush", "4"], "--flush 4: only gpipe and 1f1b-flush have flushes"),
        (["1-1", "--schedule", "gpipe", "--semantics", "naive"], "--semantics naive: only schedule 1f1b has it"),
        (["1-1", "--schedule", "gpipe", "--in-flight", "2"], "--in-flight 2: only schedule 1f1b has it, not gpipe"),
        (["2-1", "--schedule", "gpipe", "--flush", "3"], "a flush of 3 minibatches cannot be shared by the 2 replicas"),
        (["2-1-1", "--in-flight", "1"], "the schedule 1f1b of 2-1-1 deadlocks: rank 0 (stage 0)"),
    ],
)
def test_the_command_refuses(arguments, words, capsys):
    assert main(["schedule", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == "" and words in said.err and said.err.count("\n") == 1
