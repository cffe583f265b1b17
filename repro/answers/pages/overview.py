"""The overview: all headlines in one picture, a sentence a paper, the comparison, the validation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repro.answers.figures import forest
from repro.answers.pages import built
from repro.answers.pages.built import Built
from repro.answers.pages.files import Files
from repro.answers.pages.render import template, write_page
from repro.core.paths import REPORTS

PAGE = "overview"
TITLE = re.compile(r"{% block title %}(.*), reproduced{% endblock %}|^# (.*)$", re.MULTILINE)  # of a page's template


def _titles(of_papers: bool) -> dict[str, str]:
    """folder of `reports/` -> what its page calls it; a paper is what has claims."""
    folders = [path.parent for path in sorted(REPORTS.glob("*/page.md.j2"))]
    chosen = [folder for folder in folders if (folder / "claims.yaml").is_file() == of_papers]
    titles = [TITLE.search((folder / "page.md.j2").read_text(encoding="utf-8")) for folder in chosen]
    return {
        folder.name: next(filter(None, title.groups())) if title else folder.name
        for folder, title in zip(chosen, titles, strict=True)
    }


PAPERS, ACROSS = _titles(of_papers=True), _titles(of_papers=False)


def build(done: Mapping[str, Any], out: Path) -> Built:
    """index.md from what each page said of itself."""
    import pandas as pd

    files, inputs = Files(PAGE, out), built.inputs(PAGE, None, done)
    if files.before.is_of(inputs):
        return files.before
    papers = {paper: done[paper] for paper in PAPERS if paper in done}
    rows = [row | {"claim": f"{PAPERS[paper]}. {row['claim']}"} for paper, said in papers.items()
            for row in said["headlines"]]  # fmt: skip
    text = template(
        f"{PAGE}/index.md.j2",
        papers=[(paper, PAPERS[paper], said["sentence"], said["verdicts"]) for paper, said in papers.items()],
        forest=forest.picture(files, pd.DataFrame(rows)) if rows else "",
        others=[(name, title, done[name]) for name, title in ACROSS.items() if name in done],
    )
    return files.built(inputs, write_page(text, "index", files), None)
