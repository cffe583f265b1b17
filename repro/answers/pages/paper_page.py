"""A paper's pages: its answer, headlines and figures; every claim; and what the numbers were made with.

What is a paper's own stands in `reports/<paper>/`: page.md.j2 (the words), claims.yaml, figures.yaml, tables.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

from repro.answers.claims.claims import Claim, File
from repro.answers.claims.evaluate import Judged
from repro.answers.claims.stats import DASH
from repro.answers.claims.verdict import REFUTED
from repro.answers.figures import forest, specs
from repro.answers.figures.specs import Specs
from repro.answers.pages import cells as tables
from repro.answers.pages import provenance, wording
from repro.answers.pages.files import Files
from repro.answers.pages.reference import quoted
from repro.answers.pages.render import template, write_page
from repro.answers.tables.loading import KINDS
from repro.answers.tables.results import Results, gathered
from repro.core.errors import InputError, unknown
from repro.records.kinds import EMULATED, MEASURED, PADDED, SIMULATED

PLACEHOLDER = re.compile(r"{(?P<claim>[^{}:]+):(?P<kind>[^{}:]+)}")
WHY = "why not, if not"  # a column of claims
COLUMNS = (EMULATED, MEASURED, SIMULATED)  # of verdicts; what is padded says so in the column of what is measured


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
        """(pages, what the overview says: `sentence`, and `verdicts`, how many claims have which)"""
        text = template(f"{self.paper}/page.md.j2", page=self, figure=self.specs.figure, table=self.specs.table,
                        ours=self.ours)  # fmt: skip
        pages = write_page(text, self.paper, self.files)
        for name in ("claims", "provenance"):
            pages += write_page(template(f"{name}.md.j2", page=self), f"{self.paper}-{name}", self.files)
        headlines = wording.headlines(self.by_claim).to_dict("records")
        return pages, {"sentence": self.answer, "verdicts": wording.strip(self.by_claim), "headlines": headlines}

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
        return self.found.court.judged()

    @cached_property
    def by_claim(self) -> Mapping[str, list[Judged]]:
        return wording.by_claim(self.judged)

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

    def ours(self, claim: str, kind: str = "simulated") -> str:
        """Our number for a claim, as every page says it."""
        return wording.ours(self.one(claim, kind))

    @property
    def forest(self) -> str:
        """The picture of all headlines; nothing where none has a number."""
        rows = wording.headlines(self.by_claim)
        return forest.picture(self.files, rows) if len(rows) else ""

    # --- claims

    @property
    def counts(self) -> str:
        """`84 claims: 30 confirmed; ...`, in the overview's words."""
        found = wording.strip(self.by_claim)
        return f"{len(self.by_claim)} claims: " + "; ".join(f"{name} {count}" for name, count in found.items())

    def claims_table(self, headlines: bool = False) -> str:
        """A row a claim, kinds side by side."""
        rows = [self.row(of, headlines) for of in self.by_claim.values() if of[0].claim.headline or not headlines]
        for last, row in reversed(list(pairwise(rows))) if headlines else ():
            if row[WHY] == last[WHY] != DASH:
                row[WHY] = "as above"
        table = pd.DataFrame(rows, columns=["claim", "paper", *COLUMNS, WHY])
        table = table.drop(columns=[kind for kind in COLUMNS if (table[kind] == DASH).all()])
        return self.files.table(table, "headlines" if headlines else "claims", list(table.columns))

    def row(self, of_kinds: Sequence[Judged], short: bool) -> dict[str, str]:
        """A claim's row; short: without reasons why a kind of number does not speak to it."""
        claim, by_kind = of_kinds[0].claim, {one.kind: one for one in of_kinds}
        cells = {kind: wording.cell(by_kind[kind], not short) for kind in COLUMNS}
        if (padded := wording.cell(by_kind[PADDED], not short)) != DASH and not short:
            cells["measured"] = "; ".join(text for text in (cells["measured"], f"padded: {padded}") if text != DASH)
        said = (claim.source, claim.scope, f"`{self.command(claim)}`" if short else claim.experiment)
        return {"claim": f"{claim.text} ({'; '.join(filter(None, said))})", "paper": claim.paper.shown, **cells,
                WHY: wording.why(of_kinds, self.file)}  # fmt: skip

    @property
    def failing(self) -> Mapping[str, list[str]]:
        """Why -> claims that do not hold and are no headlines, a line each."""
        found: dict[str, list[str]] = {}
        for of_kinds in self.by_claim.values():
            one = wording.deciding(of_kinds)
            if wording.place(one) == REFUTED and not one.claim.headline:
                ours = f"{one.kind} {wording.ours(one)} ({one.verdict.text})"
                said = f"{one.claim.text}: paper {one.claim.paper.shown}; {ours}"
                found.setdefault(wording.why([one], self.file), []).append(tables.cell(said))
        return {"Why is not known:" if why == DASH else why: said for why, said in found.items()}

    def command(self, claim: Claim) -> str:
        """What to run for a claim: its experiment, or all of the paper's where a group of the page is of several."""
        filters = [claim.value.arguments, *(of for _, of in claim.value.sides)] if claim.value else []
        named = next((of["experiment"] for of in filters if isinstance(of.get("experiment"), str)), claim.experiment)
        spec = self.found.experiments.get(named)
        return f"repro run {spec.run if spec and spec.run else f'{self.paper}/{named}'}"

    @property
    def decided(self) -> list[str]:
        """A line a headline and kind that was drawn: the input that decides it, and what follows where the paper's own
        baseline comes out as it prints it."""
        lines = []
        for one in self.judged:
            if one.claim.headline and one.evidence.decided_by:
                given = one.evidence.given
                own = f"; given the paper's own baseline: {given.text}" if given else ""
                lines.append(f"{one.claim.text} ({one.kind}): {one.evidence.decided_by}{own}")
        return lines

    @property
    def answer(self) -> str:
        """What was found, in a sentence."""
        return self.told(self.file.answer)

    @property
    def findings(self) -> list[str]:
        """The findings; InputError where a verdict that one rests on is another in the reference."""
        from repro.core.paths import reference_root

        for finding in self.file.findings if self.results == reference_root() else ():
            for place, verdict in finding.rests_on.items():
                one = self.one(*place.split(":", 1))
                if one.verdict.answer != verdict:
                    raise InputError(f"{self.paper}: a finding rests on {place} {verdict}; it is {one.verdict.text}")
        return [self.told(finding.text) for finding in self.file.findings]

    def told(self, text: str) -> str:
        """A text of the claims file with its numbers: ours for `{claim:kind}`, the paper's for `{claim:paper}`."""
        return PLACEHOLDER.sub(lambda place: self.number(place["claim"], place["kind"]), text)

    def number(self, claim: str, kind: str) -> str:
        return self.one(claim, SIMULATED).claim.paper.shown if kind == "paper" else self.ours(claim, kind)

    @property
    def changed(self) -> list[str]:
        """Claims that were added, or whose tolerance was fixed, later than the file's."""
        since = [(claim, claim.fixed or claim.tolerance.fixed) for claim in self.file.claims]
        return [f"{claim.text}: {date}" for claim, date in since if date not in (None, self.file.fixed)]

    # --- provenance

    def _text(self, table: pd.DataFrame, name: str) -> str:
        """Nothing of an empty table."""
        return self.files.table(table, name, list(table.columns)) if len(table) else ""

    @property
    def header(self) -> str:
        return self._text(provenance.of_groups(self.found.shown), "provenance")

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
