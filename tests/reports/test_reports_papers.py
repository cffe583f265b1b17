"""Pages of papers that are built alike, as a whole: every figure and table, any subset of results, the same bytes."""

from __future__ import annotations

import math
import re
from importlib import import_module

import pytest

from repro.reports import page, style
from repro.reports.batched_pulls import MODES
from repro.reports.claims import read_claims
from repro.reports.eagersgd.experiments import FIG2_LENGTHS, FIG10, FIG11, FIG12, FIG13, MAJORITY, SOLO
from repro.reports.eagersgd.experiments import TRAINING as EAGER_TRAINING
from repro.reports.gtopk.experiments import CONSERVATION, FIG5_RESNET20
from repro.reports.gtopk.experiments import TRAINING as GTOPK_TRAINING
from repro.reports.ibatch.experiments import FIG6, IMPLIED
from repro.reports.pipedream.experiments import BY_NAME, TABLE_1, TIMELINES
from repro.reports.pipelines import BSP, PIPEDREAM
from tests.reports.data import eagersgd, gtopk, ibatch, pipedream
from tests.reports.data.summaries import put
from tests.reports.test_reports_page import undrawn

MADE = {"eagersgd": eagersgd, "gtopk": gtopk, "ibatch": ibatch, "pipedream": pipedream}
SEEDS = {"eagersgd": 1, "gtopk": 1, "ibatch": 2, "pipedream": 2}

DRAWN = {  # a figure of each sort, really drawn: of the others there are many alike
    "eagersgd": {"fig9", "fig2-lengths-measured", "figure11-throughput", "fig10-measured", "staleness-fig12-simulated",
                 "quorum-simulated"},
    "gtopk": {"fig9", "fig10", "fig7-lstm-measured"},
    "ibatch": set(),  # see test_figures_are_drawn_from_little_and_from_much
    "pipedream": {"table1", "fig13", "fig1", "fig5", "what-if", "timelines-simulated", "figs10-12-simulated",
                  "memory-measured"},
}  # fmt: skip

