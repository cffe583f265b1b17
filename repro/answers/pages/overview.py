"""The overview: one screen of answers, a sentence and a strip of verdicts a paper, the comparison, the validation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repro.answers.figures.specs import Specs
from repro.answers.pages import built
from repro.answers.pages.built import Built
from repro.answers.pages.files import Files
from repro.answers.pages.render import template, write_page

PAGE = "overview"
# paper -> what the overview calls it
PAPERS = {"pipesgd": "Pipe-SGD", "pipedream": "PipeDream", "gtopk": "gTop-k S-SGD", "eagersgd": "eager-SGD",
          "ibatch": "iBatch"}  # fmt: skip
# pages that belong to no paper -> title
ACROSS = {"validation": "How far the simulation can be trusted", "baselines": "Libraries beside the papers' strategies",
          "gpu": "On a GPU"}  # fmt: skip


def build(done: Mapping[str, Any], out: Path) -> Built:
    """index.md from what each page said of itself."""
    import pandas as pd

    files, inputs = Files(PAGE, out), built.inputs(PAGE, None, done)
    if files.before.is_of(inputs):
        return files.before
    papers = {paper: done[paper] for paper in PAPERS if paper in done}
    rows = [
        {"paper": PAPERS[paper], "verdict": verdict, "claims": count}
        for paper, said in papers.items()
        for verdict, count in said["verdicts"].items()
    ]
    specs = Specs(PAGE, files, lambda shown: pd.DataFrame(rows))
    text = template(
        f"{PAGE}/index.md.j2",
        papers=[(paper, PAPERS[paper], *said.values()) for paper, said in papers.items()],
        strip=specs.figure("strip"),
        others=[(name, title, done[name]) for name, title in ACROSS.items() if name in done],
    )
    return files.built(inputs, write_page(text, "index", files), None)
