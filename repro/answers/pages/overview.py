"""The overview page, index.md: the headlines of all papers in one picture and one table, accuracies, and the legend."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.answers.claims.claims import Untried
from repro.answers.claims.verdict import HEADINGS, LARGER, OPEN, REPRODUCED, SAME_DIRECTION, SMALLER, Share
from repro.answers.figures import forest
from repro.answers.pages import built, untried, wording
from repro.answers.pages.built import Built
from repro.answers.pages.cells import frame_of_cells
from repro.answers.pages.files import Files
from repro.answers.pages.markdown import Markdown
from repro.answers.pages.render import template, write_page
from repro.core import config_folders

if TYPE_CHECKING:
    import pandas as pd

PAGE = "overview"
TITLE = re.compile(r"{% block title %}(.*){% endblock %}|^# (.*)$", re.MULTILINE)  # in a page's template


def _titles(of_papers: bool) -> dict[str, str]:
    """Folder of `reports/` -> the title of its page; papers have claims."""
    templates = [path for root in config_folders.report_folders() for path in sorted(root.glob("*/page.md.j2"))]
    chosen = [path for path in templates if path.with_name("claims.yaml").is_file() == of_papers]
    titles = {path.parent.name: TITLE.search(path.read_text(encoding="utf-8")) for path in chosen}
    return {name: next(filter(None, title.groups())) if title else name for name, title in titles.items()}


def papers() -> dict[str, str]:
    """The folders of papers with the titles of their pages, the project's own first."""
    return _titles(of_papers=True)


def across() -> dict[str, str]:
    """The folders of the other pages, with their titles."""
    return _titles(of_papers=False)


def build(summaries: Mapping[str, Any], out: Path, pdf: bool = False) -> Built:
    """Write index.md from the pages' summaries (see `PaperPage.write`; a line for a page across papers)."""
    import pandas as pd

    files, inputs = Files(PAGE, out, pdf=pdf), built.inputs(PAGE, None, summaries)
    if files.before.is_current(inputs, pdf):
        return files.before
    titles, others = papers(), across()
    shown = {paper: summaries[paper] for paper in titles if paper in summaries}
    rows = pd.DataFrame(
        [
            row | {"paper": titles[paper], "page": paper}
            for paper, summary in shown.items()
            for row in _weakest_first(summary)
        ]
    )
    text = template(
        f"{PAGE}/index.md.j2",
        papers=[(paper, titles[paper], summary, _markdown(summary["trust"])) for paper, summary in shown.items()],
        missing=[name for name in (*titles, *others) if name not in summaries],
        own=any(summary["own"] for summary in shown.values()),
        counts=wording.describe_counts(rows["heading"]) if len(rows) else "",
        forest=_picture(files, rows) if len(rows) else "",
        headlines=_headlines(files, rows) if len(rows) else "",
        accuracies=_accuracies(files, {titles[paper]: summary["accuracies"] for paper, summary in shown.items()}),
        targets=_targets(files, {titles[paper]: summary["targets"] for paper, summary in shown.items()}),
        open=sum(summary["open"] for summary in shown.values()),
        about_accuracy=sum(summary["about_accuracy"] for summary in shown.values()),
        untried=untried.sum_untried([Untried(**entry) for summary in shown.values() for entry in summary["untried"]]),
        price=untried.PRICE,
        least=next(hits for hits in range(65) if Share(hits, 64, drawn=True).most),
        others=[(name, title, Markdown(summaries[name])) for name, title in others.items() if name in summaries],
    )
    return files.built(inputs, write_page(text, "index", files), None)


def _markdown(texts: Mapping[str, str]) -> dict[str, Markdown]:
    return {name: Markdown(text) for name, text in texts.items()}


def _weakest_first(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A paper's headlines, by the weight of the verdict."""
    return sorted(summary["headlines"], key=lambda row: HEADINGS.index(row["heading"]))


def _picture(files: Files, rows: pd.DataFrame) -> Markdown:
    """The headlines of all papers."""
    counts = rows["heading"].value_counts()
    verdicts = {"are reproduced": [REPRODUCED], "more have the effect": [SAME_DIRECTION, SMALLER, LARGER],
                "are open": [OPEN]}  # fmt: skip
    title = ", ".join(f"{counts.reindex(words, fill_value=0).sum()} {text}" for text, words in verdicts.items())
    named = rows.drop(columns=["page", "why"]).astype(dict.fromkeys(wording.NUMBERS, float))
    return forest.forest_picture(files, named, f"Of {len(rows)} headline claims {title}")


def _headlines(files: Files, rows: pd.DataFrame) -> Markdown:
    """A row for each headline, in groups by paper."""
    made = []
    for (page, paper), group in rows.groupby(["page", "paper"], sort=False):
        made.append(
            {"claim": Markdown(f"[{paper}]({page}.md)")}
            | dict.fromkeys(("paper", "ours", "verdict", "why"), Markdown("&nbsp;"))
        )
        made += [
            {
                "claim": Markdown.escape(row["short"]),
                "paper": Markdown(row["printed"]),
                "ours": Markdown.escape(wording.own_number(row["number"], row["kind"], row["own"])),
                "verdict": Markdown.escape(row["label"]),
                "why": Markdown(row["why"]),
            }
            for row in group.to_dict("records")
        ]
    return files.text_table(frame_of_cells(made), "headlines")


def _accuracies(files: Files, rows: Mapping[str, Sequence[Mapping[str, str]]]) -> Markdown:
    """A row for each claim about accuracy that is decided, or that is a headline (`accuracy_table`)."""
    made = [
        {"claim": Markdown(f"{paper} {row['claim']}")} | {name: Markdown(row[name]) for name in row if name != "claim"}
        for paper, judged in rows.items()
        for row in judged
    ]
    return files.text_table(frame_of_cells(made), "accuracies")


def _targets(files: Files, rows: Mapping[str, Sequence[Mapping[str, str]]]) -> Markdown:
    """A row for each target and strategy of all papers (`time_to_target.describe_targets`)."""
    made = [dict(row) | {"workload": f"{paper}: {row['workload']}"} for paper, judged in rows.items() for row in judged]
    return files.text_table(frame_of_cells(made), "targets")