EAGER_CURVES = [e for e in EAGER_TRAINING if e.name not in ("fig11", "fig13-scaling", "quorum")]
FIGURES = {
    "eagersgd": [
        *(f"{e.name}-{kind}" for e in EAGER_CURVES for kind in e.kinds),
        *(f"figure{number}-throughput" for number in (10, 11, 12, 13)),
        *(f"staleness-{e.name}-{e.kinds[0]}" for e in EAGER_TRAINING),
        "fig9", "fig2-lengths-measured", "fig2-runtimes-simulated", "fig3-runtimes-measured", "fig4-runtimes-measured",
        "quorum-simulated",
    ],
    "gtopk": ["fig8", "fig9", "fig10", "fig11", "throughputs", *(f"{e.name}-{k}" for e in GTOPK_TRAINING
                                                                 for k in e.kinds)],
    "ibatch": [
        *(f"{name}{of}" for name in ("fig3", "fig4", "fig5", "fig6", "fig7", "beyond") for of in ("", IMPLIED)),
        "gap", "gap-random", "predicted", "sync-simulated",
        *(f"measured-{name}-{place}-cpu-2core-synthetic" for name in ("vgg", "googlenet")
          for place in ("here", "shaped-1g")),
    ],
    "pipedream": [
        "table1", "fig13", "fig1", "fig5", "timelines-simulated", "fig8-simulated", "fig8-measured",
        "figs10-12-simulated", "semantics-simulated", "semantics-alexnet-simulated", "memory-measured", "what-if",
        "measured-vgg-shaped-1g-cpu-2core-synthetic", "measured-vgg-here-cpu-2core-synthetic",
        "curves-measured-alexnet-shaped-1g-cpu-2core-synthetic",
    ],
}  # fmt: skip
TRACES = {
    "ibatch": [f"trace-fig4-{mode}" for mode in MODES],
    "pipedream": [f"trace-timelines-simulated-{name}" for name in TIMELINES.variants],
}
EVERY_TABLE = ["headlines", "claims", "reference", "provenance", "testbed", "verdicts", "runs"]
TABLES = {
    "eagersgd": ["table1", "lengths", "runtimes", "fig9", "scaling", "arithmetic", "implied", "claims-not-attempted",
                 "rounds-fig12-simulated", "breakdown-fig11-simulated", "quorum-simulated"],
    "gtopk": ["table1", "table1-formulas", "table1-each", "table7", "few-workers", "unexplained", "arithmetic",
              "survivors", "selection", "breakdown-fig10", "masses-conservation-simulated", "fits", "speedups"],
    "ibatch": ["arithmetic", "saved", "gap", "speedups-fig5"],
    "pipedream": ["table1", "table1-details", "fig13", "fig1", "arithmetic", "products", "reductions",
                  "claims-not-attempted", "accuracy-simulated", "versions-semantics-simulated", "configurations",
                  "what-if", "memory-measured", "schedules-measured-vgg-shaped-1g",
                  "schedule-fig8-simulated-pipedream"],
}  # fmt: skip
TITLES = {  # the first ones, in order
    "eagersgd": ["Table 1", "Figure 2", "Figure 3", "Figure 4", "Figure 9", "Figure 10", "Figure 11", "Figure 12",
                 "Figure 13", "What the rounds held", "Quorum spectrum", "Beyond the paper", "Claims"],
    "gtopk": ["Figure 5"],
    "ibatch": ["Figure 3", "Figure 4", "Figure 5", "Figure 6", "Figure 7", "Greedy and exact",
               "Predicted against executed time", "Measured here", "Beyond the paper", "BSP, SSP and ASP", "Claims"],
    "pipedream": ["Table 1", "Figure 1", "Figures 2, 3, 4 and 6", "Figure 5", "Figure 8", "Figures 10 to 12",
                  "Figure 13", "Weight versions", "Measured here", "Other schedules", "Configurations by cost model",
                  "What if the network were faster", "Memory of a stage", "Claims"],
}  # fmt: skip
PARTS = {
    "eagersgd": ["25,559,081 (fig11 simulated)", "517.1 frames", "computation padded to 0.61 s", "34,663,525",
                 "random_one (delay_s 0.2)", "With model synchronisation minus without", "Time only: nothing was",
                 "ucf101-generated-features", "staleness by rank", "no speed-up"],
    "gtopk": ["\n## Figure 12\n", "2.3 to 11.3 times", "62 to 91 Mbit/s", "estimated: synthetic", "6.708",
              "printed 12.8", "Deviation"],
    "ibatch": ["[1, 1], [2, 7], [8, 12]", "the same weights, bit for bit", "paper/ibatch-implied", "decisions",
               "by which claims are", "the paper says 5 million", "than a whole iteration of one node"],
    "pipedream": ["F1 F2 F3 F4 B1 F5 B2", "same direction 14-2, replicated pipeline", "27,161,264 parameters",
                  "6.76\N{MULTIPLICATION SIGN} (section 1)", "`paper` 4 of 7", "epochs **simulated**",
                  "by which claims are judged", "estimated: synthetic", "Model: Inception-v3 has"],
}  # fmt: skip
WITHOUT_RESULTS = {"eagersgd": "2.562", "gtopk": "2.3 to 11.3 times", "ibatch": "4.87", "pipedream": "0.247 to 0.335"}


def build(paper, results, out):
    return import_module(f"repro.reports.{paper}").build(results, out)


def shown(paper):
    """{experiment of the page: its files}"""
    experiments = import_module(f"repro.reports.{paper}.experiments")
    return {name: list(experiments.files(name)) for name in experiments.SHOWN}


@pytest.fixture(scope="module", params=MADE)
def whole(request, tmp_path_factory):
    """A paper, and its page with results for every section."""
    paper = request.param
    root = tmp_path_factory.mktemp(paper)
    results = put(root / "results", MADE[paper].everything(SEEDS[paper]))

    def some(figure, stem):
        return style.save(figure, stem) if stem.name in DRAWN[paper] else undrawn(figure, stem)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "save", some)
        return paper, root / "out", build(paper, results, root / "out")


def of(paper):
    return pytest.mark.parametrize("whole", [paper], indirect=True)


def test_every_figure_and_table_is_written_and_linked(whole):
    paper, out, (pages, written, state) = whole
    names = {path.relative_to(out).as_posix() for path in written}
    assert [path.name for path in pages] == [f"{paper}.md"] and len(names) == len(written)
    assert {path for path in out.rglob("*") if path.is_file()} == {*pages, *written}
    for figure in FIGURES[paper]:
        assert {f"figures/{paper}/{figure}.{suffix}" for suffix in ("png", "pdf", "csv")} <= names, figure
    assert {f"figures/{paper}/{trace}.json" for trace in TRACES.get(paper, [])} <= names
    assert {f"tables/{paper}/{table}.tex" for table in (*TABLES[paper], *EVERY_TABLE)} <= names
    for tex in (out / "tables" / paper).glob("*.tex"):
        assert tex.read_text().isascii(), tex
    text = (out / f"{paper}.md").read_text()
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert link.startswith("#") or (out / link).is_file(), link
    assert "not run yet" not in text and set(state["experiments"]) == set(shown(paper))


