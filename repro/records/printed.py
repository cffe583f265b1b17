"""Tables of records for a terminal and for a spreadsheet: what they cite may be anybody's, and must be no command."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from repro.core.warnings import one_line

if TYPE_CHECKING:
    import pandas as pd

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # characters that a terminal may obey; no tab or line break
FORMULA = re.compile(r"[=+\-@\t\r]")  # what a cell begins with that a spreadsheet computes


def text(table: pd.DataFrame, index: bool = True) -> str:
    """For a terminal, without control characters; four digits of what is no whole number."""
    plain = _mapped(table, one_line)
    return plain.to_string(index=index, na_rep="-", float_format=lambda value: f"{value:.4g}")


def csv(table: pd.DataFrame) -> str:
    """As CSV, without control characters too; a text that would be a formula has an apostrophe before it."""
    return str(_mapped(table, _no_formula).to_csv(index=False))


def _mapped(table: pd.DataFrame, change: Any) -> pd.DataFrame:
    def changed(value: Any) -> Any:
        return change(value) if isinstance(value, str) else value

    made = table.copy()
    for i, dtype in enumerate(table.dtypes):
        if dtype.name in ("object", "str", "string"):
            made.isetitem(i, list(map(changed, table.iloc[:, i])))
    return made.rename(columns=changed, index=changed)


def _no_formula(text: str) -> str:
    plain = CONTROL.sub(lambda match: repr(match[0])[1:-1], text)
    return f"'{plain}" if FORMULA.match(plain) else plain
