"""Tables of a page: data frames of text as Markdown or LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from repro.answers.claims.stats import ALPHA, DASH, RHO, TIMES
from repro.answers.pages.markdown import Markdown
from repro.records.kinds import SIMULATED

if TYPE_CHECKING:
    import pandas as pd

    from repro.records.record import Found

LOOSE = re.compile(r"&(?!#?\w+;)")  # & outside of character references
LATEX = {DASH: "--", TIMES: r"$\times$", "·": r"$\cdot$", "∞": r"$\infty$", "β": r"$\beta$", "µ": r"$\mu$",
         ALPHA: r"$\alpha$", RHO: r"$\rho$",
         "√": r"$\surd$", "≤": r"$\le$", "≥": r"$\ge$", "±": r"$\pm$",
         "÷": r"$\div$"}  # fmt: skip


def format_markdown(table: pd.DataFrame, left: Sequence[str] = ()) -> Markdown:
    """A Markdown table; the first column and those in `left` are aligned left."""
    shown = table.map(format_cell).rename(columns=format_cell)
    align = ["left" if i == 0 or name in left else "right" for i, name in enumerate(table.columns)]
    return Markdown(shown.to_markdown(index=False, disable_numparse=True, colalign=align))


def frame_of_cells(rows: Iterable[Any], columns: list[str] | None = None) -> pd.DataFrame:
    """A frame whose cells stay the objects that they are; pandas would make a `str` of `Markdown`."""
    import pandas as pd

    return pd.DataFrame([*rows], columns=columns, dtype=object)


def format_cell(value: object) -> Markdown:
    """The text of a value, or Markdown, so that it stays in its cell."""
    return fit_cell(value) if isinstance(value, Markdown) else Markdown.escape(" ".join(str(value).split()) or DASH)


def fit_cell(markdown: str) -> Markdown:
    """Markdown of this project's files, escaped as far as it takes to stay in its cell."""
    text = " ".join(str(markdown).split()) or DASH
    text = LOOSE.sub("&amp;", text)
    for sign, name in (("<", "&lt;"), (">", "&gt;"), ("|", "&#124;"), ("*", "&#42;")):
        text = text.replace(sign, name)
    return Markdown(text)


def latex(table: pd.DataFrame) -> str:
    """A booktabs table; signs that plain LaTeX lacks are replaced."""
    text = table.to_markdown(index=False, tablefmt="latex_booktabs", disable_numparse=True) + "\n"
    for sign, command in LATEX.items():
        text = text.replace(sign, command)
    return text


def testbed_parameters(runs: Iterable[Found]) -> pd.DataFrame:
    """The parameters of the simulated testbeds: a row for each value, with its source and its testbeds."""
    import pandas as pd

    beds = (run.identity.testbed for run in runs if run.kind == SIMULATED)
    rows = []
    for name, testbed in sorted({testbed.name: testbed for testbed in beds}.items()):
        sources = testbed.options.get("sources") or {}
        parameters = {
            entry: value for entry, value in testbed.parameters.items() if entry not in ("name", "kind", "launcher")
        }
        for entry, value in pd.json_normalize(parameters).to_dict("records")[0].items():
            path = str(entry)
            source = next((sources[key] for key in (path, path.partition(".")[0], "all") if key in sources), DASH)
            rows.append((path, f"{value:g}" if isinstance(value, float) else str(value), source, name))
    costs = {(path, source) for path, value, source, _ in rows if value != "0"}
    rows = [  # an experiment leaves out a cost that other testbeds with the same source count
        (
            path,
            value,
            f"left out; where it counts: {source}" if value == "0" and (path, source) in costs else source,
            name,
        )
        for path, value, source, name in rows
    ]
    table = pd.DataFrame(rows, columns=["parameter", "value", "source", "testbeds"])
    return table.groupby(["parameter", "value", "source"], sort=False)["testbeds"].agg(", ".join).reset_index()
