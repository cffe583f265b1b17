"""The iBatch page: its files agree, verdict computations on synthetic summaries, frames of figures."""

from __future__ import annotations

import pytest
import yaml

from repro.common.errors import InputError
from repro.common.paths import CONFIGS
from repro.reports import batched_pulls, factors, style
from repro.reports.batched_pulls import IBATCH, LAYERWISE, MODES, NETWORKS, Scaling
from repro.reports.claims import read_claims
from repro.reports.ibatch import (
    HEADLINES,
    frames_case,
    frames_contradictions,
    frames_gap,
    frames_measured,
    frames_scaling,
)
from repro.reports.ibatch.experiments import (
    BEYOND,
    FIG3,
    FIG5,
    FIG6,
    IMPLIED,
    LARGEST,
    MEASURED,
    MEDIUM,
    PLACES,
    PROBES,
    RANDOM,
    SHOWN,
    SIZES,
    SWEEPS,
    SYNC,
    WITH,
    files,
)
from repro.reports.ibatch.published import SCALING, Published
from repro.reports.reference import read as read_reference
from tests.reports.data import ibatch as made
from tests.reports.data.papers import Judge
from tests.reports.data.summaries import labels

judged = Judge("ibatch")
CLAIMS, gathered = judged.claims, judged.gathered
PAPER = Published(read_reference("ibatch"))


# --- the files


def test_claims_and_reference_agree_with_each_other():
    content = read_claims("ibatch")
    assert content.claims and content.deviations and content.contradictions
    assert {claim.experiment for claim in content.claims} <= set(SHOWN) and set(HEADLINES) <= set(CLAIMS)
    for suffix in ("", IMPLIED):
        for mode in MODES:
            for ending, name in NETWORKS.items():
                assert CLAIMS[f"{ending}-30-{mode}{suffix}"].low == PAPER.speedup(name, mode, MEDIUM)
            if (claim := CLAIMS.get(f"vgg19-22k-72-{mode}{suffix}")) is not None:
                assert claim.low == PAPER.speedup("VGG19-22K", mode, LARGEST)
        for over in ("default", "layerwise"):
            assert CLAIMS[f"improvement-over-{over}{suffix}"].low == PAPER.improvement(over)
        case = PAPER.value("Case study", "GoogLeNet", "ibatch", "number of batches")
        assert CLAIMS[f"case-batches{suffix}"].low == case
    for ending, name in NETWORKS.items():
        assert 1e6 * CLAIMS[f"parameters-{ending}"].low == PAPER.parameters(name)
    printed = {n: dict(PAPER.printed(n)) for n in (MEDIUM, LARGEST)}
    of = printed[MEDIUM]["GoogLeNet"]
    assert CLAIMS["layerwise-worse-30"].low == pytest.approx(of["layerwise"] / of["default"], abs=1e-3)
    of = printed[LARGEST]["VGG19-22K"]
    assert CLAIMS["layerwise-better-72"].low == pytest.approx(of["layerwise"] / of["default"], abs=1e-3)
    assert list(printed[MEDIUM]) == list(NETWORKS.values()) and list(printed[LARGEST]) == ["VGG19-22K"]
    with pytest.raises(InputError, match=r"reference/ibatch\.csv: no row of Section Scalability, none, all, x"):
        PAPER.value(SCALING, "none", "all", "x")


def test_claims_name_networks_modes_and_sizes_that_there_are():
    for claim in CLAIMS.values():
        given = claim.arguments
        for key in ("network", "heavy", "light", "networks", "others"):
            some = given.get(key, [])
            assert set([some] if isinstance(some, str) else some) <= set(NETWORKS.values()), claim.id
        for key in ("mode", "over", "setting"):
            assert given.get(key) is None or given[key] in MODES, claim.id
        for key in ("nodes", "small", "large"):
            if claim.experiment.startswith((FIG5, FIG6)):
                assert given.get(key) is None or f"default {given[key]}" in factors.known("ibatch", FIG5), claim.id
    looks = [tuple(style.look(name).items()) for name in ("ps_default", "ps_layerwise", "ibatch", "exact")]
    assert len(set(looks)) == 4 and style.look("default") == style.look("ps_default")


