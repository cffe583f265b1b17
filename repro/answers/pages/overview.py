"""The overview: each paper's first headlines in one picture, what was found of each, how far to trust it, how to
start."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.answers.claims.verdict import REFUTED
from repro.answers.figures import forest
from repro.answers.pages import built, wording
from repro.answers.pages.built import Built
from repro.answers.pages.files import Files
from repro.answers.pages.render import template, write_page
from repro.core import config_folders

if TYPE_CHECKING:
    import pandas as pd

PAGE = "overview"
DRAWN = 3  # headlines a paper in the picture: the first that its axes have a place for
TITLE = re.compile(r"{% block title %}(.*), reproduced{% endblock %}|^# (.*)$", re.MULTILINE)  # of a page's template


def _titles(of_papers: bool) -> dict[str, str]:
    """folder of `reports/` -> what its page calls it; a paper is what has claims."""
    folders = [path.parent for root in config_folders.report_folders() for path in sorted(root.glob("*/page.md.j2"))]
    chosen = [folder for folder in folders if (folder / "claims.yaml").is_file() == of_papers]
    titles = [TITLE.search((folder / "page.md.j2").read_text(encoding="utf-8")) for folder in chosen]
    return {
        folder.name: next(filter(None, title.groups())) if title else folder.name
        for folder, title in zip(chosen, titles, strict=True)
    }


def papers() -> dict[str, str]:
    """What has claims, by the folder's name, with the title of its page; the project's own first."""
    return _titles(of_papers=True)


def across() -> dict[str, str]:
    """The other pages in the same way."""
    return _titles(of_papers=False)


def build(done: Mapping[str, Any], out: Path, pdf: bool = False) -> Built:
    """index.md from what each page said of itself."""
    import pandas as pd

    files, inputs = Files(PAGE, out, pdf=pdf), built.inputs(PAGE, None, done)
    if files.before.is_of(inputs, pdf):
        return files.before
    titles = papers()
    shown = {paper: done[paper] for paper in titles if paper in done}
    rows = pd.DataFrame(
        [row | {"paper": titles[paper], "page": paper} for paper, said in shown.items() for row in said["headlines"]]
    )
    text = template(
        f"{PAGE}/index.md.j2",
        papers=[(paper, titles[paper], said) for paper, said in shown.items()],
        missing=[name for name in (*titles, *across()) if name not in done],
        own=any(said["own"] for said in shown.values()),
        forest=_picture(files, rows) if len(rows) else "",
        counts=files.table(_counts(rows), "verdicts", ["verdict"]) if len(rows) else "",
        others=[(name, title, done[name]) for name, title in across().items() if name in done],
    )
    return files.built(inputs, write_page(text, "index", files), None)


def _picture(files: Files, rows: pd.DataFrame) -> str:
    """The first headlines of each paper; nothing where no axis has a place for one."""
    drawn = rows[rows["unit"] != forest.TEXT].groupby("paper", sort=False).head(DRAWN)
    if drawn.empty:
        return ""
    named = drawn.assign(claim=drawn["paper"] + ". " + drawn["claim"]).drop(columns=["paper", "page"])
    shown, refuted = ((of["verdict"] == REFUTED).sum() for of in (drawn, rows))
    which = f"The first {DRAWN} of each paper, {shown} of {refuted} refuted ones among them"
    return forest.picture(files, named.astype(dict.fromkeys(wording.NUMBERS, float)), which)


def _counts(rows: pd.DataFrame) -> pd.DataFrame:
    """A column a paper: how many of its headlines have which verdict."""
    import pandas as pd

    counts = pd.crosstab(rows["verdict"], rows["paper"])[rows["paper"].unique()]
    return counts.reindex([word for word in wording.STRIP if word in counts.index]).reset_index()
