"""Claims files, numbers over seeds and verdicts of the reports room, on synthetic summaries."""

from __future__ import annotations

import json
import math
import re

import pytest

from repro.common.errors import InputError
from repro.reports import compute, groups, probes, stats, verdicts
from repro.reports.claims import read_claims
from repro.reports.pipesgd.experiments import FIGURE4, PROBES, TRAINING
from repro.reports.pipesgd import finder, gather, reference
from tests.reports.data.probes import everything, timings
from tests.reports.data.summaries import FIG4, all_runs, claim, judged, make, timing_only

# --- numbers over seeds


def test_spread_is_min_max_below_five_seeds_and_a_seeded_bootstrap_from_five():
    assert stats.spread([3, 1]) == stats.Spread(2, 1, 3, 2, "min-max")
    assert stats.spread([7]).interval == "one seed"
    assert stats.spread([]).n == 0
    five = stats.spread([1, 2, 3, 4, 5])
    assert five.interval == "bootstrap 95 %" and 1 <= five.low < 3 < five.high <= 5
    assert five == stats.spread([5, 4, 3, 2, 1])


def test_a_target_not_reached_is_infinity_and_says_so():
    inf = math.inf
    assert stats.show_target([inf, inf]) == "not reached (2/2 seeds)"
    assert stats.show_target([1.0, inf]) == "not reached (1/2 seeds)"
    assert stats.show_target([1.0, 2.0, inf]) == f"2.00 [1.00{stats.DASH}∞] not reached (1/3 seeds)"
    assert stats.show_target([1.5]) == "1.50"
    assert stats.spread([1, 2, inf, inf, inf, inf]).median == inf


# --- claims file and verdicts


def test_claims_file_is_whole_and_every_claim_has_function_tolerance_and_seeds():
    content = read_claims("pipesgd")
    assert content.claims and content.deviations and content.contradictions
    for one in content.claims:
        assert one.compute in compute.FUNCTIONS
        assert set(one.minimum_seeds) == set(groups.KINDS)
        assert one.above is not None or one.below is not None
        low, high = verdicts.widened(one)
        assert low is None or high is None or low <= high
    quoted = reference()
    assert set(quoted["source"]) and "" not in set(quoted["source"])
    assert quoted[quoted["row"] == "MNIST-MLP"]["value"].tolist()[:7] == [
        "0.9833", "0.9833", "0.9834", "0.9830", "0.9834", "0.9836", "0.9833"]  # fmt: skip


@pytest.mark.parametrize("change, said", [
    ({"compute": {"function": "eval"}}, "no function 'eval'"),
    ({"compute": {"function": "speedup", "wrong": 1}}, "speedup"),
    ({"tolerance": {}}, "tolerance"),
    ({"paper": {"shown": "x"}}, "value, low or high"),
    ({"about": "luck"}, "about 'luck'"),
    ({"verdict": "matches"}, "unknown: verdict"),
])  # fmt: skip
def test_a_mistake_in_a_claims_file_is_one_line_naming_the_claim(tmp_path, change, said):
    good = {"id": "a", "about": "time", "text": "t", "source": "s", "experiment": "e", "paper": {"value": 1},
            "tolerance": {"absolute": 0}, "direction": {"above": 0}, "minimum_seeds": 1,
            "compute": {"function": "final_metric", "setting": "x"}}  # fmt: skip
    (tmp_path / "p.yaml").write_text(json.dumps({"claims": [good | change]}))
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        read_claims("p", tmp_path)
    assert "claim a" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("ours, expected", [
    (2.0, "matches"), (1.8, "matches"), (3.52, "matches"), (3.53, "same direction"), (1.79, "same direction"),
    (9.0, "same direction"), (1.0, "differs"), (0.5, "differs"), (math.inf, "same direction"), (0.0, "differs"),
])  # fmt: skip
def test_verdict_of_a_range(ours, expected):
    assert verdicts.label(claim("speedup-vs-dsync"), ours) == expected


def test_verdicts_of_synthetic_results():
    runs = all_runs()
    fast = judged("speedup-vs-dsync", runs)
    # (3.5 + 6) / (3.5 + 0.5) with truncation, which is faster here than quantization
    assert fast.ours.median == pytest.approx(9.5 / 4) and fast.label == "matches" and "Pipe-SGD + T" in fast.note
    assert fast.text == "matches; provisional (2 of 3 seeds)"
    assert judged("speedup-vs-dsync", runs, "simulated").text == "matches"  # modelled time needs one seed
    halved = judged("communication-halved", runs)
    assert halved.ours.median == pytest.approx(0.5) and halved.label == "matches"
    assert "p = 4: 81 % less" in halved.note
    assert judged("dsync-truncation-not-ideal", runs).ours.median == pytest.approx(6 / 3.7)
    assert judged("compression-overhead-hidden", runs).ours.median == pytest.approx(3.2 / 0.5)
    assert judged("quantization-communication-hidden", runs).ours.median == 0
    assert judged("timing-model-pipe", runs).ours.median == pytest.approx(1)
    assert judged("accuracy-d-sync", runs).label == "matches"
    # every pair of claim and kind gets one of the four verdicts
    chosen, _ = groups.choose(runs, FIG4)
    every = verdicts.judge_all(read_claims("pipesgd").claims, lambda e, k: chosen.get(k) if e == FIG4.name else None)
    assert len(every) == 2 * len(read_claims("pipesgd").claims)
    assert {v.label for v in every} <= set(verdicts.VERDICTS)
    assert all(v.label == "not attempted" for v in every if v.claim.experiment != FIG4.name)