def test_the_experiments_files_have_the_page_s_variants_and_programs():
    read = {path.stem: yaml.safe_load(path.read_text()) for path in (CONFIGS / "experiment/ibatch").glob("*.yaml")}
    assert set(SHOWN) == set(SWEEPS) | set(PROBES) | {SYNC.name} | {e.name for e in PLACES}
    for name, (family, _) in SWEEPS.items():
        for file in files(name):
            if file in read:
                assert read[file]["figure"] == family and set(labels(f"ibatch/{file}")) == set(
                    factors.known("ibatch", family)
                ), file
    for experiment in (*PLACES, SYNC):
        if experiment.name in read:
            one = read[experiment.name]
            assert one["figure"] == (SYNC.name if experiment is SYNC else MEASURED)
            assert set(labels(f"ibatch/{experiment.name}")) == set(experiment.variants)
    if RANDOM in read:
        assert read[RANDOM]["program"] == PROBES[RANDOM]
        assert WITH.get(read[RANDOM]["figure"], read[RANDOM]["figure"]) == RANDOM


# --- which results are shown


def test_a_figure_s_runs_are_told_apart_by_their_network_and_testbed():
    some = [made.scaling(networks=(name,), sizes=(6,), testbed=testbed) for name in NETWORKS for testbed in
            made.TESTBEDS]  # fmt: skip
    runs = [run for one in some for run in one]
    found = gathered(runs)
    assert set(found.sweeps) == {FIG5, FIG5 + IMPLIED} and not found.others
    assert Scaling.of(found.sweeps[FIG5].summaries).networks == list(NETWORKS.values())
    assert {run["experiment"] for run in found.sweeps[FIG5].summaries} == {f"fig5-{name}" for name in NETWORKS}
    named = gathered([run | {"experiment": f"fig5-{batched_pulls.network(run)}"} for run in runs])
    assert len(named.sweeps[FIG5].summaries) == len(found.sweeps[FIG5].summaries) == 16
    smoke = [run | {"scale": "quick", "provenance": run["provenance"] | {"finished_at": "2027"}} for run in runs]
    assert all(run["scale"] != "quick" for run in gathered([*smoke, *runs]).sweeps[FIG5].summaries)


def test_measured_places_are_groups_of_their_own_and_the_shaped_network_is_judged():
    found = gathered([*made.measured(testbed="here"), *made.measured(), *made.measured("googlenet")])
    vgg, googlenet = (found.places[e.name]["measured"] for e in PLACES)
    assert [group.first["testbed"] for group in vgg] == ["shaped/1g", "here"] and len(googlenet) == 1
    strange = gathered([made.measured()[0] | {"strategy": "dsync"}])
    assert not strange.places[PLACES[0].name] and strange.others


# --- verdict computations


def test_verdicts_on_scaling_come_from_seconds_an_iteration():
    runs = made.scaling()
    step = {(c["model"]["parameters"], c["setting"]): c["step"]["mean_s"] for c in runs}
    large = max(count for count, _ in step)
    speedup = LARGEST * step[large, "single"] / step[large, f"ibatch {LARGEST}"]
    one = judged("vgg19-22k-72-ibatch", runs)
    assert one.ours.median == pytest.approx(speedup) and one.label == "same direction"
    gain = step[large, "default 72"] / step[large, "ibatch 72"] - 1
    assert judged("improvement-over-default", runs).ours.median == pytest.approx(gain)
    assert judged("linear-to-6", runs).note == "VGG19-22K, default, 6 nodes"
    assert judged("best-of-three-30", runs).text.startswith("same direction")
    assert judged("vgg-scales-worse", runs).label == "matches"
    assert "VGG19-22K 1." in judged("largest-improvement", runs).note
    assert judged("gain-grows", runs).ours.median == pytest.approx(0.75)
    assert judged("parameters-vgg19-22k", runs).note == "vgg19: 229,100,000 parameters"
    few = [run for run in runs if run["setting"] != "layerwise 72"]
    assert "no results for layerwise on 72 nodes of VGG19-22K" in judged("vgg19-22k-72-layerwise", few).text
    assert "layerwise on 72 nodes of GoogLeNet" in judged("best-of-three-72", few).text
    alone = [run for run in runs if run["setting"] == "single"]
    assert "no results for default of GoogLeNet" in judged("linear-to-6", alone).text
    without = [run for run in runs if run["setting"] != "single"]
    assert "single on 1 node of GoogLeNet" in judged("googlenet-30-default", without).text
    assert judged("sparsified-vgg19", made.scaling(FIG6, ("vgg19",), push=0.01)).ours.median < 0.9


