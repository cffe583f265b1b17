"""Tables of a page: data frames of text as Markdown or LaTeX."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from repro.answers.claims.stats import ALPHA, DASH, RHO, TIMES
from repro.answers.tables.escaping import unescaped
from repro.answers.tables.loading import Summary

if TYPE_CHECKING:
    import pandas as pd

LOOSE = re.compile(r"&(?!#?\w+;)")  # & outside of character references
# what plain LaTeX shows for signs that have a meaning in it, or that it lacks
LATEX = str.maketrans({
    **{sign: f"\\{sign}" for sign in "&%$#_{}"}, "^": r"\^{}", "~": r"\textasciitilde{}", "\\": r"\textbackslash{}",
    "<": r"\ensuremath{<}", ">": r"\ensuremath{>}", DASH: "--", TIMES: r"$\times$", "·": r"$\cdot$", "∞": r"$\infty$",
    "β": r"$\beta$", "µ": r"$\mu$", ALPHA: r"$\alpha$", RHO: r"$\rho$", "√": r"$\surd$", "≤": r"$\le$", "≥": r"$\ge$",
    "±": r"$\pm$", "÷": r"$\div$",
})  # fmt: skip


def markdown(table: pd.DataFrame, left: Sequence[str] = ()) -> str:
    """A Markdown table; the first column and those in `left` are aligned left."""
    right = {i for i, name in enumerate(table.columns) if i and name not in left}
    names, *rows = _padded(table, cell, right)
    ends = ["-" * (len(name) - 1) + ":" if i in right else ":" + "-" * (len(name) - 1) for i, name in enumerate(names)]
    return "\n".join(f"|{'|'.join(row)}|" for row in (names, ends, *rows))


def _padded(table: pd.DataFrame, shown: Callable[[object], object], right: Collection[int] = ()) -> list[list[str]]:
    """The names of the columns and the rows as text, each column as wide as its longest; right: columns aligned right.

    A page has a hundred tables, and tabulate, which would do this too, takes ten times as long.
    """
    columns = []
    for i, name in enumerate(table.columns):
        texts = [str(shown(value)).strip() for value in (name, *table.iloc[:, i].tolist())]
        width, side = max(len(texts[0]) + 2, *map(len, texts)), "<>"[i in right]
        columns.append([f" {text:{side}{width}} " for text in texts])
    return [*map(list, zip(*columns))]


def cell(value: object) -> str:
    """The text escaped, so that it stays in its cell and is no markup."""
    text = " ".join(str(value).split()) or DASH
    text = LOOSE.sub("&amp;", text)
    for sign, name in (("<", "&lt;"), (">", "&gt;"), ("|", "&#124;"), ("*", "&#42;")):
        text = text.replace(sign, name)
    return text


def latex(table: pd.DataFrame) -> str:
    """A booktabs table."""
    names, *rows = ("&".join(text.translate(LATEX) for text in row) + r"\\" for row in _padded(table, unescaped))
    begin = rf"\begin{{tabular}}{{{'l' * len(table.columns)}}}"
    return "\n".join([begin, r"\toprule", names, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}", ""])


def testbed_parameters(runs: Iterable[Summary]) -> pd.DataFrame:
    """The parameters of the simulated testbeds: a row for each value, with its source and its testbeds."""
    import pandas as pd

    models = {run["testbed"]: run["testbed_model"] for run in runs if run["kind"] == "simulated"}
    rows = []
    for testbed, model in sorted((name, model) for name, model in models.items() if model):
        sources = model.get("sources") or {}
        own = {name: value for name, value in model.items() if name not in ("name", "kind", "launcher", "sources")}
        for name, value in pd.json_normalize(own).to_dict("records")[0].items():
            path = str(name)
            source = next((sources[key] for key in (path, path.partition(".")[0], "all") if key in sources), DASH)
            rows.append((path, f"{value:g}" if isinstance(value, float) else str(value), source, testbed))
    table = pd.DataFrame(rows, columns=["parameter", "value", "source", "testbeds"])
    return table.groupby(["parameter", "value", "source"], sort=False)["testbeds"].agg(", ".join).reset_index()
