"""The first thing on the page: how many claims hold, the headline speed-ups, and what has been run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from repro.reports import tables
from repro.reports.experiments import FIGURE4, MORE, PAPER, SHOWN
from repro.reports.groups import Group
from repro.reports.loading import KINDS
from repro.reports.order import headline
from repro.reports.probes import ProbeGroup
from repro.reports.stats import DASH
from repro.reports.verdicts import NOT_ATTEMPTED, VERDICTS, Verdict

BASES = ("D-Sync", "PS-Sync")
HAS_RUN = "What has been run; the claims that the paper is known for rest on what is marked *headline*:"


def counts(verdicts: Sequence[Verdict]):
    """A row a kind: how many of each verdict."""
    import pandas as pd

    rows = []
    for kind in KINDS:
        mine = [v for v in verdicts if v.kind == kind]
        found = Counter(v.label for v in mine)
        provisional = sum("provisional" in v.text for v in mine if v.label != NOT_ATTEMPTED)
        rows.append({"kind": kind, **{name: found[name] for name in VERDICTS}, "of these provisional": provisional})
    return pd.DataFrame(rows).astype(str)


def speedups(verdicts: Sequence[Verdict]):
    """A row a benchmark and baseline: the paper's range, and ours by kind."""
    import pandas as pd

    rows = []
    for row in FIGURE4:
        for base in BASES:
            mine = [
                v
                for v in verdicts
                if v.claim.experiment == row.name
                and v.claim.compute == "speedup"
                and v.claim.arguments.get("over") == base
                and isinstance(v.claim.arguments["setting"], list)
                and v.claim.low is not None
                and v.claim.high is not None
            ]
            if mine:
                ours = {v.kind: v.ours_text if v.ours else v.text for v in mine}
                rows.append({"benchmark": row.label, "over": base, "paper": mine[0].claim.shown, **ours})
    return pd.DataFrame(rows, columns=["benchmark", "over", "paper", *KINDS]).fillna(DASH).astype(str)


def runs(
    shown: Mapping[tuple[str, str], Group | ProbeGroup],
    experiments: Mapping[str, str] = SHOWN,
    paper: str = PAPER,
    files: Mapping[str, Sequence[str]] | None = None,
):
    """A row an experiment (name -> what it is on the page): what there is of each kind, and what to run.

    files: name -> the experiment files behind it, its own and `MORE`'s where nothing is given.
    """
    import pandas as pd

    rows = []
    for name, what in experiments.items():
        there = {kind: _amount(shown[name, kind]) if (name, kind) in shown else DASH for kind in KINDS}
        first, *also = files[name] if files else (name, *MORE.get(name, ()))
        command = f"`repro run {paper}/{first}`" + "".join(f", `{paper}/{other}`" for other in also)
        marked = f"{what} (headline)" if headline(paper, (first, *also)) else what
        rows.append({"experiment": marked, **there, "run with": command})
    return pd.DataFrame(rows)


def _amount(group: Group | ProbeGroup) -> str:
    if isinstance(group, ProbeGroup):
        return f"{len(group.summaries)} runs on {tables.hardware(group)}"
    seeds = len(group.seeds())
    timing = ", timing only" if group.timing_only else ", stand-in data" if group.standin else ""
    return (
        f"{len(group.covered())} variants, {seeds} seed{'s' if seeds != 1 else ''} on {tables.hardware(group)}{timing}"
    )
