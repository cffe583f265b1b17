"""What README says of the papers: how many headlines have which verdict, and a table of what each proposes and
reports, and what we find in one sentence."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from repro.answers.pages import wording
from repro.answers.pages.files import Files
from repro.answers.pages.overview import papers
from repro.answers.pages.paper_page import PaperPage
from repro.records import reference

NAME = "papers"  # between its marks in README


def describe_papers(folder: Path) -> tuple[str, list[tuple[str, ...]]]:
    """(`wording.describe_counts`, the table: its head, and a row for each paper with published runs in this folder);
    InputError if they contradict a finding."""
    with tempfile.TemporaryDirectory() as out:
        committed = [paper for paper in papers() if paper in reference.papers()]
        pages = [PaperPage.of(paper, folder, Files(paper, Path(out))) for paper in committed]
        of_papers = [row(page.paper, {"method": page.method, "title": page.title}) for page in pages]
        counts = wording.describe_counts(word for page in pages for word in page.claims.headline_rows["heading"])
    return counts, [("paper", "what it proposes and reports", "what we find"), *of_papers]


def row(paper: str, summary: Mapping[str, str]) -> tuple[str, ...]:
    """summary: of the paper's page (`PaperPage.write`)"""
    return f"[{papers()[paper]}](reports/out/{paper}.md)", summary["method"], f"**{summary['title']}**"
