"""The page's tables as data frames of text, and how such a frame becomes Markdown or LaTeX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from repro.reporting.stats import ALPHA, DASH, RHO, TIMES
from repro.reports import foreign
from repro.reports.groups import Group
from repro.reports.loading import Summary
from repro.reports.probes import ProbeGroup

if TYPE_CHECKING:
    import pandas as pd

LATEX = {DASH: "--", TIMES: r"$\times$", "·": r"$\cdot$", "∞": r"$\infty$", "β": r"$\beta$", "µ": r"$\mu$",
         ALPHA: r"$\alpha$", RHO: r"$\rho$",
         "√": r"$\surd$", "≤": r"$\le$", "≥": r"$\ge$", "±": r"$\pm$",
         "÷": r"$\div$"}  # fmt: skip


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


def others(groups: Sequence[Group | ProbeGroup]) -> pd.DataFrame:
    """Results that are in no figure of the page, and how they differ."""
    import pandas as pd

    rows = []
    for group in groups:
        one = group.first
        options = sorted({f"{k}={v}" for c in group.summaries for k, v in (c.get("options") or {}).items()})
        rows.append({
            "kind": group.kind,
            "experiment": one["experiment"],
            "settings": ", ".join(dict.fromkeys(c["setting"] for c in group.summaries)),
            "seeds": len({c["seed"] for c in group.summaries}),
            "hardware": hardware(group),
            "dataset": (one.get("dataset") or {}).get("name", DASH),
            "epochs": f"{one['epochs']:g}" if "epochs" in one else DASH,
            **{name: one.get(name, DASH) for name in ("batch", "testbed", "launcher")},
            "options": " ".join(options) if isinstance(group, Group) else DASH,
            "finished": group.latest[:19],
        })  # fmt: skip
    return pd.DataFrame(rows).astype(str)


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
