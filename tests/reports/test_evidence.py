"""What results say of a claim: which runs speak to it, which do not, and what makes their number uncertain."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from repro.answers.claims.claims import Restated
from repro.answers.claims.drawn import Sweeps
from repro.answers.claims.evaluate import Outcome, judge
from repro.answers.claims.evidence import claims_of, undrawn
from repro.answers.tables.loading import Drawn
from repro.answers.tables.runs import row_of
from repro.core.errors import InputError
from repro.records.sweep import Draw
from tests.reports.data.planned import shown
from tests.reports.data.probes import timings
from tests.reports.data.summaries import FIG4, all_runs, claim, evaluator, judged, make, timing_only

ALONE = {"class": "cpu-64core", "cores": 64, "gpu": None, "network": "10 Gbit/s"}


def test_ours_of_made_up_runs():
    runs = [run | {"hardware": ALONE} for run in all_runs(seeds=3)]
    fast = judged("speedup-vs-dsync", runs)
    # (3.5 + 6) / (3.5 + 0.5) with truncation, which is faster here than quantization
    assert fast.ours.point == pytest.approx(9.5 / 4)
    assert fast.verdict.text == "confirmed" and fast.seeds == 3
    assert judged("communication-halved", runs).ours.point == pytest.approx(0.5)
    assert judged("dsync-truncation-not-ideal", runs).ours.point == pytest.approx(6 / 3.7)
    assert judged("compression-overhead-hidden", runs).ours.point == pytest.approx(3.2 / 0.5)
    assert judged("quantization-communication-hidden", runs).ours.point == 0
    assert judged("timing-model-pipe", runs).ours.point == pytest.approx(1)


def test_verbs_see_the_mean_of_what_ranks_say_and_what_stands_in_a_pipeline():
    ranks = [{"role": "server"}, {"pull_s": 1.0, "first_step": {"pull_s": 4.0}}, {"pull_s": 3.0, "steps": 2}]
    row = row_of(make("D-Sync") | {"per_rank": ranks, "pipeline": {"noam": 2, "profile": {"startup_s": 0.5}}})
    assert row["per_rank.pull_s"] == 2 and row["per_rank.first_step.pull_s"] == 4 and "per_rank.role" not in row
    assert row["pipeline.noam"] == 2 and row["pipeline.profile.startup_s"] == 0.5


def test_ranks_that_share_cores_are_out_of_scope_for_times_alone():
    runs = [run | {"hardware": ALONE | {"cores": 2}} for run in all_runs(seeds=5)]
    found = judged("speedup-vs-dsync", runs)
    assert found.verdict.text == f"out of scope ({runs[0]['ranks']} ranks share 2 cores)"
    assert found.ours.point == pytest.approx(9.5 / 4)
    assert judged("speedup-vs-dsync", runs, "simulated").verdict.judged
    assert judged("accuracy-d-sync", runs).verdict.judged
    on_a_gpu = [run | {"hardware": ALONE | {"gpu": "made up x 1", "gpu_shared_by": 4}} for run in runs]
    for launcher in ("mpirun", "srun"):
        there = [run | {"launcher": launcher} for run in on_a_gpu]
        assert judged("speedup-vs-dsync", there).verdict.text == "out of scope (4 ranks share a GPU)"
    of_a_cluster = [run | {"launcher": "srun"} for run in runs]
    assert judged("speedup-vs-dsync", of_a_cluster).verdict.judged
    with_gpus = [run | {"hardware": ALONE | {"cores": 2, "gpu": "H200"}} for run in all_runs(seeds=5)]
    assert judged("speedup-vs-dsync", with_gpus).verdict.judged


def test_runs_that_are_missing_are_a_reason():
    runs = [make("D-Sync"), make("Pipe-SGD + T", seed=1)]
    assert judged("speedup-vs-ps", runs).verdict.text == "not run (no results for PS-Sync)"
    assert "no seed in common" in judged("speedup-vs-dsync", runs).verdict.text
    assert judged("speedup-vs-dsync", runs, "simulated").verdict.text == "not run"


def test_a_target_that_was_not_reached_decides():
    never = {"0.97": None}
    apart = [make("PS-Sync", targets=never, seed=seed, hardware=ALONE) for seed in range(5)]
    apart += [make("D-Sync", seed=seed, hardware=ALONE) for seed in range(5)]
    found = judged("convergence-dsync", apart)
    assert found.ours.point == math.inf and found.verdict.answer == "confirmed"
    neither = judged("convergence-dsync", [make("PS-Sync", targets=never), make("D-Sync", targets=never)])
    assert neither.verdict.answer == "not run" and "0.97" in neither.verdict.reason


def test_accuracies_of_stand_in_data_or_of_time_alone_are_not_tried():
    standin = all_runs(dataset={"name": "mnist-standin-digits", "standin": True})
    assert judged("accuracy-d-sync", standin).verdict.text == "not testable here (stand-in data)"
    timed = [timing_only(make("D-Sync", "simulated")), timing_only(make("Pipe-SGD + T", "simulated"))]
    found = judged("accuracy-d-sync", timed, "simulated").verdict.text
    assert found == "not testable here (timing only: no accuracy is computed)"
    assert judged("speedup-vs-dsync", timed, "simulated").verdict.judged


def test_a_function_over_another_program_is_a_reason_and_no_crash():
    group, train = shown("pipesgd", timings(1), "timing-model"), shown("pipesgd", [make()], FIG4)
    for name, of, said in (
        ("linear-scaling", train, "reads results of the program timing, not of train"),
        ("compression-overhead-hidden", group, "no phases.communicate was recorded"),
        ("terngrad-overhead-compressed", train, "no results for overheads, ternary, 4"),
    ):
        found = judge(claim(name), "measured", evaluator(of).evidence(claim(name), "measured"), None)
        assert found.verdict.answer == "not run" and said in found.verdict.reason


def test_simulated_times_have_the_error_of_the_validation():
    court = evaluator(shown("pipesgd", all_runs(), FIG4), None)
    simulated, measured = (court.evidence(claim("speedup-vs-dsync"), kind) for kind in ("simulated", "measured"))
    assert not measured.error and measured.sample is None and "times of" in simulated.error
    assert simulated.sample.drawn and len({*simulated.sample.values}) > 1
    assert not court.evidence(claim("accuracy-d-sync"), "simulated").error


def test_what_is_assumed_and_not_drawn_has_no_verdict():
    runs = [run | {"assumed": True} for run in all_runs()]
    found = judge(claim("speedup-vs-dsync"), "simulated", evaluator(shown("pipesgd", runs, FIG4)).evidence(
        claim("speedup-vs-dsync"), "simulated"), None)  # fmt: skip
    assert found.verdict.answer == "not run" and "--draws" in found.verdict.reason and found.ours


def test_draws_that_compute_nothing_say_nothing_of_a_target():
    """They are timing alone: no target is reached in them, which refutes nothing."""
    runs = shown("pipesgd", all_runs(), FIG4)
    there = [run for run in runs["simulated"].records.values() if run["seed"] == 0]
    draws = [Draw(n, {"beta": {"testbed.beta_s_per_byte": float(n)}}, {"step": run["step"]}) for n in range(16)
             for run in there[:1]]  # fmt: skip
    drawn = [Drawn(run | {"targets": {"0.97": None}}, draws) for run in there]
    sweeps = Sweeps(drawn)
    for kind in ("simulated", "emulated"):
        court = replace(evaluator(runs | {"emulated": runs["simulated"]}, None), drawn=lambda _: sweeps)
        found = judge(claim("convergence-dsync"), kind, court.evidence(claim("convergence-dsync"), kind), None)
        assert found.verdict.answer == "not run" and "target" in found.verdict.reason and found.ours.point > 0
        timed = court.evidence(claim("dsync-faster-than-ps"), kind)
        assert len(timed.sample.values) == 16
    wanted = claim("convergence-dsync")
    court = replace(evaluator(runs, None), drawn=lambda _: Sweeps(drawn, runs["simulated"]))
    trained = court.evidence(wanted, "simulated")  # the iterations of runs with arithmetic, the times of the draws
    assert len(trained.sample.values) == 16 and not any(map(math.isnan, trained.sample.values))
    assert trained.outcome.values[0] == pytest.approx(trained.sample.values[0])
    alone = Sweeps(drawn, runs["simulated"].where(variant="PS-Sync"))  # D-Sync was not trained: that refutes nothing
    half = replace(evaluator(runs, None), drawn=lambda _: alone).evidence(wanted, "simulated")
    assert half.sample is None and "target" in half.not_drawn
    few = replace(trained, outcome=Outcome({0: trained.outcome.values[0]}))
    assert judge(wanted, "simulated", few, None).verdict.text == "open (1 of 5 seeds)"


def test_draws_of_a_part_of_a_claims_runs_are_none():
    """`fig1-vgg16-most` is the most over three testbeds and six numbers of workers."""
    runs = shown("pipesgd", all_runs(), FIG4)["simulated"]
    wanted = claim("pipe-compression-fastest")  # the better of two codecs
    every = [Drawn(run, []) for run in runs.records.values() if run["seed"] == 0]
    part = [one for one in every if one.summary["variant"] != "Pipe-SGD + Q"]
    assert not undrawn(wanted, runs, Sweeps(every)) and "--draws" in undrawn(wanted, runs, Sweeps(part))


def test_a_function_counts_the_draws_that_all_of_its_runs_have():
    runs = shown("pipesgd", all_runs(), FIG4)
    there = [run for run in runs["simulated"].records.values() if run["seed"] == 0]
    draws = [Draw(n, {}, {"step": there[0]["step"]}) for n in range(64)]
    sweeps = Sweeps([Drawn(run, draws[: 16 if run["variant"] == "PS-Sync" else 64]) for run in there])
    court = replace(evaluator(runs, None), drawn=lambda _: sweeps)
    counts = [len(court.evidence(claim(name), "simulated").sample.values)
              for name in ("timing-model-pipe", "pipe-faster-than-dsync")]  # fmt: skip
    assert counts == [16, 64]


def test_what_went_in_as_a_constant_is_no_result():
    court = evaluator(shown("pipesgd", all_runs(seeds=3), FIG4))
    one = Restated(testbeds=["paper/*"], entry="alpha_s", claims=["speedup-vs-dsync"])
    court.file.restated.append(one)
    found, other = (court.evidence(claim(name), "simulated") for name in ("speedup-vs-dsync", "speedup-vs-ps"))
    assert found.by_construction == "fixed by alpha_s of paper/pipesgd" and not other.by_construction
    assert not court.evidence(claim("speedup-vs-dsync"), "measured").by_construction  # of another testbed


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"function": "eval"}, "'eval'"),
        ({"function": "scaling_efficiency", "wrong": 1}, "claim a: scaling_efficiency: "),
    ],
)
def test_a_claim_by_a_function_that_there_is_not(tmp_path, value, said):
    import yaml

    entry = {"id": "a", "about": "time", "text": "t", "source": "s", "experiment": "e", "paper": {"value": 1.0},
             "tolerance": {"absolute": 0.1}, "value": value}  # fmt: skip
    (tmp_path / "p").mkdir()
    file = tmp_path / "p" / "claims.yaml"
    file.write_text(yaml.safe_dump({"claims": [entry]}) + "fixed: 2026-11-20\nmargins: {fixed: 2026-11-20}\n")
    with pytest.raises(InputError) as caught:
        claims_of("p", tmp_path)
    assert said in str(caught.value) and "\n" not in str(caught.value)
