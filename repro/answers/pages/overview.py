"""The overview page, index.md, with the headlines of all papers in one picture and each paper's answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.answers.figures import forest
from repro.answers.pages import built, wording
from repro.answers.pages.built import Built
from repro.answers.pages.files import Files
from repro.answers.pages.markdown import Markdown
from repro.answers.pages.render import template, write_page
from repro.core import config_folders

if TYPE_CHECKING:
    import pandas as pd

PAGE = "overview"
TITLE = re.compile(r"{% block title %}(.*), reproduced{% endblock %}|^# (.*)$", re.MULTILINE)  # in a page's template


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
    shown = {paper: of | {"answer": Markdown(of["answer"])} for paper, of in shown.items()}
    rows = pd.DataFrame(
        [row | {"paper": titles[paper], "page": paper} for paper, of in shown.items() for row in of["headlines"]]
    )
    text = template(
        f"{PAGE}/index.md.j2",
        papers=[(paper, titles[paper], of) for paper, of in shown.items()],
        missing=[name for name in (*titles, *others) if name not in summaries],
        own=any(of["own"] for of in shown.values()),
        forest=_picture(files, rows) if len(rows) else "",
        counts=files.table(_counts(rows), "verdicts", ["verdict"]) if len(rows) else "",
        others=[(name, title, Markdown(summaries[name])) for name, title in others.items() if name in summaries],
    )
    return files.built(inputs, write_page(text, "index", files), None)


def _picture(files: Files, rows: pd.DataFrame) -> str:
    """The headlines of all papers."""
    named = rows.assign(claim=rows["paper"] + ". " + rows["claim"]).drop(columns=["paper", "page"])
    named = named.astype(dict.fromkeys(wording.NUMBERS, float))
    return forest.forest_picture(files, named, "The headline claims of all papers")


def _counts(rows: pd.DataFrame) -> pd.DataFrame:
    """The number of headlines by verdict, a column a paper."""
    import pandas as pd

    counts = pd.crosstab(rows["verdict"], rows["paper"])[rows["paper"].unique()]
    return counts.reindex([word for word in wording.STRIP if word in counts.index]).reset_index()
