"""Tables of a page are as tabulate would write them, whatever their cells hold."""

from __future__ import annotations

import pandas as pd
import pytest
from tabulate import tabulate

from repro.answers.claims.stats import ALPHA, TIMES
from repro.answers.pages import cells

TABLE = pd.DataFrame(
    {"name": ["a", "", "a longer text"], "a_wide_name": [" 1", "3.25 ", "-"], "n": [1, 20, 300], "x": [0.5, None, 2.0]}
)


@pytest.mark.parametrize("table", [TABLE, TABLE.set_axis([*"aabc"], axis=1)])
def test_tables_are_as_tabulate_writes_them(table):
    names, rows = [*table.columns], table.astype(object).values.tolist()
    shown, sides = [[cells.cell(value) for value in row] for row in rows], ("left", "right", "left", "right")
    assert cells.markdown(table, names[2]) == tabulate(shown, names, "pipe", disable_numparse=True, colalign=sides)
    assert cells.latex(table) == tabulate(rows, names, "latex_booktabs", disable_numparse=True) + "\n"


def test_latex_shows_every_sign_and_the_original_text():
    text = cells.latex(pd.DataFrame({"a_b": ["50 % of $5 {x}^2", f"1.2{TIMES} &#124; &lt;", f"a\\b ~ {ALPHA}"]}))
    shown = [line.removesuffix(r"\\").strip() for line in text.splitlines()[2:7]]
    assert [shown[0], *shown[2:]] == [
        r"a\_b", r"50 \% of \$5 \{x\}\^{}2", r"1.2$\times$ | \ensuremath{<}",
        r"a\textbackslash{}b \textasciitilde{} $\alpha$",
    ]  # fmt: skip
