"""Evidence for claims: the runs that speak to a claim, those that do not, and the uncertainty of its number."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import yaml

from repro.answers.claims.claims import Baseline, Restated
from repro.answers.claims.drawn import Drawn, Sweeps
from repro.answers.claims.evaluate import Outcome, judge_claim
from repro.answers.claims.evidence import ClaimEvaluator, claims_of
from repro.answers.claims.residuals import Residual, Residuals
from repro.answers.claims.undecided import not_all_drawn
from repro.answers.claims.value import Value
from repro.answers.pages import wording
from repro.answers.tables.runs import row_of
from repro.core.errors import InputError
from repro.records.sweep import Draw
from tests.reports.data.planned import shown
from tests.reports.data.probes import timings
from tests.reports.data.summaries import (
    FIG4,
    all_runs,
    claim,
    evaluator,
    make,
    of_runs,
    taken_by_others,
    timing_only,
    verdict,
)
from tests.support.records import found_of

ALONE = {"class": "cpu-64core", "cores": 64, "gpu": None, "network": "10 Gbit/s"}


def test_numbers_of_made_up_runs():
    made = of_runs([run | {"hardware": ALONE} for run in all_runs(seeds=3)])
    fast = verdict(made, "speedup-vs-dsync")
    assert fast.verdict.text == "reproduced" and fast.seeds == 3
    for name, expected in {
        "speedup-vs-dsync": (3.5 + 6) / (3.5 + 0.5),  # with truncation, which is faster here than quantization
        "communication-halved": 0.5,
        "dsync-truncation-not-ideal": 6 / 3.7,
        "compression-overhead-hidden": 3.2 / 0.5,
        "quantization-communication-hidden": 0,
        "timing-model-pipe": 1,
    }.items():
        assert verdict(made, name).estimate.point == pytest.approx(expected), name


def test_verbs_see_the_mean_of_what_ranks_say_and_what_stands_in_a_pipeline():
    ranks = [{"role": "server"}, {"pull_s": 1.0, "first_step": {"pull_s": 4.0}}, {"pull_s": 3.0, "steps": 2}]
    row = row_of(found_of(make("D-Sync", per_rank=ranks, pipeline={"noam": 2, "profile": {"startup_s": 0.5}})))
    assert row["per_rank.pull_s"] == 2 and row["per_rank.first_step.pull_s"] == 4 and "per_rank.role" not in row
    assert row["pipeline.noam"] == 2 and row["pipeline.profile.startup_s"] == 0.5


def test_ranks_that_share_cores_are_out_of_scope_for_times_alone():
    every = all_runs(seeds=2)
    shared = f"out of scope ({every[0]['ranks']} ranks share 2 cores)"
    two, gpu = ALONE | {"cores": 2}, ALONE | {"gpu": "made up x 1", "gpu_shared_by": 4}
    for hardware, launcher, text in (
        (two, "mpirun", shared),
        (two, "srun", None),  # ranks of a cluster are on several machines
        (gpu, "mpirun", "out of scope (4 ranks share a GPU)"),
        (gpu, "srun", "out of scope (4 ranks share a GPU)"),
        (ALONE | {"cores": 2, "gpu": "H200"}, "mpirun", None),
    ):
        made = of_runs([run | {"hardware": hardware, "launcher": launcher} for run in every])
        fast = verdict(made, "speedup-vs-dsync")
        assert fast.verdict.text == text if text else not fast.verdict.text.startswith("out of"), (hardware, launcher)
        assert fast.estimate.point == pytest.approx(9.5 / 4)
        assert not verdict(made, "accuracy-d-sync").verdict.text.startswith("out of")
    assert not verdict(made, "speedup-vs-dsync", "simulated").verdict.text.startswith("out of")


def test_times_of_a_busy_machine_are_shown_with_a_mark_and_decide_nothing():
    idle, busy = (
        of_runs([run | {"hardware": ALONE, "cpu_taken": taken_by_others(share)} for run in all_runs(seeds=3)])
        for share in (0.04, 0.31)
    )
    assert verdict(idle, "speedup-vs-dsync").verdict.answer == "reproduced"
    fast = verdict(busy, "speedup-vs-dsync")
    mark = "on a busy machine (31 % taken by others)"
    assert fast.verdict.text == f"out of scope ({mark})"
    assert wording.cell(fast) == f"out of scope: {wording.ours(verdict(idle, 'speedup-vs-dsync'))}, {mark}"
    assert verdict(busy, "accuracy-d-sync").verdict == verdict(idle, "accuracy-d-sync").verdict
    assert verdict(busy, "speedup-vs-dsync", "simulated").verdict.answer != "out of scope"


def test_runs_that_are_missing_are_a_reason():
    made = of_runs([make("D-Sync"), make("Pipe-SGD + T", seed=1)])
    assert verdict(made, "speedup-vs-ps").verdict.text == "not run (no results for PS-Sync)"
    assert "no seed in common" in verdict(made, "speedup-vs-dsync").verdict.text
    assert verdict(made, "speedup-vs-dsync", "simulated").verdict.text == "not run"


def test_a_target_that_was_not_reached_decides():
    never = {"0.97": None}
    apart = [make("PS-Sync", targets=never, seed=seed, hardware=ALONE) for seed in range(5)]
    apart += [make("D-Sync", seed=seed, hardware=ALONE) for seed in range(5)]
    found = verdict(of_runs(apart), "convergence-dsync")
    assert found.estimate.point == math.inf and found.verdict.answer == "reproduced"
    neither = of_runs([make("PS-Sync", targets=never), make("D-Sync", targets=never)])
    none = verdict(neither, "convergence-dsync").verdict
    assert none.answer == "not run" and "0.97" in none.reason


def test_accuracies_of_stand_in_data_or_of_time_alone_are_not_tried():
    standin = all_runs(["measured"], 1, dataset={"name": "mnist-standin-digits", "standin": True})
    assert verdict(of_runs(standin), "accuracy-d-sync").verdict.text == "not testable here (stand-in data)"
    timed = of_runs([timing_only(make("D-Sync", "simulated")), timing_only(make("Pipe-SGD + T", "simulated"))])
    accuracy = verdict(timed, "accuracy-d-sync", "simulated").verdict.text
    assert accuracy == "not testable here (Only times are simulated, no accuracies.)"
    assert verdict(timed, "speedup-vs-dsync", "simulated").verdict.judged


def test_a_function_over_another_program_is_a_reason_and_no_crash():
    group, train = shown("pipesgd", timings(1), "timing-model"), shown("pipesgd", [make()], FIG4)
    for name, runs, reason in (
        ("linear-scaling", train, "reads results of the program timing, not of train"),
        ("compression-overhead-hidden", group, "no phases.communicate was recorded"),
        ("terngrad-overhead-compressed", train, "no results for overheads, ternary, 4"),
    ):
        found = verdict(evaluator(runs), name).verdict
        assert found.answer == "not run" and reason in found.reason


def test_simulated_times_have_the_error_of_the_validation():
    judge_runs = of_runs(all_runs(), None)
    simulated, measured = (judge_runs.evidence(claim("speedup-vs-dsync"), kind) for kind in ("simulated", "measured"))
    assert not measured.error and measured.sample is None and "times of" in simulated.error
    assert simulated.sample.drawn and len({*simulated.sample.values}) > 1
    assert not judge_runs.evidence(claim("accuracy-d-sync"), "simulated").error


def test_what_is_assumed_and_not_drawn_has_no_verdict():
    made = of_runs(all_runs(["simulated"], 1, testbed_model={"inputs": {"alpha": {"low": 1.0}}}))
    found = verdict(made, "speedup-vs-dsync", "simulated")
    assert found.verdict.answer == "not run" and "--draws" in found.verdict.reason and found.estimate


def test_draws_that_compute_nothing_say_nothing_of_a_target():
    """Draws are timing only: no target is reached in them, which refutes nothing."""
    runs = shown("pipesgd", all_runs(), FIG4)
    there = [run for run in runs["simulated"].records.values() if run.identity.seed == 0]

    def draws(run):
        result = {"step": run.training.step.model_dump()}
        return [Draw(n, {"beta": {"testbed.beta_s_per_byte": float(n)}}, result) for n in range(16)]

    never = {"targets": {"0.97": None}}
    drawn = [Drawn(run.changed(run.training.model_copy(update=never)), draws(run)) for run in there]
    sweeps = Sweeps(drawn)
    for kind in ("simulated", "emulated"):
        judge_runs = replace(evaluator(runs | {"emulated": runs["simulated"]}, None), drawn=lambda _: sweeps)
        found = verdict(judge_runs, "convergence-dsync", kind)
        assert found.verdict.answer == "not run" and "target" in found.verdict.reason and found.estimate.point > 0
        timed = judge_runs.evidence(claim("dsync-faster-than-ps"), kind)
        assert not timed.not_drawn and (kind == "emulated" or len(timed.sample.values) == 16)
    wanted = claim("convergence-dsync")
    judge_runs = replace(evaluator(runs, None), drawn=lambda _: Sweeps(drawn, runs["simulated"]))
    trained = judge_runs.evidence(wanted, "simulated")  # the iterations of runs with arithmetic, the times of the draws
    assert len(trained.sample.values) == 16 and not any(map(math.isnan, trained.sample.values))
    assert min(trained.sample.values) < trained.outcome.values[0] < max(trained.sample.values)  # by the errors alone
    alone = Sweeps(drawn, runs["simulated"].where(variant="PS-Sync"))  # D-Sync was not trained: that refutes nothing
    half = replace(evaluator(runs, None), drawn=lambda _: alone).evidence(wanted, "simulated")
    assert half.sample is None and "target" in half.not_drawn
    few = replace(trained, outcome=Outcome({0: trained.outcome.values[0]}))
    assert judge_claim(wanted, "simulated", few, None).verdict.text == "open (1 seed, 5 needed)"


def test_draws_of_a_part_of_a_claims_runs_are_none():
    """`fig1-vgg16-most` is the most over three testbeds and six numbers of workers."""
    runs = shown("pipesgd", all_runs(), FIG4)["simulated"]
    wanted = claim("pipe-compression-fastest")  # the better of two codecs
    every = [Drawn(run, []) for run in runs.records.values() if run.identity.seed == 0]
    part = [one for one in every if one.run.label != "Pipe-SGD + Q"]
    assert not not_all_drawn(wanted, runs, Sweeps(every)) and not_all_drawn(wanted, runs, Sweeps(part))


def test_a_function_counts_the_draws_that_all_of_its_runs_have():
    runs = shown("pipesgd", all_runs(), FIG4)
    there = [run for run in runs["simulated"].records.values() if run.identity.seed == 0]
    draws = [Draw(n, {}, {"step": there[0].training.step.model_dump()}) for n in range(64)]
    sweeps = Sweeps([Drawn(run, draws[: 16 if run.label == "PS-Sync" else 64]) for run in there])
    judge_runs = replace(evaluator(runs, None), drawn=lambda _: sweeps)
    counts = [len(judge_runs.evidence(claim(name), "simulated").sample.values)
              for name in ("timing-model-pipe", "pipe-faster-than-dsync")]  # fmt: skip
    assert counts == [16, 64]
    whole = claim("pipe-faster-than-dsync").model_copy(update={"whole": True})  # draws lack what its trainings do later
    evidence = judge_runs.evidence(whole, "simulated")
    assert (
        evidence.sample is None
        and len(evidence.values) == len(runs["simulated"].seeds("D-Sync"))
        and not evidence.not_drawn
    )


def test_an_emulated_twin_is_a_sample_over_its_seeds_and_one_seed_is_none(monkeypatch):
    """Emulated steps take 2, 2.05 and 2.1 times as long as simulated ones, those of like runs three times."""
    wanted = claim("pipe-faster-than-dsync").model_copy(
        update={"value": Value.model_validate({"verb": "value", "column": "step_s", "of": {"variant": "D-Sync"}})}
    )
    errors = Residuals([[Residual("dsync", 3.0)]], "made up")
    monkeypatch.setattr(ClaimEvaluator, "errors_for", lambda self, group: errors)

    def ratios(kind, seeds, draw_s=lambda n: 1.0 + n):
        runs = shown("pipesgd", all_runs(["simulated"], 1) + all_runs(["emulated"], seeds), FIG4)
        draws = [Draw(n, {}, {"step": {"mean_s": draw_s(n), "median_s": draw_s(n)}}) for n in range(16)]
        sweeps = Sweeps([Drawn(run, draws) for run in runs["simulated"].records.values()])
        judge_runs = replace(evaluator(runs, None), drawn=lambda _: sweeps)
        sample = judge_runs.evidence(wanted, kind).sample
        return sample and [value / draw_s(n) for n, value in enumerate(sample.values)]

    assert ratios("emulated", 3) == pytest.approx([(2.0, 2.05, 2.1)[n % 3] for n in range(16)])
    assert all(1 <= ratio <= 2.1 for ratio in ratios("simulated", 3))
    parts = [math.log2(ratio / 3) for ratio in ratios("simulated", 1)]  # of the only pair's ratio, beside the error
    assert len({*parts}) == 16 and all(0 <= part <= 1 for part in parts)
    assert [math.log2(ratio / 3) for ratio in ratios("emulated", 1)] == pytest.approx([2 * part for part in parts])
    assert ratios("emulated", 3, lambda n: 1.0) is None  # no draw moves it: its seeds are all there is


def conditional(monkeypatch, low, high, factor=1.0, draws=64, of_pipe=None):
    """The conditional verdict on Pipe-SGD's lead where its baseline takes 10 + n ms in draw n; factor: the error.

    of_pipe: draws of Pipe-SGD, if not as many."""
    runs = shown("pipesgd", all_runs(["simulated"], 1), FIG4)
    steps = [Draw(n, {}, {"step": {"mean_s": (10 + n) / 1000, "median_s": (10 + n) / 1000}}) for n in range(draws)]
    records = runs["simulated"].records.values()
    sweeps = Sweeps([Drawn(run, steps[: None if run.label == "D-Sync" else of_pipe]) for run in records])
    errors = Residuals([[Residual("dsync", factor), Residual("pipe_sgd", factor)]], "made up")
    monkeypatch.setattr(ClaimEvaluator, "errors_for", lambda self, group: errors)
    baseline = {"value": {"verb": "value", "column": "step_s", "of": {"variant": "D-Sync"}}, "tolerance": {},
                "paper": {"low": low, "high": high, "shown": "printed"}}  # fmt: skip
    wanted = claim("pipe-faster-than-dsync").model_copy(update={"given": Baseline.model_validate(baseline)})
    return replace(evaluator(runs, None), drawn=lambda _: sweeps).evidence(wanted, "simulated").conditional


def test_draws_reproduce_the_papers_baseline_within_both_ends_and_with_the_simulations_error(monkeypatch):
    found = conditional(monkeypatch, 0.0805, 0.1305, factor=2.0)  # of 20 to 146 ms those of 82, 84 to 130
    assert (found.reproducing, found.draws, found.verdict is not None) == (25, 64, True)
    none = conditional(monkeypatch, 0.0805, 0.1305)  # of 10 to 73 ms
    assert (none.reproducing, none.verdict) == (0, None) and not none.at_baseline.reproduced
    assert none.at_baseline.factor < 1 and found.at_baseline.reproduced


def test_sixteen_draws_have_a_conditional_verdict_only_if_all_reproduce_the_baseline(monkeypatch):
    every = conditional(monkeypatch, 0.0, 1.0, draws=16)
    assert every.reproducing == 16 and every.verdict is not None and every.text.startswith(every.verdict.text)
    part, none = (conditional(monkeypatch, 0.0, high, draws=16) for high in (0.0245, 0.001))
    assert part.verdict is None and "15 of 16" in part.text and "20" in part.text
    assert none.verdict is None and not none.at_baseline.reproduced and part.at_baseline.reproduced


def test_the_baseline_may_be_drawn_more_often_than_what_is_compared_with_it(monkeypatch):
    more = conditional(monkeypatch, 0.0505, 0.5, draws=256, of_pipe=64)
    assert (more.reproducing, more.draws, more.verdict.share.total) == (215, 256, 23)
    few = conditional(monkeypatch, 0.0705, 0.5, draws=256, of_pipe=64)
    assert few.verdict is None and few.at_baseline.reproduced  # of the 195 only three are drawn on both sides


def test_what_went_in_as_a_constant_is_no_result():
    judge_runs = of_runs(all_runs(seeds=1))
    one = Restated(testbeds=["paper/*"], entry="alpha_s", claims=["speedup-vs-dsync"])
    judge_runs.file.restated.append(one)
    found, other = (judge_runs.evidence(claim(name), "simulated") for name in ("speedup-vs-dsync", "speedup-vs-ps"))
    assert found.by_construction == "fixed by alpha_s of paper/pipesgd" and not other.by_construction
    assert not judge_runs.evidence(claim("speedup-vs-dsync"), "measured").by_construction  # of another testbed


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"function": "eval"}, "'eval'"),
        ({"function": "scaling_efficiency", "wrong": 1}, "claim a: scaling_efficiency: "),
    ],
)
def test_a_claim_by_a_function_that_there_is_not(tmp_path, value, message):
    entry = {"id": "a", "about": "time", "text": "t", "source": "s", "experiment": "e", "paper": {"value": 1.0},
             "tolerance": {"absolute": 0.1}, "value": value}  # fmt: skip
    (tmp_path / "p").mkdir()
    file = tmp_path / "p" / "claims.yaml"
    file.write_text(yaml.safe_dump({"claims": [entry]}) + "fixed: 2026-11-20\nmargins: {fixed: 2026-11-20}\n")
    with pytest.raises(InputError) as caught:
        claims_of("p", tmp_path)
    assert message in str(caught.value) and "\n" not in str(caught.value)
