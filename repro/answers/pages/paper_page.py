"""A paper's pages: its answer, headlines and figures; every claim; and what the numbers were made with.

What is a paper's own stands in `reports/<paper>/`: page.md.j2 (the words), claims.yaml, figures.yaml, tables.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from repro.answers.claims.claims import File, Finding
from repro.answers.claims.evaluate import Judged
from repro.answers.claims.stats import number
from repro.answers.figures import forest, specs
from repro.answers.figures.specs import Specs
from repro.answers.pages import cells as tables
from repro.answers.pages import provenance, untried, wording
from repro.answers.pages.claim_tables import ClaimTables
from repro.answers.pages.files import Files
from repro.answers.pages.overview import papers
from repro.answers.pages.reference import quoted
from repro.answers.pages.render import template, write_page
from repro.answers.tables.loading import KINDS
from repro.answers.tables.results import Results, gathered
from repro.core import config_folders
from repro.core.errors import InputError, unknown
from repro.core.not_none import not_none
from repro.records.catalogue import WORKSPACE
from repro.records.kinds import SIMULATED

PLACEHOLDER = re.compile(r"{(?P<claim>[^{}:]+):(?P<kind>[^{}:]+)(?::(?P<part>point|range|verdict))?}")


def build(paper: str, results: Path | None, files: Files) -> tuple[list[Path], dict[str, Any]]:
    """(pages, what the overview says of it), see `PaperPage.write`"""
    return PaperPage.of(paper, results, files).write()


@dataclass(frozen=True)
class PaperPage:
    """What the templates of a paper's pages ask for."""

    paper: str
    results: Path | None
    found: Results
    files: Files

    @classmethod
    def of(cls, paper: str, results: Path | None, files: Files) -> PaperPage:
        return cls(paper, results, gathered(paper, results), files)

    def write(self) -> tuple[list[Path], dict[str, Any]]:
        """(pages, what the overview says: `method`, `answer`, `headlines`, a row each, and `own`, how many of them have
        runs of the workspace, `of` how many, and how many `runs` it has)"""
        text = template(f"{self.paper}/page.md.j2", page=self, figure=self.specs.figure, table=self.specs.table,
                        ours=self.ours)  # fmt: skip
        pages = write_page(text, self.paper, self.files)
        for name in ("claims", "provenance"):
            pages += write_page(template(f"{name}.md.j2", page=self), f"{self.paper}-{name}", self.files)
        headlines = [
            {name: None if value != value else value for name, value in row.items()}  # JSON has no NaN
            for row in wording.headlines(self.by_claim).to_dict("records")
        ]
        own = sum(map(wording.mine, self.claims.headlines))
        said = {"method": self.method, "answer": self.answer if self.anything else "", "headlines": headlines}
        return pages, said | {"own": own, "of": len(self.claims.headlines), "runs": len(self._own)}

    def says(self, page: str, what: str) -> str:
        """What another page's module says of this paper: its function of that name."""
        return str(getattr(not_none(config_folders.report_module(page)), what)(self.paper))

    @cached_property
    def file(self) -> File:
        return self.found.file

    @cached_property
    def specs(self) -> Specs:
        """What draws the figures and tables of the page."""
        made = specs.of_paper(self.paper)
        return Specs(self.paper, self.files, lambda shown: specs.table(shown, self.found, made))

    @cached_property
    def judged(self) -> list[Judged]:
        return self.found.judged

    @cached_property
    def by_claim(self) -> Mapping[str, list[Judged]]:
        return wording.by_claim(self.judged)

    @cached_property
    def claims(self) -> ClaimTables:
        return ClaimTables(self.paper, self.file, self.by_claim, self.found.experiments, self.files)

    @property
    def name(self) -> str:
        """What pages call the paper's method."""
        return papers()[self.paper]

    @property
    def anything(self) -> bool:
        return bool(self.found.shown)

    # --- what a page's words are made of

    def one(self, claim: str, kind: str) -> Judged:
        """The verdict of a kind of number on a claim."""
        if claim not in self.by_claim:
            raise unknown(f"claim on the page of {self.paper}", claim, self.by_claim)
        if kind not in KINDS:
            raise unknown(f"kind of number of claim {claim}", kind, KINDS)
        return next(one for one in self.by_claim[claim] if one.kind == kind)

    def ours(self, claim: str, kind: str = "simulated", part: str = "") -> str:
        """Our number for a claim, as every page says it; part: see `wording.ours`."""
        return wording.ours(self.one(claim, kind), part)

    @property
    def forest(self) -> str:
        """The picture of all headlines; nothing where none has a number."""
        rows = wording.headlines(self.by_claim)
        return forest.picture(self.files, rows) if len(rows) else ""

    @property
    def own(self) -> str:
        """The runs of the workspace, where the page has the reference too: a row an experiment, variant, kind and scale
        with the medians."""
        by = ["experiment", "variant", "kind", "scale"]
        rows = [
            {
                "run": f"{experiment}, {variant}",
                "kind": f"{kind}, {scale}",
                "ms a step": number(1000 * of["step_s"].median()),
            }
            | {"score": number(of["final"].median()), "runs": str(len(of))}
            for (experiment, variant, kind, scale), of in self._own.groupby(by, sort=False, dropna=False)
        ]
        return self._text(pd.DataFrame(rows), "own")

    @cached_property
    def _own(self) -> pd.DataFrame:
        frame = self.found.runs.frame
        own = frame[frame["root"] == WORKSPACE] if len(frame) and self.results is None else frame.iloc[:0]
        return own.reindex(columns=["experiment", "variant", "kind", "scale", "step_s", "final"]).astype(
            {"step_s": float, "final": float}
        )

    @property
    def untried(self) -> str:
        return self._text(untried.table(self.file.untried), "untried")

    @property
    def price(self) -> str:
        return untried.PRICE

    @property
    def method(self) -> str:
        """What the paper proposes and reports."""
        return self.told(self.file.method)

    @property
    def answer(self) -> str:
        """What was found, in a sentence or two."""
        return self.found_out(self.file.answer)

    @property
    def findings(self) -> list[str]:
        return [self.found_out(finding) for finding in self.file.findings]

    def found_out(self, finding: Finding) -> str:
        """A finding with its numbers. Where a verdict that it rests on is another now, it says so; InputError where
        that is so in the reference."""
        from repro.core.paths import reference_root

        others = []
        for place, verdict in finding.rests_on.items():
            one = self.one(*place.split(":", 1))
            if one.verdict.answer == verdict or (not one.evidence.values and self.results != reference_root()):
                continue
            if self.results == reference_root():
                raise InputError(f"{self.paper}: a finding rests on {place} {verdict}; it is {one.verdict.text}")
            others.append(
                f"C{self.claims.numbers[one.claim.id]} is {one.verdict.answer} ({one.kind}), no longer {verdict}"
            )
        return self.told(finding.text) + (f" *With the runs here: {'; '.join(others)}.*" if others else "")

    def told(self, text: str) -> str:
        """A text of the claims file with its numbers: ours for `{claim:kind}`, the paper's for `{claim:paper}`."""
        return PLACEHOLDER.sub(lambda place: self.number(**place.groupdict("")), text)

    def number(self, claim: str, kind: str, part: str = "") -> str:
        if part == "verdict":
            return self.one(claim, kind).verdict.answer
        if kind == "paper":
            return self.one(claim, SIMULATED).claim.paper.shown
        ours, decided = self.ours(claim, kind, part), wording.deciding(self.by_claim[claim]).kind
        return ours if part or kind == decided else f"{ours} {kind}"  # the headline table has the other number

    # --- provenance

    def _text(self, table: pd.DataFrame, name: str) -> str:
        """Nothing of an empty table."""
        return self.files.table(table, name, list(table.columns)) if len(table) else ""

    @property
    def header(self) -> str:
        return self._text(provenance.of_groups(self.found.shown, self.claims.speaks), "provenance")

    @property
    def versions(self) -> list[str]:
        return [tables.cell(line) for line in provenance.versions(self.found.used)]

    @property
    def errors(self) -> list[str]:
        """By how much simulated numbers may be off, and how that is known, each once."""
        return list(dict.fromkeys(one.evidence.error for one in self.judged if one.evidence.error))

    @property
    def testbeds(self) -> str:
        return self._text(tables.testbed_parameters(self.found.used), "testbed")

    @property
    def quoted(self) -> str:
        return self._text(quoted(self.paper).table, "reference")

    @property
    def others(self) -> str:
        return self._text(provenance.others(self.found.others), "others")
