"""What all pages have in common: few words, only their own figures, the same bytes, what they say without results."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from bs4 import BeautifulSoup

from repro.answers.claims import published_verdicts
from repro.answers.claims.claims import Finding, Untried
from repro.answers.claims.stats import number
from repro.answers.pages import answers, claim_tables, files, overview, untried, wording
from repro.answers.pages.build import build, page
from repro.answers.pages.files import Files
from repro.answers.pages.paper_page import PaperPage
from repro.cli import gpu_hours
from repro.cli.pages import built
from repro.core.errors import InputError
from repro.core.paths import PROJECT
from repro.experiment import config
from repro.records.kinds import PADDED
from tests.reports.data.summaries import make, put
from tests.reports.data.undrawn import without_drawing

PAPERS, ACROSS = overview.papers(), overview.across()
OF_RUNS = [name for name in (*PAPERS, *ACROSS) if name != "recommend"]  # which is of committed tables
WORDS = 2500  # of a paper's page
FEW = 15  # of a reason in a table


def words(text):
    """As a reader counts them who opens no fold: neither bars of tables nor the targets of links."""
    shown = re.sub(r"\]\([^)]*\)", "]", re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL))
    return len(re.findall(r"[^\s|]*\w[^\s|]*", shown))


@pytest.mark.parametrize("paper", PAPERS)
def test_a_papers_page_is_short_and_shows_what_is_there(reported, paper):
    made = reported(paper)
    assert words(made.text) <= WORDS and made.said["answer"] in made.text and made.said["method"] in made.text
    assert "not run yet" not in made.text and not re.search(r"\{\{|\{%|\bnan\b|\bNone\b", made.text)
    for target in re.findall(r"\]\(([^)]+)\)", made.text):
        across = target.removesuffix(".md") in ACROSS
        assert across or target.startswith(("https://", "#")) or (made.out / target).exists(), target
    shown = made.page.specs.shown
    assert 4 <= len(shown.figures) <= 13
    for name, figure in shown.figures.items():
        assert f"![{figure.alt}](figures/{paper}/{name}.png)" in made.text and len(figure.alt.split()) > 10
    assert all(f"*{table.title}" in made.text for table in shown.tables.values())
    every = plain((made.out / f"{paper}-claims.md").read_text())
    assert all(of_kinds[0].claim.text.split("|")[0][:40] in every for of_kinds in made.page.by_claim.values())


def plain(text):
    return re.sub(r"&lt;", "<", re.sub(r"&gt;", ">", re.sub(r"&#42;", "*", text.replace("&amp;", "&"))))


@pytest.mark.parametrize("paper", PAPERS)
def test_headlines_are_few_and_what_does_not_hold_says_why(reported, paper):
    page = reported(paper).page
    headlines = [claim for claim in page.file.claims if claim.headline]
    assert 0 < len(headlines) <= 13
    assert all(claim.scope or page.file.scope for claim in headlines)
    for one in page.judged:
        if one.claim.headline and one.verdict.answer == "refuted":
            of = [reason for reason in page.file.reasons if one.claim.id in reason.claims]
            assert any(reason.kind in (None, one.kind) for reason in of), (one.claim.id, one.kind)
        assert not (one.claim.headline and one.kind == PADDED and one.verdict.settled), one.claim.id
    for reason in page.file.reasons:
        assert set(reason.claims) <= set(page.by_claim)
        if reason.tested and not (PROJECT / reason.tested).is_file():  # an experiment, or a figure that several make
            tested = f"{paper}/{reason.tested.split()[0]}"
            assert any(name.startswith(tested) for name in config.group_names("experiment"))


@pytest.mark.parametrize("paper", PAPERS)
def test_reasons_of_headlines_are_few_words_and_stand_in_full_below(reported, paper):
    made = reported(paper)
    for one in made.page.claims.headlines:
        assert len(wording.short(one, made.page.file).split()) <= FEW
        for reason in wording.reasons([one], made.page.file):
            assert plain(reason.cause) in plain(made.text)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_claim_is_judged_as_when_it_was_published(reported, paper):
    count, different = published_verdicts.differences(paper, reported(paper).page.judged)
    assert count and not different


@pytest.mark.parametrize("paper", PAPERS)
def test_what_is_not_judged_says_what_it_would_take(reported, paper):
    page = reported(paper).page
    deciding = [(of[0].claim, wording.deciding(of)) for of in page.by_claim.values()]
    assert not [claim.id for claim, one in deciding if wording.place(one) == wording.NOT_JUDGED and not claim.takes]


@pytest.mark.parametrize("paper", PAPERS)
def test_claims_stand_by_verdict_each_once_and_so_does_a_reason(reported, paper):
    made = reported(paper)
    page, text = made.page, (made.out / f"{paper}-claims.md").read_text()
    heads = re.findall(r"^## (.*)$", text, re.MULTILINE)
    order = [head for head in heads if head.lower() in wording.STRIP]
    assert order == [name.capitalize() for name in wording.STRIP if name in page.claims.by_verdict]
    assert heads.index("Where we deviate from the paper") < heads.index(order[0])
    for claim, place in page.claims.numbers.items():
        assert len(re.findall(rf"^\| *C{place}\. ", text, re.MULTILINE)) == 1, claim
    for groups in page.claims.by_verdict.values():
        assert all(text.count(f"**{why}**") == 1 for why in groups if why and not why.startswith("As C"))
    rows = [
        [cell.strip() for cell in line.split("|")[6:-1]] for line in text.splitlines() if re.match(r"\| *C\d+\.", line)
    ]
    of_group = {len(row) for row in rows}
    assert of_group <= {0, 1, 2, 3} and not any(row and set(row) == {"\N{EN DASH}"} for row in rows)


def test_numbers_of_claims_are_told_as_ranges():
    assert claim_tables.ranges([1, 2, 3, 7, 9, 10]) == "C1 to C3, C7, C9 to C10" and claim_tables.ranges([]) == ""


@pytest.mark.parametrize("paper", PAPERS)
def test_provenance_names_the_claims_of_an_experiment(reported, paper):
    page = reported(paper).page
    for one in page.judged:
        there = (one.claim.experiment, one.kind) in page.found.shown
        if there and one.evidence.values:
            numbers = page.claims.speaks(one.claim.experiment, one.kind)
            spans = [[int(end[1:]) for end in part.split(" to ")] for part in numbers.split(", ")]
            assert any(span[0] <= page.claims.numbers[one.claim.id] <= span[-1] for span in spans)


@pytest.mark.parametrize("paper", PAPERS)
def test_what_could_not_be_tried_costs_what_its_training_takes(reported, paper):
    file = reported(paper).page.file
    assert file.untried
    for one in file.untried:
        if one.experiment:
            estimate = gpu_hours.estimate(config.compose(f"{paper}/{one.experiment}", (), "paper"))
            assert one.gpu_hours == pytest.approx(estimate, rel=0.15), one.what


def test_dollars_are_hours_times_the_list_price():
    one = Untried(what="Accuracies", data="ImageNet", runs=10, gpu_hours=3.0)
    other = Untried(what="Times", data="none", instead="32 machines")
    made = untried.table([one, other])
    assert made["H100-hours"].tolist() == ["30", "32 machines"]
    assert made["dollars"].tolist() == [f"{float(f'{30 * untried.DOLLARS:.2g}'):,.0f}", "\N{EN DASH}"]


def test_an_answer_says_where_the_runs_here_change_what_it_rests_on(reported):
    page = reported("pipesgd").page
    own = dataclasses.replace(page, results=None)
    finding = Finding(
        text="It is {alexnet-speedup-vs-dsync:emulated:verdict}.",
        rests_on={"alexnet-speedup-vs-dsync:emulated": "refuted"},
    )
    with pytest.raises(InputError, match="rests on"):
        page.found_out(finding)
    word = page.one("alexnet-speedup-vs-dsync", "emulated").verdict.answer
    assert own.found_out(finding) == f"It is {word}. *With the runs here: C1 is {word} (emulated), no longer refuted.*"


@pytest.mark.parametrize("paper", PAPERS)
def test_findings_hold_and_their_numbers_are_there(reported, paper):
    made = reported(paper)
    assert 3 <= len(made.page.findings) <= 9
    assert all("{" not in finding and finding in made.text for finding in made.page.findings)


def test_the_overview_is_one_screen(reported, tmp_path, monkeypatch):
    without_drawing(monkeypatch)
    across = {name: f"What {name} says." for name in ACROSS}
    overview.build({paper: reported(paper).said for paper in PAPERS} | across, tmp_path)
    text = (tmp_path / "index.md").read_text()
    assert words(text) <= 900
    for paper, short in PAPERS.items():
        assert f"[{short}]({paper}.md)" in text and reported(paper).said["answer"] in text
    assert "yours" not in text
    assert all(f"({name}.md)" in text for name in ACROSS)


def test_the_overview_marks_the_users_own_results(reported, tmp_path, monkeypatch):
    without_drawing(monkeypatch)
    said = {paper: reported(paper).said for paper in PAPERS}
    overview.build(said | {"gtopk": said["gtopk"] | {"own": 3}}, tmp_path)
    text = (tmp_path / "index.md").read_text()
    assert re.search(r"\(gtopk.md\)\*\* \(\*yours: 3 of \d+ headlines\*\)", text) and text.count("*yours: ") == 1
    assert "validation" in text.split("Not built here yet")[1]


def test_the_users_own_runs_stand_on_the_papers_page_also_where_they_decide_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    summary = make("D-Sync", scale="quick")
    put(tmp_path, [summary])
    made = PaperPage.of("pipesgd", None, Files("pipesgd", tmp_path / "out"))
    [row] = made.own.splitlines()[2:]
    step_ms, score = number(1000 * summary["step"]["mean_s"]), number(summary["final"]["top1"])
    assert [cell.strip() for cell in row.split("|")[1:-1]] == [
        "fig4-mnist, D-Sync", "measured, quick", step_ms, score, "1",
    ]  # fmt: skip
    assert not any(one.ours and wording.mine(one) for one in made.claims.headlines)


def test_the_readme_says_what_the_pages_say(reported):
    """Where it does not: `repro verify --write`."""
    readme = (PROJECT / "README.md").read_text()
    for paper in PAPERS:
        assert f"| {' | '.join(answers.row(paper, reported(paper).said))} |" in readme, paper


def test_the_site_opens_with_the_overview_after_the_runs_of_one_paper(reported, tmp_path, monkeypatch):
    """Pages of other papers are those of the reference; here each is a line."""

    def pages(names, results, out, say, *_):
        written = {name: out / f"{name}.md" for name in names}
        for name, path in written.items():
            out.mkdir(exist_ok=True)
            path.write_text(f"# {name}\n")
        said = {name: reported(name).said if name in PAPERS else f"What {name} says." for name in names}
        return {name: files.Files(name, out).built("", [path], said[name]) for name, path in written.items()}

    without_drawing(monkeypatch)
    monkeypatch.setattr("repro.answers.pages.build._pages", pages)
    monkeypatch.setattr("repro.core.user_cache.load", lambda *of: None)
    monkeypatch.setenv("REPRO_RESULTS", str(put(tmp_path / "results", [make("D-Sync")])))
    monkeypatch.setenv("REPRO_REPORTS", str(tmp_path / "pages"))
    first = BeautifulSoup(Path(built("pipesgd")["index"]).read_text(), "html.parser").article
    assert {f"{paper}.html" for paper in PAPERS} <= {link["href"] for link in first("a")}


@pytest.mark.parametrize("name", OF_RUNS)
def test_without_results_a_page_says_so(tmp_path, monkeypatch, name):
    without_drawing(monkeypatch)
    (text, *_), _ = page(name, put(tmp_path / "results", []), tmp_path / "out").written()
    text = text.read_text()
    assert "not run yet" in text or "No results yet" in text
    assert name not in PAPERS or "No results yet" in text
    assert name not in PAPERS or f"repro run {name}" in text


def test_the_same_results_give_the_same_bytes_and_old_figures_go(tmp_path):
    results = put(tmp_path / "results", [make("D-Sync"), make("Pipe-SGD")])
    first = {path.name: path.read_bytes() for path in build("pipesgd", results, tmp_path / "a", pdf=True)}
    old = tmp_path / "b" / "figures" / "pipesgd" / "old.png"
    old.parent.mkdir(parents=True)
    old.write_bytes(b"")
    second = {path.name: path.read_bytes() for path in build("pipesgd", results, tmp_path / "b", pdf=True)}
    assert first == second and not old.exists()


def test_bad_input_is_one_line(tmp_path, capsys):
    with pytest.raises(InputError, match="unknown paper 'pipe'"):
        build("pipe", tmp_path, tmp_path / "out")
    results = put(tmp_path / "results", [make("D-Sync")])
    (summary,) = results.rglob("summary.json")
    summary.write_text(json.dumps(json.loads(summary.read_text()) | {"kind": "guessed"}))
    build("pipesgd", results, tmp_path / "out")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: {summary}: ") and "kind=guessed" in line


def test_reports_import_neither_training_nor_tracking():
    code = "import sys; import repro.answers.pages.build, repro.answers.pages.paper_page; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "mlflow", "mpi4py", "repro.strategies", "repro.training"} & set(loaded)


def test_a_strategy_of_ones_own_is_a_curve_among_the_papers(tmp_path):
    own = make("D-Sync", "simulated", best=0.5) | {"variant": "mine", "strategy": "mine"}
    longer = make("D-Sync", "simulated", epochs=30) | {"variant": "longer", "strategy": "mine"}
    results = put(tmp_path / "results", [make("D-Sync", "simulated"), own, longer])
    build("pipesgd", results, tmp_path / "out")
    drawn = pd.read_csv(tmp_path / "out" / "figures" / "pipesgd" / "curves.csv")
    assert set(drawn["variant"]) == {"D-Sync", "mine"}
    assert drawn[drawn["variant"] == "mine"]["top1"].max() == pytest.approx(0.5, abs=1e-3)