def test_verdicts_on_overlap_come_from_recorded_intervals():
    runs = made.scaling(networks=("vgg19",), sizes=(72,))
    assert judged("overlap-default-vgg19", runs).label == "matches"
    took = {c["setting"]: c["per_rank"][0] for c in runs}
    wanted = took["ibatch 72"]["overlap_s"] / took["layerwise 72"]["overlap_s"]
    assert judged("overlap-longer-vgg19", runs).ours.median == pytest.approx(wanted)
    exposed = {name: one["pull_s"] - one["overlap_s"] for name, one in took.items()}
    one = judged("exposed-longer-vgg19", runs)
    assert one.ours.median == pytest.approx(exposed["layerwise 72"] / exposed["ibatch 72"]) and one.label == "matches"
    assert judged("startup-vgg19", runs).ours.median == pytest.approx(
        took["layerwise 72"]["pull_s"] / took["default 72"]["pull_s"]
    )
    assert "no results for default on 72 nodes of Inception-V3" in judged("overlap-default-inception", runs).text
    bare = [run | {"per_rank": []} for run in runs]
    assert "the workers recorded no pulls" in judged("exposed-longer-vgg19", bare).text
    hidden = [run | {"per_rank": [one | {"overlap_s": 0.0} for one in run["per_rank"]]} for run in runs]
    assert "layerwise overlaps nothing" in judged("overlap-longer-vgg19", hidden).text


def test_verdicts_on_the_case_study():
    runs = made.fig3()
    heavy = judged("case-fully-connected", runs)
    assert heavy.label == "matches" and heavy.note.startswith("layer 12 (fc):")
    assert judged("case-convolutional", runs).note.startswith("layer 2 (block2):")
    assert judged("case-startup", runs).label == "matches"
    assert judged("case-over-default", runs).ours.median > 1
    three = judged("case-batches", runs)
    assert three.ours.median == 3 and three.note == "[1, 1], [2, 7], [8, 12]"
    bare = [run | {"pipeline": None, "per_rank": []} for run in runs]
    assert "default has no profile" in judged("case-fully-connected", bare).text
    assert "the summary has no batches" in judged("case-batches", bare).text
    assert "the workers recorded no pulls" in judged("case-over-default", bare).text
    assert "no results for ibatch" in judged("case-batches", runs[:2]).text


def test_servers_of_their_own_take_times_from_the_first_step():
    """Later pulls wait there for other workers' gradients."""
    run = made.fig3()[0]
    late = [one | {"pull_s": 9.0} if one["role"] == "worker" else one for one in run["per_rank"]]
    assert batched_pulls.times(run | {"per_rank": late}) == batched_pulls.times(run)
    shared = made.scaling(networks=("vgg19",), sizes=(6,))[1]
    late = [one | {"pull_s": 9.0} for one in shared["per_rank"]]
    assert batched_pulls.times(shared | {"per_rank": late}).pull_s == pytest.approx(9.0)
    assert batched_pulls.times({"per_rank": [{"role": "server"}], "pipeline": None}) is None


def test_greedy_is_never_judged_better_than_exact():
    runs = made.scaling()
    never = judged("never-below-exact", runs)
    assert never.label == "matches" and never.ours.median >= 0
    assert "largest" in judged("greedy-near-exact", runs).note
    wrong = [dict(run) for run in runs]
    wrong[-1]["pipeline"] = wrong[-1]["pipeline"] | {"exact_s": 2 * wrong[-1]["pipeline"]["executed_s"]}
    assert judged("never-below-exact", wrong).label == "differs"
    assert "no run has a profile" in judged("never-below-exact", [c | {"pipeline": None} for c in runs]).text
    random = judged("random-optimal", [made.random_profiles()])
    assert random.ours.median == pytest.approx(0.85) and random.label == "same direction" and not random.limits
    assert judged("random-no-pair-2", [made.random_profiles()]).ours.median == pytest.approx(0.02)


def test_verdicts_on_what_was_measured():
    runs = made.measured(seeds=3)
    assert judged("measured-vgg-over-default", runs, "measured").label == "matches"
    assert judged("measured-vgg-startup", runs, "measured").ours.median > 1
    assert judged("measured-vgg-default-overlap", runs, "measured").ours.median == 0
    same = judged("measured-vgg-weights", runs, "measured")
    assert same.label == "matches" and same.note == "seed 0: 3 of 3; seed 1: 3 of 3; seed 2: 3 of 3"
    other = made.measured(equal=False)
    assert judged("measured-vgg-weights", other, "measured").label == "differs"
    assert "DIFFERENT WEIGHTS" in frames_measured.weights(gathered(other).places[PLACES[0].name]["measured"][0])
    one = [run for run in other if run["setting"] == "ibatch 4"]
    assert "no number of workers with all three modes" in judged("measured-vgg-weights", one, "measured").text
    assert "no results for default 4" in judged("measured-vgg-over-default", one, "measured").text
    bare = [run | {"per_rank": []} for run in runs]
    assert "recorded no pulls" in judged("measured-vgg-startup", bare, "measured").text
    assert "provisional (1 of 3 seeds)" in judged("measured-vgg-over-default", made.measured(), "measured").text


