"""The page's tables as data frames of text, and how such a frame becomes Markdown or LaTeX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from repro.common.phases import PHASES
from repro.records.store import LATER_PHASES
from repro.reporting.stats import ALPHA, DASH, RHO, TIMES, Spread, number, show, show_target, spread
from repro.reports import compute, foreign, frames
from repro.reports.groups import Group
from repro.reports.loading import Summary
from repro.reports.probes import ProbeGroup

if TYPE_CHECKING:
    import pandas as pd

LATEX = {DASH: "--", TIMES: r"$\times$", "·": r"$\cdot$", "∞": r"$\infty$", "β": r"$\beta$", "µ": r"$\mu$",
         ALPHA: r"$\alpha$", RHO: r"$\rho$",
         "√": r"$\surd$", "≤": r"$\le$", "≥": r"$\ge$", "±": r"$\pm$",
         "÷": r"$\div$"}  # fmt: skip

# variants that speed-ups are given over
BASES = ("PS-Sync", "D-Sync", "Dense", "Top-k")


def markdown(table: pd.DataFrame, left: Sequence[str] = ()) -> str:
    """A Markdown table; columns aligned right but for the first and those in `left`."""
    escaped = table.map(cell).rename(columns=cell)
    align = ["left" if i == 0 or name in left else "right" for i, name in enumerate(table.columns)]
    return escaped.to_markdown(index=False, disable_numparse=True, colalign=align)


def cell(value: object) -> str:
    """Text that stays inside its cell and is not taken for markup."""
    text = " ".join(str(value).split()) or DASH
    for sign, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("|", "&#124;"), ("*", "&#42;")):
        text = text.replace(sign, name)
    return text


def latex(table: pd.DataFrame) -> str:
    """A booktabs table, one paper column a column; signs that plain LaTeX lacks are replaced."""
    text = table.map(foreign.plain).rename(columns=foreign.plain).to_latex(index=False, escape=True)
    for sign, command in LATEX.items():
        text = text.replace(sign, command)
    return text


def hardware(group: Group | ProbeGroup) -> str:
    """Where a group's seconds come from: the machine's class, or the testbeds whose model they are."""
    if group.kind == "simulated":
        testbeds = list(dict.fromkeys(run["testbed"] for run in group.summaries))
        more = f" and {len(testbeds) - 2} more testbeds" if len(testbeds) > 3 else ""
        return f"modelled: {', '.join(testbeds[: 2 if more else 3])}{more}"
    return " / ".join(dict.fromkeys(str(run["hardware"]["class"]) for run in group.summaries))


def variants(group: Group, paper_metric: Mapping[str, str] | None = None) -> pd.DataFrame:
    """A row a variant: accuracy (the paper's beside it where given), time, time to each target, speed-ups.

    Without arithmetic there are no accuracies and no targets. Speed-ups are over the baselines that are there.
    """
    import pandas as pd

    rows = []
    for name in group.variants if paper_metric is not None else group.covered():
        runs = list(group.runs(name).values())
        line = {"kind": group.kind, "setting": name, "seeds": len(runs)}
        if not group.timing_only:
            line[f"final {group.metric}"] = show(spread(map(compute.final, runs)), decimals=4, seeds=False)
        if paper_metric is not None:
            line[f"final {group.metric}, quoted from the paper"] = paper_metric.get(name, DASH)
        line["iteration (ms)"] = _ms(spread(c["step"]["mean_s"] for c in runs))
        if not group.timing_only:
            line["training (s)"] = show(spread(c["final"]["train_s"] for c in runs), seeds=False)
        for goal in [] if group.timing_only else frames.targets(group):
            line[f"to {goal} (s)"] = show_target([compute.target_s(c, goal) for c in runs if goal in c["targets"]])
        for base in BASES:
            if group.runs(base):
                line[f"speed-up vs {base}"] = _speedup(group, name, base)
        rows.append(line)
    return pd.DataFrame(rows).astype(str)


def _speedup(group: Group, name: str, base: str) -> str:
    values = compute.speedup(group, name, base).values if group.runs(name) and group.runs(base) else {}
    return show(spread(values.values()), seeds=False, unit=TIMES) if values else DASH


def breakdown(group: Group) -> pd.DataFrame:
    """A row a variant: milliseconds an iteration by phase (mean over worker ranks, median over seeds), bytes sent."""
    import pandas as pd

    rows, phases = [], shown_phases(group)
    for name in group.variants:
        runs = list(group.phase_runs(name).values())
        if not runs:
            continue

        def of(section: str, key: str, runs: list = runs) -> Spread:
            return spread(c[section][key] for c in runs)

        rows.append(
            {
                "kind": group.kind,
                "setting": name,
                **{phase: _ms(of("phases", phase)) for phase in phases},
                "all phases": _ms(spread(sum(c["phases"].values()) for c in runs)),
                "all comm.": _ms(of("communication", "total_s")),
                "hidden comm.": _ms(of("communication", "overlapped_s")),
                "sent (kB)": number(spread(c["bytes_sent"] for c in runs).median / 1e3, 4),
                "cells": "breakdown" if runs[0]["breakdown"] else "throughput",
            }
        )
        servers = [c["server_phases"] for c in runs if c.get("server_phases")]
        if servers:
            own = {phase: _ms(spread(s.get(phase, 0.0) for s in servers)) for phase in phases}
            total = _ms(spread(sum(s.get(p, 0.0) for p in PHASES) for s in servers))
            rows.append(
                {
                    "kind": group.kind,
                    "setting": f"{name}, server rank",
                    **own,
                    "all phases": total,
                    "all comm.": DASH,
                    "hidden comm.": DASH,
                    "sent (kB)": DASH,
                    "cells": "breakdown" if runs[0]["breakdown"] else "throughput",
                }
            )
    return pd.DataFrame(rows)


def shown_phases(group: Group) -> list[str]:
    """Every phase, without injected delays where there are none."""
    return [name for name in PHASES if name not in LATER_PHASES or any(run["phases"].get(name) for run in group.used())]


def _ms(found: Spread) -> str:
    median, low, high = (1e3 * frames.snap(value) for value in (found.median, found.low, found.high))
    scaled = Spread(median, low, high, found.n, found.interval)
    return show(scaled, seeds=False)


def others(groups: Sequence[Group | ProbeGroup]) -> pd.DataFrame:
    """Results that are in no figure of the page, and how they differ."""
    import pandas as pd

    columns = (
        "kind",
        "experiment",
        "settings",
        "seeds",
        "hardware",
        "dataset",
        "epochs",
        "batch",
        "testbed",
        "launcher",
        "options",
        "finished",
    )
    rows = []
    for group in groups:
        one = group.first
        names = list(dict.fromkeys(c["setting"] for c in group.summaries))
        options = sorted({f"{k}={v}" for c in group.summaries for k, v in (c.get("options") or {}).items()})
        rows.append(
            (
                group.kind,
                one["experiment"],
                ", ".join(names),
                len({c["seed"] for c in group.summaries}),
                hardware(group),
                (one.get("dataset") or {}).get("name", DASH),
                f"{one['epochs']:g}" if "epochs" in one else DASH,
                one.get("batch", DASH),
                one["testbed"],
                one["launcher"],
                " ".join(options) if isinstance(group, Group) else DASH,
                group.latest[:19],
            )
        )
    return pd.DataFrame(rows, columns=columns).astype(str)


def testbed_parameters(runs: Sequence[Summary]) -> pd.DataFrame:
    """The virtual testbeds' parameters, each with its source; of all but the first only what differs from it."""
    import pandas as pd

    models = {c["testbed"]: c["testbed_model"] for c in runs if c["kind"] == "simulated" and c.get("testbed_model")}
    rows: list[tuple[str, str, str, str]] = []
    known: dict[str, str] = {}
    for testbed in sorted(models, key=lambda name: (name != "paper/pipesgd", name)):
        for parameter, value, source in _parameters(models[testbed]):
            if not rows or known.get(parameter) != value:
                rows.append((testbed, parameter, value, source))
        known = known or {parameter: value for _, parameter, value, _ in rows}
    return pd.DataFrame(rows, columns=("testbed", "parameter", "value", "source"))


def _parameters(model: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(parameter, value, source) of a testbed."""
    model = dict(model)
    sources = model.pop("sources", None) or {}
    for name in ("name", "kind", "launcher"):
        model.pop(name, None)
    rows = []
    for name, value in model.items():
        for key, one in (
            {f"{name}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {name: value}
        ).items():
            source = sources.get(key, sources.get(name, sources.get("all", DASH)))
            rows.append((key, f"{one:g}" if isinstance(one, float) else str(one), source))
    return rows
