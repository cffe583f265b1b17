"""A paper's pages: its answer, headlines and figures; every claim; and what the numbers were made with.

What is a paper's own stands in `reports/<paper>/`: page.md.j2 (the words), claims.yaml, figures.yaml, tables.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from repro.common.errors import InputError, unknown
from repro.reporting import claims, figures
from repro.reporting.evaluate import Judged
from repro.reporting.stats import DASH
from repro.reports import provenance, spec_tables, tables, wording
from repro.reports.evidence import Court
from repro.reports.files import Files
from repro.reports.gathering import Gathered
from repro.reports.loading import KINDS
from repro.reports.reference import read as read_reference
from repro.reports.render import template, write_page

if TYPE_CHECKING:
    import pandas as pd

HERE = Path(__file__).parent
COLUMNS = ("emulated", "measured", "simulated")  # of verdicts; what is padded says so in the column of what is measured
PADDED = "measured, padded"


@dataclass(frozen=True)
class Answer:
    """What the overview says of a paper: its first sentence, and its verdicts."""

    sentence: str
    judged: Sequence[Judged]


def build(paper: str, results: Path | None, out: Path) -> tuple[list[Path], list[Path], Answer]:
    """(pages, other files, what the overview says) of a paper, under `out`."""
    gathered = import_module(f"repro.reports.{paper}.results").gathered(results)
    page = PaperPage(paper, results, gathered, Files(paper, out))
    text = template(f"{paper}/page.md.j2", page=page, figure=page.figure, table=page.table, ours=page.ours)
    pages = write_page(text, paper, out, page.files.written)
    for name in ("claims", "provenance"):
        more = template(f"templates/{name}.md.j2", page=page)
        pages += write_page(more, f"{paper}-{name}", out, page.files.written)
    return pages, page.files.written, Answer(first_sentence(text), page.judged)


@dataclass(frozen=True)
class PaperPage:
    """What the templates of a paper's pages ask for."""

    paper: str
    results: Path | None
    gathered: Gathered
    files: Files

    @cached_property
    def file(self) -> claims.File:
        return claims.read(HERE / self.paper / "claims.yaml")

    @cached_property
    def shown(self) -> figures.File:
        return figures.read(HERE / self.paper / "figures.yaml")

    @cached_property
    def made(self) -> spec_tables.Made:
        return spec_tables.of_paper(self.paper)

    @cached_property
    def judged(self) -> list[Judged]:
        _, find, summaries = self.gathered
        return Court(self.paper, self.file, find, self.results, summaries).judged()

    @cached_property
    def by_claim(self) -> Mapping[str, list[Judged]]:
        return wording.by_claim(self.judged)

    @property
    def anything(self) -> bool:
        return bool(self.gathered.found.shown)

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

    def figure(self, name: str) -> str:
        """A figure by its specification: picture, caption with its kinds, links to what is behind it."""
        if name not in self.shown.figures:
            raise unknown(f"figure of {self.paper}", name, self.shown.figures)
        figure = self.shown.figures[name]
        table = spec_tables.table(figure, self.gathered.found, self.made)
        rows = figures.rows(figure, table) if len(table) else table
        if not len(rows):
            return f"*{figure.title}: not run yet.*"
        said = kinds(rows)
        caption = f"{figure.title}{f' ({said})' if said else ''}. {figure.caption}".strip()
        return self.files.picture(figures.draw(figure, rows), name, figure.alt, caption, {"": rows}).markdown()

    def table(self, name: str) -> str:
        """A table by its specification, with a caption before it."""
        if name not in self.shown.tables:
            raise unknown(f"table of {self.paper}", name, self.shown.tables)
        spec = self.shown.tables[name]
        found = spec_tables.table(spec, self.gathered.found, self.made)
        if not len(found):
            return f"*{spec.title}: not run yet.*"
        said = kinds(found) if "kind" not in (*spec.columns, *spec.index) else ""
        caption = f"*{spec.title}{f' ({said})' if said else ''}. {spec.caption}".strip()
        return f"{caption}*\n\n{self.files.table(figures.cells(spec, found), name)}"

    # --- claims

    @property
    def counts(self) -> str:
        """`84 claims: 30 hold, 4 fail, ...`, each by the kind of number that decides it."""
        found: dict[str, int] = {}
        for of_kinds in self.by_claim.values():
            answer = wording.deciding(of_kinds).verdict.answer
            found[answer] = found.get(answer, 0) + 1
        order = sorted(found, key=lambda answer: -found[answer])
        return f"{len(self.by_claim)} claims: " + ", ".join(f"{found[answer]} {answer}" for answer in order)

    def claims_table(self, headlines: bool = False) -> str:
        """A row a claim, kinds side by side."""
        import pandas as pd

        rows = [self.row(of, headlines) for of in self.by_claim.values() if of[0].claim.headline or not headlines]
        table = pd.DataFrame(rows, columns=["claim", "paper", *COLUMNS, "why not, if not"])
        return self.files.table(table, "headlines" if headlines else "claims", list(table.columns))

    def row(self, of_kinds: Sequence[Judged], short: bool) -> dict[str, str]:
        """A claim's row; short: without reasons why a kind of number does not speak to it."""
        claim, by_kind = of_kinds[0].claim, {one.kind: one for one in of_kinds}
        cells = {kind: wording.cell(by_kind[kind], not short) for kind in COLUMNS}
        if (padded := wording.cell(by_kind[PADDED], not short)) != DASH and not short:
            cells["measured"] = "; ".join(text for text in (cells["measured"], f"padded: {padded}") if text != DASH)
        command = f"`repro run {self.paper}/{claim.experiment}`" if short else claim.experiment
        return {"claim": f"{claim.text} ({claim.source}; {command})", "paper": claim.paper.shown, **cells,
                "why not, if not": wording.why(of_kinds, self.file)}  # fmt: skip

    @property
    def sensitivity(self) -> list[str]:
        """A line a headline and kind: which input's end makes its direction another."""
        return [
            f"{one.claim.text} ({one.kind}): {', '.join(one.flips) or 'at no end of an assumed input'}"
            for of_kinds in self.by_claim.values()
            for one in of_kinds
            if one.claim.headline and one.ends and one.effect
        ]

    @property
    def findings(self) -> list[str]:
        """The findings with their numbers; InputError where a verdict that one rests on is another in the reference."""
        from repro.common.paths import reference_root

        told = []
        for finding in self.file.findings:
            for place, verdict in finding.rests_on.items():
                one = self.one(*place.split(":", 1))
                if self.results == reference_root() and one.verdict.answer != verdict:
                    raise InputError(f"{self.paper}: a finding rests on {place} {verdict}; it is {one.verdict.text}")
            numbers = {place: self.ours(*place.split(":", 1)) for place in finding.rests_on}
            text = finding.text
            for place, number in numbers.items():
                text = text.replace(f"{{{place}}}", number)
            told.append(text)
        return told

    @property
    def changed(self) -> list[str]:
        """Claims whose tolerance was fixed later than the file's."""
        later = [claim for claim in self.file.claims if claim.tolerance.fixed not in (None, self.file.fixed)]
        return [f"{claim.text}: {claim.tolerance.fixed}" for claim in later]

    # --- provenance

    @property
    def header(self) -> str:
        found = provenance.header(self.gathered.found.shown)
        return self.files.table(found, "provenance", list(found.columns))

    @property
    def versions(self) -> list[str]:
        return [tables.cell(line) for line in provenance.versions(self.gathered.found.used)]

    @property
    def errors(self) -> list[str]:
        """By how much simulated numbers may be off, and how that is known, each once."""
        return list(dict.fromkeys(one.error.source for one in self.judged if one.error))

    @property
    def testbeds(self) -> str:
        runs = [run for group in self.gathered.found.used for run in group.used()]
        parameters = tables.testbed_parameters(runs)
        return self.files.table(parameters, "testbed", ["parameter", "source"]) if len(parameters) else ""

    @property
    def quoted(self) -> str:
        found = read_reference(self.paper)
        return self.files.table(found, "reference", [name for name in found.columns if name != "value"])

    @property
    def others(self) -> str:
        found = tables.others(self.gathered.found.others)
        return tables.markdown(found, list(found.columns)) if len(found) else ""


def kinds(rows: pd.DataFrame) -> str:
    """Of which kinds of number rows are."""
    return ", ".join(f"**{kind}**" for kind in dict.fromkeys(rows["kind"])) if "kind" in rows else ""


def first_sentence(page: str) -> str:
    """What a page begins with after its title and what the paper is called."""
    paragraphs = [part for part in page.split("\n\n") if part.strip() and not part.lstrip().startswith(("#", "*", ">"))]
    return " ".join(paragraphs[0].split("\n")[0].split()) if paragraphs else ""
