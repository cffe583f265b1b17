"""Time to a target: epochs of seeds times the time of an epoch over draws, and what cannot be said."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from repro.answers.tables.runs import Runs
from repro.answers.tables.time_to_target import (
    EPOCHS_TO,
    FASTER,
    REACHED,
    SOONER,
    Target,
    describe_targets,
    tabulate_targets,
)
from repro.core.errors import InputError
from repro.core.paths import reference_root
from repro.core.phases import PHASES
from tests.support.records import found_of

TARGET = Target("a network", "fig1", 0.8, "slow", {"slow": "Slow", "fast": "Fast"})


def run_of(variant, seed, step_s, scores, **testbed):
    curve = [{"iteration": 10 * n, "epoch": n, "train_s": n, "top1": score} for n, score in enumerate(scores)]
    return found_of(
        {
            **{"key": f"{variant}{seed}", "paper": "pipesgd", "experiment": "fig1", "run": f"{variant}-s{seed}"},
            **{"variant": variant, "strategy": "dsync", "kind": "simulated", "testbed": "paper/x", "workers": 2},
            **{"batch": 8, "scale": "full", "seed": seed, "fabric": "virtual", "hardware": {"class": "cpu"}},
            "testbed_model": {"kind": "simulated", "launcher": "virtual", **testbed},
            **{"iterations": 10 * (len(scores) - 1), "iterations_per_epoch": 10, "curve": curve},
            **{"dataset": {"name": "mnist", "standin": False}, "final": {"top1": scores[-1], "train_s": 1.0}},
            **{"targets": {}, "step": {"mean_s": step_s}, "phases": dict.fromkeys(PHASES, 0.0), "bytes_sent": 0},
            "communication": {"total_s": 0, "exposed_s": 0, "overlapped_s": 0},
            "provenance": {},
        }
    )


def results_of(*runs, at_draws=None, emulated=(), root=None):
    """What the tables ask of a paper's results; at_draws: the runs at draws of their inputs."""
    of_kind = {"simulated": Runs.of(runs), "emulated": Runs.of(emulated)}
    group, drawn = Runs.of(runs), Runs.of(at_draws or runs)
    sweeps = SimpleNamespace(configured=group) if at_draws else None
    evaluator = SimpleNamespace(errors_for=lambda runs: None, runs_at_draws=lambda of, errors: drawn)
    return SimpleNamespace(
        find=lambda name, kind: of_kind[kind] or None,
        drawn=lambda name: sweeps,
        evaluator=evaluator,
        root=root or Path("results"),
    )


def test_fewer_epochs_and_faster_ones_are_told_apart_and_multiply():
    runs = [run_of("slow", seed, 0.4, [0.1, 0.5, 0.8, 0.9]) for seed in (0, 1)]
    runs += [run_of("fast", seed, 0.1, [0.1, 0.5, 0.6, 0.7, 0.8]) for seed in (0, 1)]
    draws = [run_of(name, draw, step_s * (0.5 + draw / 64), [0]) for name, step_s in (("slow", 0.4), ("fast", 0.1))
             for draw in range(64)]  # fmt: skip
    emulated = [run_of(name, 0, step_s, [0]) for name, step_s in (("slow", 0.6), ("fast", 0.1))]
    table = tabulate_targets(results_of(*runs, at_draws=draws, emulated=emulated), [TARGET])
    [text], row = describe_targets(table), table.iloc[1]
    assert (
        row["emulated"] == pytest.approx(6.0)
        and text[FASTER] == "4.00\N{MULTIPLICATION SIGN}; emulated 6.00\N{MULTIPLICATION SIGN}"
    )
    assert (row["epochs"], row["fewer"]) == (4, 0.5)
    assert row["epoch_s"] == pytest.approx(10 * 0.1) and row["seconds"] == pytest.approx(4 * 10 * 0.1)
    # paired: a draw that makes both slower does not widen the range of their ratio
    assert row["seconds_low"] < 3 and row["seconds_high"] > 5
    assert row["faster_low"] == row["faster_high"] == pytest.approx(4.0)
    assert row["sooner_low"] == row["sooner_high"] == pytest.approx(2.0)


def test_a_seed_that_misses_the_target_counts_as_never():
    runs = [run_of("slow", seed, 0.2, [0.1, 0.8]) for seed in (0, 1, 2)]
    runs += [run_of("fast", seed, 0.1, [0.1, 0.8 if seed else 0.7]) for seed in (0, 1, 2)]
    table = tabulate_targets(results_of(*runs), [TARGET])
    fast = table[table["variant"] == "Fast"].iloc[0]
    assert (fast["reached"], fast["seeds"]) == (2, 3) and math.isinf(fast["epochs_high"])
    assert (fast["sooner_low"], fast["sooner_high"]) == (0, pytest.approx(2.0))
    [text] = describe_targets(table)
    assert text[EPOCHS_TO] == "1.0 (1.0 to not reached); 1.0" and text[REACHED] == "2 of 3; 3 of 3"


def test_times_whose_assumed_inputs_were_not_drawn_have_no_range():
    made = {"slow": 0.2, "fast": 0.1}
    runs = [run_of(name, 0, step_s, [0.1, 0.8], assumed={"alpha_s": 0.1}) for name, step_s in made.items()]
    wide = [run_of(name, draw, step_s * (1 + draw * (name == "fast")), [0]) for name, step_s in made.items()
            for draw in range(64)]  # fmt: skip
    results = results_of(*runs, at_draws=wide)
    assert tabulate_targets(results, [TARGET]).iloc[1]["faster_low"] < 1
    results.drawn = lambda name: None  # what is left is the validation's error, which is not all
    row = tabulate_targets(results, [TARGET]).iloc[1]
    assert row["faster_low"] == row["faster"] == row["faster_high"] == pytest.approx(2.0)


def test_a_target_above_what_the_baseline_reaches_is_an_error_of_committed_runs_and_no_ratio_of_others():
    runs = [run_of(name, 0, 0.1, [0.1, 0.7]) for name in ("slow", "fast")]
    with pytest.raises(InputError, match=r"fig1: no run of slow reaches the target 0.8; the best top1 of its 1 is 0.7"):
        tabulate_targets(results_of(*runs, root=reference_root()), [TARGET])
    [text] = describe_targets(tabulate_targets(results_of(*runs), [TARGET]))
    assert text[EPOCHS_TO] == "not reached; not reached" and text[SOONER] == "\N{EN DASH}"
