"""The overview: one screen of answers, a sentence and a strip of verdicts a paper, the comparison, the validation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repro.reporting.evaluate import Judged
from repro.reporting.verdict import INCONCLUSIVE
from repro.reports import wording
from repro.reports.files import Files
from repro.reports.paper_page import Answer
from repro.reports.render import template, write_page
from repro.reports.specs import Specs

PAGE = "overview"
# paper -> (short name, title)
PAPERS: dict[str, tuple[str, str]] = {
    "pipesgd": ("Pipe-SGD", "Pipe-SGD: A Decentralized Pipelined SGD Framework for Distributed Deep Net Training"),
    "pipedream": ("PipeDream", "PipeDream: Fast and Efficient Pipeline Parallel DNN Training"),
    "gtopk": ("gTop-k S-SGD", "A Distributed Synchronous SGD Algorithm with Global Top-k Sparsification for Low "
              "Bandwidth Networks"),
    "eagersgd": ("eager-SGD", "Taming Unbalanced Training Workloads in Deep Learning with Partial Collective "
                 "Operations"),
    "ibatch": ("iBatch", "Scalable Distributed DL Training: Batching Communication and Computation"),
}  # fmt: skip
# pages that belong to no paper -> title
ACROSS = {"validation": "How far the simulation can be trusted", "baselines": "Libraries beside the papers' strategies"}
STRIP = ("holds as printed", "holds, another size", "does not hold", "inconclusive", "not judged")


def build(done: Mapping[str, Any], out: Path) -> list[Path]:
    """index.md from what each page said of itself; returns the files written."""
    import pandas as pd

    answers: dict[str, Answer] = {paper: done[paper] for paper in PAPERS if paper in done}
    rows = [
        {"paper": PAPERS[paper][0], "verdict": verdict, "claims": count}
        for paper, answer in answers.items()
        for verdict, count in strip(answer).items()
    ]
    files = Files(PAGE, out)
    specs = Specs(PAGE, files, lambda shown: pd.DataFrame(rows))
    text = template(
        f"{PAGE}/index.md.j2",
        papers=[(paper, *PAPERS[paper], answers[paper].sentence, strip(answers[paper])) for paper in answers],
        strip=specs.figure("strip"),
        others=[(name, title, done[name]) for name, title in ACROSS.items() if name in done],
    )
    return [*write_page(text, "index", out, files.written), *files.written]


def strip(answer: Answer) -> dict[str, int]:
    """How many claims have which verdict, each by the kind of number that decides it."""
    found = Counter(_place(wording.deciding(of_kinds)) for of_kinds in wording.by_claim(answer.judged).values())
    return {name: found[name] for name in STRIP}


def _place(one: Judged) -> str:
    if not one.verdict.judged:
        return "not judged"
    if one.verdict.answer == INCONCLUSIVE:
        return INCONCLUSIVE
    if one.verdict.answer == "holds":
        return "holds as printed" if one.verdict.settled else "holds, another size"
    return "does not hold"
