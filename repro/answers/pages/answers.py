"""The table of papers in README: what each proposes and reports, and what was found, in the words of its page."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from repro.answers.pages.files import Files
from repro.answers.pages.overview import papers
from repro.records import reference as published

NAME = "papers"
HEAD = ("paper", "what it proposes and reports", "what we find")


def rows(reference: Path) -> list[tuple[str, ...]]:
    """The head, and a row a paper; InputError where a verdict that an answer rests on is another in the reference."""
    from repro.answers.pages.paper_page import PaperPage

    committed = [paper for paper in papers() if paper in published.papers()]
    with tempfile.TemporaryDirectory() as out:
        pages = {paper: PaperPage.of(paper, reference, Files(paper, Path(out))) for paper in committed}
        return [HEAD, *(row(paper, {"method": page.method, "answer": page.answer}) for paper, page in pages.items())]


def row(paper: str, said: Mapping[str, str]) -> tuple[str, ...]:
    """said: what a page says of itself (`PaperPage.write`)"""
    return f"[{papers()[paper]}](reports/out/{paper}.md)", said["method"], said["answer"]