def test_the_page_s_order_captions_and_contents(whole):
    paper, out, _ = whole
    text = (out / f"{paper}.md").read_text()
    titles = ["Results at a glance", "What does not add up", *TITLES[paper]]
    assert re.findall(r"^## (.*)$", text, re.MULTILINE)[: len(titles)] == titles
    captions = re.findall(r"^\*[^*\n].*\*$", text, re.MULTILINE)[1:]
    assert captions and all("**measured**" in c or "**simulated**" in c for c in captions)
    for part in PARTS[paper]:
        assert part in text, part


def test_every_claim_is_attempted_but_for_accuracies_that_were_not_computed(whole):
    paper, _, (_, _, state) = whole
    claims = {claim.id: claim for claim in read_claims(paper).claims}
    assert {v.claim.id for v in state["verdicts"]} == set(claims)
    untried = {v.claim.id for v in state["verdicts"]} - {
        v.claim.id for v in state["verdicts"] if v.label != "not attempted"
    }
    if paper == "eagersgd":
        assert untried and all(claims[name].about == "accuracy" for name in untried)
        # 90 epochs, stand-in features
        assert {claims[name].experiment for name in untried} == {FIG11.name, FIG13.name}
    elif paper == "ibatch":
        assert {v.label for v in state["verdicts"] if v.group is not None} == {"matches", "same direction", "differs"}
    else:
        advertised = {"vgg16-advertised", "inception-advertised", "s2vt-advertised"}
        assert untried == (advertised if paper == "pipedream" else set())


@of("ibatch")
def test_no_other_figures_are_written(whole):
    paper, out, (_, _, state) = whole
    assert {path.stem for path in (out / "figures" / paper).glob("*.png")} == set(FIGURES[paper])
    assert not state["standins"]


@of("eagersgd")
def test_dropped_late_gradients_are_counted_as_such_and_only_there(whole):
    paper, out, _ = whole
    text = (out / f"{paper}.md").read_text()
    rounds = text[text.index("### Beyond the paper, simulated") :]
    dropped = {line.split("|")[1].strip(): int(line.split("|")[6]) for line in rounds.splitlines()[6:10]}
    assert [name for name, count in dropped.items() if count] == [f"{SOLO}, late dropped"]


@pytest.mark.parametrize(
    ("paper", "some"),
    [
        ("ibatch", [*ibatch.fig3(), *ibatch.scaling(networks=("vgg19",), sizes=(6, 72)), ibatch.random_profiles()]),
        ("pipedream", [*pipedream.table1(), *pipedream.timelines(), *pipedream.accuracy(1), pipedream.layer_sizes(),
                       *pipedream.memory()]),
    ],
    ids=["ibatch", "pipedream"],
)  # fmt: skip
def test_the_same_results_give_the_same_bytes(paper, some, tmp_path, monkeypatch):
    """Of pictures, too: `test_rebuilding_gives_the_same_bytes_elsewhere_and_sweeps_old_figures`."""
    monkeypatch.setattr(page, "save", undrawn)
    results = put(tmp_path / "results", some)
    first = build(paper, results, tmp_path / "one")
    again = build(paper, results, tmp_path / "two")
    for before, after in zip([*first[0], *first[1]], [*again[0], *again[1]], strict=True):
        assert before.relative_to(tmp_path / "one") == after.relative_to(tmp_path / "two")
        assert before.read_bytes() == after.read_bytes(), before


@pytest.mark.parametrize("paper", MADE)
def test_a_page_without_results_says_how_to_get_each_and_still_shows_what_does_not_add_up(paper, tmp_path):
    pages, others, state = build(paper, tmp_path / "none", tmp_path / "out")
    text = pages[0].read_text()
    for name, files in shown(paper).items():
        for file in files:
            assert f"`repro run {paper}/{file}`" in text, name
    assert f"make reproduce-{paper}" in text and WITHOUT_RESULTS[paper] in text and not state["shown"]
    assert not [path for path in others if path.suffix == ".png"]
    assert all(v.text == "not attempted (no results)" for v in state["verdicts"])


