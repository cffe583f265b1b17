"""Tables between two marks on pages of the checkout, which `repro verify --write` fills."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

END = "<!-- end -->"


def begin_mark(name: str) -> str:
    return f"<!-- {name}: repro verify --write -->"


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first row is its head."""
    head, *rest = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ("---",) * len(head), *rest])


def fill_table(text: str, name: str, table: str) -> str:
    """The text of a page with its table of that name replaced."""
    before, _, rest = text.partition(begin_mark(name))
    return f"{before}{begin_mark(name)}\n{table}\n{END}{rest.partition(END)[2]}"


def is_outdated(page: Path, name: str, table: str) -> bool:
    """Whether the page's table is outdated."""
    text = page.read_text(encoding="utf-8")
    return fill_table(text, name, table) != text


def write_table(page: Path, name: str, table: str) -> None:
    page.write_text(fill_table(page.read_text(encoding="utf-8"), name, table), encoding="utf-8")
