"""Accuracies as a reader sees them: points, one seed, pairs of the same minibatches, and the hours that they took."""

from __future__ import annotations

from repro.answers.claims.claims import Claim
from repro.answers.claims.evaluate import Evidence, Outcome, judge_claim
from repro.answers.claims.undecided import not_testable
from repro.answers.figures.specification import Experiment
from repro.answers.pages import accuracy_table, wording
from repro.answers.tables.runs import Runs
from repro.cli import accuracy_matrix
from repro.records.record import Found, Hardware
from tests.unit.answers.test_time_to_target import run_of

CLAIM = Claim.model_validate(
    {
        **{"id": "harmless", "about": "accuracy", "text": "no loss", "source": "Table 1", "experiment": "fig1"},
        **{"paper": {"low": 0.0, "shown": "no loss"}, "tolerance": {"absolute": 0.01}},
        "value": {"verb": "difference", "column": "final", "of": {"variant": "fast"}, "over": {"variant": "slow"}},
    }
)


def judged(*differences):
    return judge_claim(CLAIM, "simulated", Evidence(Outcome(dict(enumerate(differences)))), None)


def test_differences_of_accuracies_are_points_and_one_seed_is_called_one_seed():
    several, single = judged(-0.17, -0.18, -0.19), judged(-0.1790)
    assert wording.ours(several) == "-18.0 points (-19.7 to -16.3)" and "margin 1 points" in several.verdict.reason
    assert wording.ours(single) == "-17.9 points"
    assert [accuracy_table.describe_seeds(each) for each in (single, several)] == ["one seed", "3 pairs"]


def test_seeds_of_a_baseline_are_not_those_of_a_variant_that_ran_once():
    runs = [run_of("slow", seed, 0.1, [0.1, 0.8]) for seed in range(3)] + [run_of("fast", 0, 0.1, [0.1, 0.8])]
    assert accuracy_matrix.describe_runs(runs).endswith(", 1 or 3 seeds")


def test_a_share_of_a_loss_is_a_percentage_though_it_is_about_accuracy():
    share = CLAIM.paper.model_copy(update={"low": None, "high": 0.0, "unit": "%"})
    assert wording.value(share, 0.4128, "accuracy") == wording.value(share, 0.4128, "time") == "41.3"


def test_runs_of_other_minibatches_are_no_pairs():
    slow, fast = (run_of(name, 0, 0.1, [0.1, 0.8]) for name in ("slow", "fast"))
    assert not_testable(CLAIM, Runs.of([slow, fast])) == ""
    subtracted = accuracy_table.describe_other_side(CLAIM, Runs.of([slow, fast]), Experiment(), "pipesgd")
    assert subtracted == "slow: 0.8000; none printed"
    other = fast.changed(batch=16)
    assert not_testable(CLAIM, Runs.of([slow, other])) == "pairs with other minibatches: 16 of mnist; 8 of mnist"


def test_hours_count_the_cores_that_ranks_can_use_and_gpus_apart():
    run = run_of("slow", 0, 0.1, [0.1, 0.8])

    def hours(kind="simulated", ranks=1, **machine):
        hardware = Hardware.model_validate({"class": "x"} | machine)
        changes = {"wall": {"total_s": 7200.0}, "hardware": hardware, "kind": kind, "ranks": ranks}
        return accuracy_matrix.hours_of([Found(run.origin, run.record.model_copy(update=changes))])

    assert hours(ranks=4, cores=2) == (2.0, 0.0)  # virtual workers take turns
    assert hours("measured", ranks=4, cores=2) == (4.0, 0.0)
    assert hours("measured", ranks=4, cores=16, gpu="NVIDIA H100") == (0.0, 2.0)