def test_missing_variants_and_seeds_are_not_attempted_with_the_reason():
    runs = [make("D-Sync"), make("Pipe-SGD + T", seed=1)]
    assert judged("speedup-vs-ps", runs).text == "not attempted (no results for PS-Sync)"
    assert "no seed in common" in judged("speedup-vs-dsync", runs).text
    assert judged("speedup-vs-dsync", runs, "simulated").text == "not attempted (no results)"
    other = [make("D-Sync"), make("Pipe-SGD + T", iterations=7)]
    assert "different numbers of iterations" in judged("speedup-vs-dsync", other).text
    for run in other:  # only time passed: an iteration is worth the same in a shorter run
        run["testbed_model"] = (run["testbed_model"] or {}) | {"arithmetic": "none"}
    assert "an iteration, timing only, of 7 and" in judged("speedup-vs-dsync", other).note
    part = judged("speedup-vs-dsync", [make("D-Sync"), make("Pipe-SGD + T")])
    assert part.label == "matches" and "no results for Pipe-SGD + Q" in part.note


def test_targets_not_reached_decide_convergence_claims():
    never = {"0.97": None}
    slow_base = [make("PS-Sync", targets=never), make("D-Sync")]
    assert judged("convergence-dsync", slow_base).label == "matches"
    assert judged("convergence-dsync", slow_base).ours_text.startswith("∞" + stats.TIMES)
    assert judged("convergence-dsync", [make("PS-Sync"), make("D-Sync", targets=never)]).label == "differs"
    neither = judged("convergence-dsync", [make("PS-Sync", targets=never), make("D-Sync", targets=never)])
    assert neither.text == "not attempted (target 0.97 not reached by D-Sync nor PS-Sync)"


def test_stand_in_data_never_compare_accuracies_and_mark_times():
    runs = all_runs(dataset={"name": "mnist-standin-digits", "standin": True})
    for one in read_claims("pipesgd").claims:
        if one.about == "accuracy" and one.experiment == FIG4.name:
            assert judged(one.id, runs).text == "not attempted (stand-in data)"
    assert "on stand-in data" in judged("speedup-vs-dsync", runs).text


def test_an_interval_over_several_verdicts_is_said():
    runs = [make("D-Sync", seed=s) for s in range(3)]
    runs += [
        make("Pipe-SGD", seed=s, final={"top1": 0.9, "train_s": c["final"]["train_s"] * f, "test_loss": 0.1})
        for s, c, f in zip(range(3), runs, (0.9, 0.95, 1.2), strict=True)
    ]
    assert "spans more than one verdict" in judged("pipe-faster-than-dsync", runs).text


def test_every_claim_gets_a_verdict_where_there_are_results():
    runs = everything(1)
    train, measured = ([c for c in runs if ("program" in c) == probe] for probe in (False, True))
    every = verdicts.judge_all(read_claims("pipesgd").claims, finder(train, measured, gather(train, measured)))
    attempted = {v.claim.id for v in every if v.label != "not attempted"}
    unsaid = {v.claim.id: v.text for v in every if v.claim.id not in attempted}
    # what is left: accuracies on stand-in data, in a simulation without arithmetic
    assert all("stand-in data" in text or "timing only" in text for text in unsaid.values()), unsaid
    assert {v.claim.experiment for v in every if v.claim.id in unsaid} <= {"fig4-alexnet", "fig4-resnet18"}
    named = {v.claim.experiment for v in every}
    assert named <= {e.name for e in TRAINING} | set(PROBES) and {row.name for row in FIGURE4} <= named


def test_accuracies_are_not_judged_where_only_time_was_modelled():
    runs = [timing_only(make("D-Sync", "simulated")), timing_only(make("Pipe-SGD + T", "simulated"))]
    assert judged("accuracy-d-sync", runs, "simulated").text == "not attempted (timing only: no accuracy is computed)"
    assert judged("speedup-vs-dsync", runs, "simulated").label == "matches"


def test_a_function_over_another_program_is_a_reason_and_no_crash():
    group = probes.choose(timings(1), "timing-model")[0]["measured"]
    wrong = verdicts.judge(claim("speedup-vs-dsync"), "measured", group)
    assert wrong.text == "not attempted (speedup reads results of the program train, not of timing)"
    train = groups.choose([make()], FIG4)[0]["measured"]
    assert (
        "results of the program ring, not of train"
        in verdicts.judge(claim("terngrad-overhead-compressed"), "measured", train).text
    )