# --- frames


def test_a_procedure_is_the_first_iteration_that_was_recorded_whole():
    group = gathered(made.fig3()).sweeps[FIG3]
    found = frames_case.timeline(group)
    own = found[found["mode"] == IBATCH]
    assert list(own[own["what"] == "transfer"]["layers"]) == ["1", "2\N{EN DASH}7", "8\N{EN DASH}12"]
    assert (own["what"] == "startup").sum() == 3 and own["start_ms"].min() == 0
    assert list(own[own["what"] == "forward"]["layers"]) == [str(n) for n in range(1, 13)]
    ends = found.groupby("mode")["end_ms"].max()
    for run in group.summaries:
        assert ends[run["setting"]] == pytest.approx(1e3 * run["pipeline"]["executed_s"])
    profile = made.profile("googlenet", 300, servers=6, scale=0.2)
    cut = made.trace(profile, "greedy", steps=2, by_batch=True)
    late = [one for one in cut if one["rank"] == 0][2:]  # the first pull's intervals are lost: the second iteration
    run = made.fig3()[2] | {"trace": late}
    procedure = frames_case.procedure(run)
    assert len(procedure.pulls) == 3 and len(procedure.forward) == 3 and procedure.pulls[0][0].start > 0.01
    one = gathered([run]).sweeps[FIG3]
    spans = frames_case.timeline(one)
    assert list(spans[spans["what"] == "forward"]["layers"]) == ["1", "2\N{EN DASH}7", "8\N{EN DASH}12"]
    for trace in ([], late[:3]):
        assert frames_case.procedure(run | {"trace": trace}) is None


def test_frames_of_scaling_and_gaps():
    runs = made.scaling()
    group = gathered(runs).sweeps[FIG5]
    found = frames_scaling.speedups(group, PAPER)
    at = found[(found["network"] == "VGG19-22K") & (found["nodes"] == 72)].set_index("mode")
    assert at.loc[IBATCH, "paper"] == 45 and at.loc[LAYERWISE, "paper"] == 32
    table = frames_scaling.speedup_table(found)
    assert table.iloc[0]["30"].endswith("(paper 26\N{MULTIPLICATION SIGN})")
    assert not frames_scaling.missing(group, FIG5, list(NETWORKS.values()))
    few = gathered([run for run in runs if run["setting"] != "ibatch 6" and "incep" not in run["model"]["name"]])
    lacking = frames_scaling.missing(few.sweeps[FIG5], FIG5, list(NETWORKS.values()))
    assert "GoogLeNet (ibatch 6)" in lacking and "Inception-V3 (none)" in lacking
    bars = frames_scaling.decomposed(group)
    total = bars["overlap_s"] + bars["communication_s"] + bars["computation_s"]
    assert list(bars["total_s"]) == pytest.approx(list(total)) and bars.iloc[0]["normalised"] == 1
    gaps = frames_gap.gaps([group])
    assert len(gaps) == 4 * len(SIZES) and (gaps["gap"] >= 0).all()
    assert (gaps["exetime_over_executed"] <= 1 + 1e-9).all()
    beyond = frames_scaling.beyond(gathered(made.beyond()).sweeps[BEYOND])
    assert beyond[(beyond["mode"] == "default") & (beyond["push"] == "after")]["over_default"].item() == 1
    ssp = frames_gap.predictions([*gathered(made.sync()).sync.values()])
    assert not len(ssp)


def test_contradictions_are_computed_from_the_reference_table():
    table = frames_contradictions.table(PAPER).set_index("what")
    agree = table[table["off"] == "agrees"]
    assert len(agree) == 4 and all("improvement" in name or "parameters" in name for name in agree.index)
    grown = table.loc["VGG19-22K, default: communication on 72 nodes over that on 30"]
    assert grown["the paper prints"].startswith("4.87") and grown["follows from its other numbers"].startswith("2.40")
    assert table.loc["GoogLeNet, 30 nodes: layer by layer is \"better than\" the default"][
        "follows from its other numbers"].startswith("0.962")  # fmt: skip
    saved = frames_contradictions.saved(PAPER)
    last = saved.iloc[-1]
    assert last["mode"] == IBATCH and last["saved (iterations of one node)"] == "1.17"
    assert last["possible by that overlap"] == "no: more than a whole iteration of one node"
    thirty = saved[(saved["nodes"] == "30") & (saved["mode"] == LAYERWISE)]
    assert set(thirty["possible by that overlap"]) == {"nothing is saved"}
    assert frames_contradictions.possible(30, 22, 25) == "yes" and frames_contradictions.possible(72, 26, 32) == "no"
