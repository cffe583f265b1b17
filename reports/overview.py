"""The overview page: every paper of the project, what is done and what is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repro.reports import tables
from repro.reports.loading import KINDS
from repro.reports.render import template, write_page
from repro.reports.stats import DASH
from repro.reports.verdicts import NOT_ATTEMPTED, VERDICTS

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
ACROSS = {
    "figure4_alexnet": "Pipe-SGD, Figure 4, row AlexNet: one short page",
    "validation": "Validation of the simulation",
    "baselines": "Libraries side by side",
}


def build(done: Mapping[str, Any], out: Path) -> list[Path]:
    """index.md from what each paper's page said of itself; a paper without a page is not attempted."""
    import pandas as pd

    rows, sections = [], []
    for paper, (short, title) in PAPERS.items():
        state = done.get(paper)
        rows += _rows(short, state)
        sections.append({"title": short, "text": _text(paper, title, state)})
    table = pd.DataFrame(rows, columns=["paper", "kind", "state", *VERDICTS]).astype(str)
    others = [(name, title, done[name]) for name, title in ACROSS.items() if name in done]
    text = template("index.md.j2", table=tables.markdown(table, left=["kind", "state"]), papers=sections, others=others)
    return write_page(text, "index", out)


def _rows(short: str, state: Mapping[str, Any] | None) -> list[tuple]:
    if state is None:
        return [(short, " and ".join(KINDS), "not attempted yet", *[DASH] * len(VERDICTS))]
    rows = []
    for kind in KINDS:
        counts = Counter(v.label for v in state["verdicts"] if v.kind == kind)
        there = sum(of_kind == kind for _, of_kind in state["shown"])
        rows.append(
            (
                short,
                kind,
                f"{there} of {len(state['experiments'])} experiments" if there else "no results yet",
                *[counts[name] for name in VERDICTS],
            )
        )
    return rows


def _text(paper: str, title: str, state: Mapping[str, Any] | None) -> str:
    if state is None:
        return f"*{title}*\n\nNot attempted yet."
    claims = {v.claim.id for v in state["verdicts"]}
    tried = {v.claim.id for v in state["verdicts"] if v.label != NOT_ATTEMPTED}
    lines = [
        f"*{title}*",
        f"[The report]({paper}.md): {len(tried)} of {len(claims)} claims attempted.",
    ]
    if not state["shown"]:
        lines.append(f"No results yet: `make reproduce-{paper}` makes them.")
    if state["standins"]:
        lines.append(f"Stand-in data ({', '.join(state['standins'])}): accuracies are not compared.")
    undone = dict.fromkeys(v.claim.experiment for v in state["verdicts"])
    missing = [
        e for e in undone if not any(v.label != NOT_ATTEMPTED for v in state["verdicts"] if v.claim.experiment == e)
    ]
    if missing:
        lines.append(f"Experiments that no results speak to yet: {', '.join(missing)}.")
    return "\n\n".join(lines)