def _bare(runs):
    return [run | {"per_rank": [], "pipeline": None, "trace": []} for run in runs]


ALONE = {
    "eagersgd": [
        [eagersgd.run(FIG10, f"{SOLO} 200 ms")], [eagersgd.run(FIG10, "Single node", workers=1)],
        [eagersgd.run(FIG13, MAJORITY)], eagersgd.resnet50()[:1], eagersgd.synchronisation(1)[:1],
        eagersgd.spectrum(1)[:1], eagersgd.scaling()[-1:], [eagersgd.partial()], [eagersgd.lengths(standin=True)],
        [eagersgd.batches("fig3-runtimes", 0.1, 0.01, lengths=False)],
        [eagersgd.run(FIG12, SOLO, "simulated", counters={}, staleness=[])],
    ],
    "gtopk": [
        [gtopk.training(FIG5_RESNET20, "gTop-k", "measured")], [gtopk.scaled("VGG-16", "gTop-k", 32)],
        [gtopk.message_times()], gtopk.collectives("measured")[:1], [gtopk.selections()], [gtopk.links(4)],
        [gtopk.training(CONSERVATION, "gTop-k", "simulated", counters={})],
    ],
    "ibatch": [
        ibatch.fig3()[:1], ibatch.fig3(ibatch.TESTBEDS[1])[2:], _bare(ibatch.fig3()), ibatch.scaling(sizes=(6,))[:1],
        ibatch.scaling(networks=("vgg19-22k",), sizes=(72,))[1:2], ibatch.scaling(FIG6, ("inception",), (30,)),
        _bare(ibatch.scaling(networks=("vgg19",), sizes=(72,))), ibatch.beyond()[4:5], _bare(ibatch.beyond())[:1],
        ibatch.measured(sizes=(4,))[2:], _bare(ibatch.measured(sizes=(2,))), ibatch.sync()[1:2],
        [ibatch.random_profiles()], [ibatch.timing(ibatch.sync()[0])],
    ],
    "pipedream": [
        pipedream.row("table1-vgg16-8a", [PIPEDREAM]), pipedream.row("table1-vgg16-4a", [BSP]),
        pipedream.row("throughput-alexnet-8b"), pipedream.fig1(("vgg16",), ("k80",)), pipedream.timelines()[:1],
        [pipedream.fig8() | {"trace": []}], pipedream.accuracy(1)[:1], pipedream.versions(seeds=1)[:1],
        pipedream.measured(seeds=1)[5:6], pipedream.memory()[:1], [pipedream.layer_sizes()],
        [pipedream.configurations()], [pipedream.what_if()], [run | {"per_rank": []} for run in pipedream.memory()],
        [pipedream.timing(pipedream.measured(seeds=1)[0])],
    ],
}  # fmt: skip


@pytest.mark.parametrize(("paper", "number"), [(paper, n) for paper, each in ALONE.items() for n in range(len(each))])
def test_a_page_from_one_result_alone(paper, number, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "save", undrawn)
    some = ALONE[paper][number]
    pages, _, state = build(paper, put(tmp_path / "results", some), tmp_path / "out")
    text = pages[0].read_text()
    assert len(state["shown"]) == 1 and "not run yet" in text
    assert all(not math.isnan(v.ours.median) for v in state["verdicts"] if v.ours)
    if paper == "pipedream" and some[0]["experiment"] in BY_NAME:
        assert state["shown"] == [(TABLE_1, "simulated")]
    if paper == "eagersgd" and some[0]["experiment"] == FIG2_LENGTHS:
        assert "STAND-IN" in text and "517.1 frames" not in text


def test_figures_are_drawn_from_little_and_from_much(tmp_path):
    """Each drawing function with one row's worth of data, and the page's files are pictures."""
    some = [*ibatch.fig3()[2:], *ibatch.scaling(networks=("vgg19",), sizes=(72,))[1:2]]
    some += ibatch.measured(sizes=(4,))[2:]
    _, others, _ = build("ibatch", put(tmp_path / "results", some), tmp_path / "out")
    pictures = [path for path in others if path.suffix == ".png"]
    assert pictures and all(path.read_bytes()[:4] == b"\x89PNG" for path in pictures)
