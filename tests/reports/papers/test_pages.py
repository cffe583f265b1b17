"""Properties of all pages: length, figures, reasons, equal bytes, and their text without results."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from functools import partial
from html import unescape
from pathlib import Path

import pandas as pd
import pytest
from bs4 import BeautifulSoup
from matplotlib import pyplot as plt

from repro.answers.claims import published_verdicts
from repro.answers.claims.claims import Finding, Untried
from repro.answers.claims.decisive import choose_verdict
from repro.answers.claims.paired import compare_pairs
from repro.answers.claims.stats import format_number
from repro.answers.claims.verdict import HEADINGS, NOT_JUDGED
from repro.answers.pages import claim_tables, overview, readme_table, untried, wording, writing
from repro.answers.pages.build import build, page
from repro.answers.pages.files import NARROW, Files
from repro.answers.pages.paper_page import PaperPage
from repro.answers.pages.writing import write_text
from repro.answers.site.build import build_html_site
from repro.cli import workloads
from repro.cli.main import build_parser
from repro.cli.pages import build_pages
from repro.core.errors import InputError
from repro.core.paths import PROJECT, reference_root
from repro.experiment import config
from repro.records.kinds import PADDED
from tests.reports.data.readable import unreadable
from tests.reports.data.summaries import make, put
from tests.reports.data.undrawn import undrawn, without_drawing
from tests.support.records import write_summary

PAPERS, ACROSS = overview.papers(), overview.across()
OF_RUNS = [name for name in (*PAPERS, *ACROSS) if name != "recommend"]  # which is of committed tables
WORDS = 2000  # limit of a paper's page, with its tables
SHORT = 8  # words of a reason in a table
README_WORDS = 600
SCREEN = 1120  # pixels of a picture, which a page shows in three quarters of its size


def words(text):
    """The number of words, without the bars of tables, targets of links, and texts in place of pictures."""
    shown = re.sub(r"\]\([^)]*\)", "]", re.sub(r"!\[[^]]*\]\([^)]*\)", "", text))
    return len(re.findall(r"[^\s|]*\w[^\s|]*", shown))


@pytest.mark.parametrize("paper", PAPERS)
def test_a_papers_page_is_short_and_shows_what_is_there(reported, paper):
    made = reported(paper)
    assert words(made.text) <= WORDS and made.page.answer in made.text and made.summary["method"] in made.text
    assert "not run yet" not in made.text and not re.search(r"\{\{|\{%|\bnan\b|\bNone\b", made.text)
    for target in re.findall(r"\]\(([^)]+)\)", made.text):
        file = target.partition("#")[0]
        folder = PROJECT / "reports" / "out" if file.endswith(".md") else made.out  # other pages are not made here
        assert target.startswith(("https://", "#")) or (folder / file).exists(), target
    every = (made.out / f"{paper}-claims.md").read_text()
    assert made.page.findings and all("{" not in each and each in every for each in made.page.findings)
    shown = made.page.specs.shown
    pictures = made.text + (made.out / f"{paper}-figures.md").read_text()
    for name, figure in shown.figures.items():  # each once, on one of both pages
        assert pictures.count(f"![{figure.alt}](figures/{paper}/{name}.png)") == 1 and len(figure.alt.split()) > 10
    assert all(pictures.count(f"*{table.title}") == 1 for table in shown.tables.values())
    every = unescape(every)
    assert all(of_kinds[0].claim.text[:40] in every for of_kinds in made.page.by_claim.values())


@pytest.mark.parametrize("paper", PAPERS)
def test_headlines_that_are_not_reproduced_have_reasons_in_few_words_and_in_full_below(reported, paper):
    page, text = reported(paper).page, unescape(reported(paper).text)
    every = unescape((reported(paper).out / f"{paper}-claims.md").read_text())
    assert page.claims.headlines and all(one.claim.scope or page.file.scope for one in page.claims.headlines)
    for one in page.claims.headlines:
        short, listed = wording.short_reason(one, page.file), wording.reasons([one], page.file)
        assert len(short.split()) <= SHORT and "..." not in short
        basis = f" ({wording.state_basis(listed[0], one.claim.id, page.claims.statuses)})." if listed else ""
        assert not listed or short.removesuffix(".") + basis in text
        assert all(unescape(reason.cause) in every for reason in listed)
    for one in page.judged:
        if one.claim.headline and one.verdict.answer == "not reproduced":
            of = [reason for reason in page.file.reasons if one.claim.id in reason.claims]
            assert any(reason.kind in (None, one.kind) for reason in of), (one.claim.id, one.kind)
        assert not (one.claim.headline and one.kind == PADDED and one.verdict.as_printed), one.claim.id
    for reason in page.file.reasons:
        assert set(reason.claims) <= set(page.by_claim)
        if reason.tested and not (PROJECT / reason.tested).is_file():  # an experiment, or a figure that several make
            tested = f"{paper}/{reason.tested.split()[0]}"
            assert any(name.startswith(tested) for name in config.group_names("experiment"))


@pytest.mark.parametrize("paper", PAPERS)
def test_every_claim_is_judged_as_when_it_was_published_or_says_what_it_would_take(reported, paper):
    page = reported(paper).page
    count, different = published_verdicts.find_differences(paper, page.results)
    assert count and not different
    for of in page.by_claim.values():
        assert wording.heading_of(choose_verdict(of)) != NOT_JUDGED or of[0].claim.takes, of[0].claim.id


def test_a_verdict_that_names_a_command_names_a_whole_one():
    verdicts = [path.read_text() for path in reference_root().glob("*/verdicts.json")]
    commands = {*re.findall(r"repro (run [^)\"]*)", "".join(verdicts))}
    for command in commands:
        args = build_parser().parse_args(command.split())
        assert config.experiment_names(args.experiment, args.scale), command
    assert commands


@pytest.mark.parametrize("paper", PAPERS)
def test_claims_stand_by_verdict_each_once_and_so_does_a_reason(reported, paper):
    made = reported(paper)
    page, text = made.page, (made.out / f"{paper}-claims.md").read_text()
    heads = re.findall(r"^## (.*)$", text, re.MULTILINE)
    order = [head for head in heads if head.lower() in HEADINGS]
    assert order == [name.capitalize() for name in HEADINGS if name in page.claims.by_verdict]
    assert heads.index("Where we deviate from the paper") < heads.index(order[0])
    for claim, place in page.claims.numbers.items():
        assert len(re.findall(rf"^\| *C{place}\. ", text, re.MULTILINE)) == 1, claim
    for _, reasons in page.claims.by_verdict.values():
        assert all(text.count(f"- {reason}\n") == 1 for reason in reasons)
        assert len({reason.partition(": ")[2] for reason in reasons}) == len(reasons)
    lines = [line for line in text.splitlines() if re.match(r"\| *C\d+\.", line)]
    written = pd.read_csv(made.out / "tables" / paper / "claims.csv")
    assert len(written) == len(lines) and {"in the paper", "experiment", "judged by"} <= set(written.columns)


@pytest.mark.parametrize("name", [*PAPERS, *ACROSS])
def test_no_text_of_a_figure_covers_another_or_leaves_it(reported, tmp_path, monkeypatch, name):
    covered = {}  # figure -> texts that cannot be read

    def save(figure, stem, *suffixes):
        covered[stem.name] = unreadable(figure)
        return undrawn(figure, stem, *suffixes)

    monkeypatch.setattr("repro.answers.pages.files.save", save)
    if name in PAPERS:
        of = reported(name).page
        assert of.forest and all(map(of.specs.figure, of.specs.shown.figures))
        assert of.causes.picture or not of.steps
    else:
        page(name, reference_root(), tmp_path)
    assert covered and not any(covered.values()), {figure: texts for figure, texts in covered.items() if texts}


@pytest.mark.parametrize(("places", "seen"), [((0.2, 0.8), 0), ((0.2, 0.21), 1), ((0.2, 0.99), 1)])
def test_texts_that_cover_one_another_or_leave_the_figure_are_seen(places, seen):
    figure, axis = plt.subplots()
    axis.set_axis_off()
    for x in places:
        figure.text(x, 0.5, "words")
    assert len(unreadable(figure)) == seen
    plt.close(figure)


@pytest.mark.parametrize(("width", "size", "seen"), [(8.5, 6, 1), (8.5, 7, 0), (3.3, 7, 1), (3.3, 8, 0)])
def test_text_that_is_too_small_on_a_page_is_seen(width, size, seen):
    figure = plt.figure(figsize=(width, 2))
    figure.text(0.5, 0.5, "words", fontsize=size)
    assert len(unreadable(figure)) == seen
    plt.close(figure)


@pytest.mark.parametrize("paper", PAPERS)
def test_a_claim_about_accuracy_stands_in_the_table_or_among_the_others(reported, paper):
    claims = reported(paper).page.claims
    others = f"{claims.decided_accuracies}, {claims.open_accuracies}"
    named = {
        n
        for part in re.findall(r"C(\d+)(?: to C(\d+))?", others)
        for n in range(int(part[0]), int(part[1] or part[0]) + 1)
    }
    numbers = {claims.numbers[each.claim.id]: each.claim.headline for each in claims.accuracies}
    assert named == {number for number, headline in numbers.items() if not headline}


def test_numbers_of_claims_are_ranges():
    assert claim_tables.ranges([1, 2, 3, 7, 9, 10]) == "C1 to C3, C7, C9, C10" and claim_tables.ranges([]) == ""


@pytest.mark.parametrize("paper", PAPERS)
def test_provenance_names_the_claims_of_an_experiment(reported, paper):
    page = reported(paper).page
    for one in page.judged:
        there = (one.claim.experiment, one.kind) in page.results.shown
        if there and one.evidence.values:
            numbers = page.claims.with_numbers(one.claim.experiment, one.kind)
            spans = [[int(end[1:]) for end in part.split(" to ")] for part in numbers.split(", ")]
            assert any(span[0] <= page.claims.numbers[one.claim.id] <= span[-1] for span in spans)


@pytest.mark.parametrize("paper", PAPERS)
def test_what_could_not_be_tried_costs_what_its_training_takes(reported, paper):
    file = reported(paper).page.file
    assert file.untried
    for one in file.untried:
        if one.experiment:
            estimate = workloads.estimate_gpu_hours(config.compose(f"{paper}/{one.experiment}", (), "paper"))
            assert one.gpu_hours == pytest.approx(estimate, rel=0.15), one.what


def test_dollars_are_hours_times_the_list_price():
    hours = Untried(what="Accuracies", data="ImageNet", runs=10, gpu_hours=3.0)
    made = untried.table([hours, Untried(what="Times", data="none", instead="32 machines")])
    assert made["H100-hours, or what else"].tolist() == ["30", "32 machines"]
    assert made["dollars"].tolist() == [f"{float(f'{30 * untried.DOLLARS:.2g}'):,.0f}", "\N{EN DASH}"]


def test_an_answer_says_where_the_runs_here_change_what_it_rests_on(reported):
    page = reported("pipesgd").page
    own = dataclasses.replace(page, folder=None)
    finding = Finding(
        text="It is {alexnet-speedup-vs-dsync:emulated:verdict}.",
        rests_on={"alexnet-speedup-vs-dsync:emulated": "not reproduced"},
    )
    with pytest.raises(InputError, match="rests on"):
        page.finding(finding)
    word = page.one("alexnet-speedup-vs-dsync", "emulated").verdict.answer
    assert (
        own.finding(finding)
        == f"It is {word}. *With the runs here: C1 is {word} (emulated), no longer not reproduced.*"
    )


def test_an_accuracy_of_pairs_shows_the_difference_that_decides_and_how_many_pairs(reported):
    page = reported("pipesgd").page
    judged = page.one("k2-no-loss", "simulated")
    pairs = compare_pairs(judged.evidence.values, margin=0.0)
    assert (judged.estimate.low, judged.estimate.point, judged.estimate.high) == (pairs.low, pairs.mean, pairs.high)
    assert judged.verdict.reason and page.filled("({k2-no-loss:simulated:reason})") == f"({judged.verdict.reason})"


def test_the_overview_has_each_headline_once_the_weakest_first_and_marks_the_users_own_results(
    reported, tmp_path, monkeypatch
):
    without_drawing(monkeypatch)
    papers, across = {paper: reported(paper).summary for paper in PAPERS}, dict.fromkeys(ACROSS, "A line.")
    overview.build(papers | across, tmp_path)
    text = (tmp_path / "index.md").read_text()
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.split("\n\n## Accuracy")[0].splitlines()]
    rows = [row for row in table if len(row) == 5][2:]
    for paper, short in PAPERS.items():
        head = next(n for n, row in enumerate(rows) if row[0] == f"[{short}]({paper}.md)")
        headlines = reported(paper).page.claims.headline_rows
        group = rows[head + 1 : head + 1 + len(headlines)]
        assert sorted(unescape(row[0]) for row in group) == sorted(headlines["short"])
        words_in_order = [
            next(word for word in HEADINGS if row[3].startswith(word)) for row in group if "not testable" not in row[3]
        ]
        assert words_in_order == sorted(words_in_order, key=HEADINGS.index)
        trust = reported(paper).page.trust
        assert list(trust) == ["believe", "doubt", "unknown"] and all(each in text for each in trust.values())
        assert reported(paper).summary["method"] not in text  # which README has
    assert len(rows) == sum(1 + len(reported(paper).page.claims.headlines) for paper in PAPERS)
    assert "yours: " not in text and all(f"({name}.md)" in text for name in ACROSS)
    overview.build(papers | {"gtopk": papers["gtopk"] | {"own": 3}}, tmp_path)
    text = (tmp_path / "index.md").read_text()
    assert re.search(r"gTop-k S-SGD, \*yours: 3 of \d+ headlines\*", text) and text.count("yours: ") == 1
    assert "validation" in text.split("Not built here yet")[1] and "\n## Legend\n" in text  # where all pages lead


def test_the_picture_of_the_overview_has_every_headline_in_a_line_and_fits_a_screen(reported, tmp_path, monkeypatch):
    texts, on_a_phone = [], []

    def save(figure, stem, suffixes=(".png",)):
        assert not unreadable(figure)
        if stem.name.endswith(NARROW):
            on_a_phone.extend(text.get_text() for axis in figure.axes for text in axis.texts)
        else:
            assert figure.get_figheight() * writing.DPI <= SCREEN
            texts.extend(label.get_text() for axis in figure.axes for label in axis.get_yticklabels())
        return undrawn(figure, stem, suffixes)

    monkeypatch.setattr("repro.answers.pages.files.save", save)
    summaries = {paper: reported(paper).summary for paper in PAPERS}
    overview.build(summaries, tmp_path)
    wanted = [row["short"] for paper in PAPERS for row in summaries[paper]["headlines"]]
    assert sorted(texts) == sorted([*wanted, *PAPERS.values()]) and not any("\n" in text for text in texts)
    assert {*texts} <= {*on_a_phone}


def test_the_users_own_runs_are_on_the_papers_page_even_if_they_decide_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    line = "as if a sum of 4 were not divided"
    summary = make("D-Sync", scale="quick") | {"warnings": [line]}
    put(tmp_path, [summary])
    made = PaperPage.of("pipesgd", None, Files("pipesgd", tmp_path / "out"))
    [row] = made.own.splitlines()[2:]
    step_ms, score = format_number(1000 * summary["step"]["mean_s"]), format_number(summary["final"]["top1"])
    assert [cell.strip() for cell in row.split("|")[1:-1]] == [
        "fig4-mnist, D-Sync", f"measured, quick; {line}", step_ms, score, "1",
    ]  # fmt: skip
    assert not any(one.estimate and wording.is_own(one) for one in made.claims.headlines)
    without_drawing(monkeypatch)
    text = made.write()[0][0].read_text()
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert len([each for each in headings if "headlines" in each]) == 1 and headings[0] == "## Your runs"


def test_runs_of_other_options_are_rows_of_their_own_and_those_on_data_of_other_sizes_answer_nothing(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    other = {"dataset": {"name": "mnist-standin-digits", "standin": True, "like_real": False}}
    edited = make("Pipe-SGD", "simulated", testbed_model={"alpha_s": 1.0}, finished="2026-01-01T00:00:00")
    put(tmp_path, [make("D-Sync", "simulated"), make("Pipe-SGD", "simulated"), edited])
    by_user = tmp_path / "pipesgd" / "fig4-mnist" / "by-user"
    by_user.mkdir()
    summary = make("D-Sync", "simulated", epochs=3) | {"run": by_user.name}
    write_summary(by_user, summary, {"epochs": 3, "changed": ["epochs"]})
    put(tmp_path / "more", [make("D-Sync", "simulated", **other), make("Pipe-SGD", "simulated", **other)])
    made = PaperPage.of("pipesgd", None, Files("pipesgd", tmp_path / "out"))
    rows = made.own.splitlines()[2:]
    assert len(rows) == 3 and sum("D-Sync" in row for row in rows) == 2, "the run before the edit counts no more"
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "more"))
    made = PaperPage.of("pipesgd", None, Files("pipesgd", tmp_path / "out"))
    assert all("on mnist-standin-digits" in row for row in made.own.splitlines()[2:])
    assert not any(wording.is_own(one) for one in made.results.verdicts)


def test_the_readme_is_short_and_has_the_results_of_the_pages(reported):
    """If not: `repro verify --write`."""
    readme = (PROJECT / "README.md").read_text()
    assert words(readme) <= README_WORDS
    assert (
        wording.describe_counts(row["heading"] for paper in PAPERS for row in reported(paper).summary["headlines"])
        in readme
    )
    for paper in PAPERS:
        assert f"| {' | '.join(readme_table.row(paper, reported(paper).summary))} |" in readme, paper


def test_the_site_opens_with_the_overview_after_the_runs_of_one_paper(reported, tmp_path, monkeypatch):
    """Here each page is a title, and there is no documentation."""

    def pages(names, results, out, say, *_):
        written = {name: write_text(out / f"{name}.md", f"# {name}\n") for name in names}
        summaries = {name: reported(name).summary if name in PAPERS else "A line." for name in names}
        return {name: Files(name, out).built("", [path], summaries[name]) for name, path in written.items()}

    without_drawing(monkeypatch)
    monkeypatch.setattr("repro.answers.pages.build._pages", pages)
    monkeypatch.setattr("repro.answers.site.build.build_html_site", partial(build_html_site, checkout=tmp_path))
    monkeypatch.setattr("repro.core.user_cache.load_cached", lambda *of: None)
    monkeypatch.setenv("REPRO_RESULTS", str(put(tmp_path / "results", [make("D-Sync")])))
    monkeypatch.setenv("REPRO_REPORTS", str(tmp_path / "pages"))
    first = BeautifulSoup(Path(build_pages("pipesgd")["index"]).read_text(), "html.parser").article
    assert {f"{paper}.html" for paper in PAPERS} <= {link["href"] for link in first("a")}


def test_pages_import_neither_training_nor_tracking():
    code = "import sys, repro.answers.pages.build, repro.answers.pages.paper_page; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "mlflow", "mpi4py", "repro.strategies", "repro.training"} & set(loaded)


def test_without_results_every_page_says_so(tmp_path, monkeypatch):
    without_drawing(monkeypatch)
    results = put(tmp_path / "results", [])
    for name in OF_RUNS:
        page(name, results, tmp_path / "out")
        text = (tmp_path / "out" / f"{name}.md").read_text()
        assert "No results yet" in text or (name not in PAPERS and "not run yet" in text)
        assert name not in PAPERS or f"repro run {name}" in text


def test_the_same_results_give_the_same_bytes_and_old_figures_go(tmp_path):
    results = put(tmp_path / "results", [make("D-Sync"), make("Pipe-SGD")])
    first = {path.name: path.read_bytes() for path in build("pipesgd", results, tmp_path / "a", pdf=True)}
    old = tmp_path / "b" / "figures" / "pipesgd" / "old.png"
    old.parent.mkdir(parents=True)
    old.write_bytes(b"")
    second = {path.name: path.read_bytes() for path in build("pipesgd", results, tmp_path / "b", pdf=True)}
    assert first == second and not old.exists()


def test_bad_input_is_one_line(tmp_path, capsys, monkeypatch):
    without_drawing(monkeypatch)
    with pytest.raises(InputError, match="unknown paper 'pipe'"):
        build("pipe", tmp_path, tmp_path / "out")
    results = put(tmp_path / "results", [make("D-Sync")])
    (summary,) = results.rglob("summary.json")
    summary.write_text(json.dumps(json.loads(summary.read_text()) | {"kind": "guessed"}))
    build("pipesgd", results, tmp_path / "out")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: {summary}: ") and "kind=guessed" in line


def test_a_strategy_of_ones_own_is_a_curve_among_the_papers(tmp_path, monkeypatch):
    without_drawing(monkeypatch)
    own = make("D-Sync", "simulated", best=0.5) | {"variant": "mine", "strategy": "mine"}
    longer = make("D-Sync", "simulated", epochs=30) | {"variant": "longer", "strategy": "mine"}
    results = put(tmp_path / "results", [make("D-Sync", "simulated"), own, longer])
    build("pipesgd", results, tmp_path / "out")
    drawn = pd.read_csv(tmp_path / "out" / "figures" / "pipesgd" / "curves.csv")
    assert set(drawn["variant"]) == {"D-Sync", "mine"}
    assert drawn[drawn["variant"] == "mine"]["score"].max() == pytest.approx(0.5, abs=1e-3)
