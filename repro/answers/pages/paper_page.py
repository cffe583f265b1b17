"""The pages of a paper: answer, headlines and figures; all claims; provenance.

`reports/<paper>/` has what is specific to it: page.md.j2 (text), claims.yaml, figures.yaml, tables.py.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from repro.answers.claims.causes import Step, claim_statuses, steps_of_paper
from repro.answers.claims.claims import PLACEHOLDER, File, Finding
from repro.answers.claims.decisive import group_by_claim
from repro.answers.claims.evaluate import ClaimVerdict
from repro.answers.claims.stats import format_number
from repro.answers.claims.verdict import OPEN
from repro.answers.figures import forest, specs
from repro.answers.figures.specs import Specs
from repro.answers.pages import cells as tables
from repro.answers.pages import provenance, untried, wording
from repro.answers.pages.accuracy_table import accuracy_rows
from repro.answers.pages.assumed import assumed_inputs
from repro.answers.pages.cause_section import CauseSection
from repro.answers.pages.claim_tables import ClaimTables
from repro.answers.pages.files import Files
from repro.answers.pages.markdown import Markdown
from repro.answers.pages.overview import papers
from repro.answers.pages.render import template, write_page
from repro.answers.tables import time_to_target
from repro.answers.tables.results import Results
from repro.answers.tables.results import read as read_results
from repro.core.errors import InputError, unknown_name
from repro.core.paths import reference_root
from repro.records import paper_numbers
from repro.records.busy import marked_kind
from repro.records.catalogue import WORKSPACE
from repro.records.kinds import KINDS, SIMULATED
from repro.records.tables import build_table
from repro.records.variants import find_superseded

TRUST = ("believe", "doubt", "unknown")  # entries of a claims file


def build(paper: str, folder: Path | None, files: Files) -> tuple[list[Path], dict[str, Any]]:
    """See `PaperPage.write`."""
    return PaperPage.of(paper, folder, files).write()


@dataclass(frozen=True)
class PaperPage:
    """The values that the templates of a paper's pages use. folder: the only results folder, or None for all."""

    paper: str
    folder: Path | None
    results: Results
    files: Files

    @classmethod
    def of(cls, paper: str, folder: Path | None, files: Files) -> PaperPage:
        return cls(paper, folder, read_results(paper, folder), files)

    def write(self) -> tuple[list[Path], dict[str, Any]]:
        """Write the pages; returns them, and a summary for the overview: `method`, `title`, `trust` (texts by the names
        in `TRUST`), `headlines`, `accuracies` and `targets` (rows), `open` (how many claims about accuracy are),
        `untried` (entries of the claims file), `own` (how many headlines include runs of the workspace) `of` how many,
        and `runs` (runs of the workspace)."""
        text = template(f"{self.paper}/page.md.j2", page=self, figure=self.specs.figure, table=self.specs.table,
                        ours=self.ours)  # fmt: skip
        pages = write_page(text, self.paper, self.files)
        for name in ("figures", "claims", "provenance"):
            pages += write_page(template(f"{name}.md.j2", page=self), f"{self.paper}-{name}", self.files)
        headlines = [
            {name: None if value != value else value for name, value in row.items()}  # JSON has no NaN
            for row in self.claims.headline_rows.to_dict("records")
        ]
        accuracies = [{name: tables.format_cell(text) for name, text in row.items()} for row in self.accuracy_rows]
        targets = specs.of_paper(self.paper).get(time_to_target.TABLE)
        yours = sum(map(wording.is_own, self.claims.headlines))
        summary = {
            "method": self.method,
            "title": self.title if self.anything else "",
            "trust": self.trust if self.anything else {},
            "headlines": headlines,
            "accuracies": accuracies,
            "targets": targets(self.results).to_dict("records") if targets else [],
            "untried": [entry.model_dump() for entry in self.file.untried],
            "open": sum(each.verdict.answer == OPEN for each in self.claims.accuracies),
            "about_accuracy": len(self.claims.accuracies),
        }
        return pages, summary | {"own": yours, "of": len(self.claims.headlines), "runs": len(self._own)}

    @cached_property
    def accuracy_rows(self) -> list[dict[str, str]]:
        """The claims about accuracy that are decided or headlines."""
        return accuracy_rows(self.results, self.claims.accuracies, self.claims.numbers)

    @property
    def accuracy_table(self) -> Markdown:
        """`accuracy_rows`; "" without any."""
        return self.files.text_table(tables.frame_of_cells(self.accuracy_rows), "accuracies")

    @property
    def headline_accuracies(self) -> Markdown:
        """The headlines about accuracy; "" without any."""
        headlines = [each for each in self.claims.accuracies if each.claim.headline]
        rows = accuracy_rows(self.results, headlines, self.claims.numbers)
        return self.files.text_table(tables.frame_of_cells(rows), "headline-accuracies")

    @property
    def in_map(self) -> Markdown:
        """Where the paper's headline lies in the map of strategies, and where its strategy pays."""
        from repro.answers.ranking.in_map import describe_headline  # not for a paper without the sentence

        return Markdown(describe_headline(self.paper))

    @cached_property
    def file(self) -> File:
        return self.results.file

    @cached_property
    def specs(self) -> Specs:
        """The figures and tables of the page."""
        made = specs.of_paper(self.paper)
        return Specs(self.paper, self.files, lambda shown: specs.table(shown, self.results, made))

    @cached_property
    def judged(self) -> list[ClaimVerdict]:
        return self.results.verdicts

    @cached_property
    def by_claim(self) -> Mapping[str, list[ClaimVerdict]]:
        return group_by_claim(self.judged)

    @cached_property
    def claims(self) -> ClaimTables:
        statuses = claim_statuses(self.steps)
        return ClaimTables(self.paper, self.file, self.by_claim, self.results.experiments, self.files, statuses)

    @cached_property
    def steps(self) -> Sequence[Step]:
        """What each cause does to each claim's number."""
        return steps_of_paper(self.paper, self.results.evaluator)

    @cached_property
    def causes(self) -> CauseSection:
        """Why our numbers differ from the paper's."""
        return CauseSection(self.paper, self.steps, self.claims.numbers, self.files, self.file.label)

    @property
    def name(self) -> str:
        """The title of the paper's page."""
        return papers()[self.paper]

    @property
    def anything(self) -> bool:
        """Whether there are any results: runs, or draws, which answer claims too."""
        return bool(self.results.shown or self.results.sweeps)

    # --- text

    def one(self, claim: str, kind: str) -> ClaimVerdict:
        """The verdict on a claim by one kind of number."""
        if claim not in self.by_claim:
            raise unknown_name(f"claim on the page of {self.paper}", claim, self.by_claim)
        if kind not in KINDS:
            raise unknown_name(f"kind of number of claim {claim}", kind, KINDS)
        return next(each for each in self.by_claim[claim] if each.kind == kind)

    def ours(self, claim: str, kind: str = "simulated", part: str = "") -> str:
        """Our number for a claim (`wording.ours`)."""
        return wording.ours(self.one(claim, kind), part)

    @property
    def forest(self) -> Markdown:
        """The picture of all headlines; "" without headlines."""
        rows = self.claims.headline_rows
        numbers = [self.claims.numbers[each.claim.id] for each in self.claims.headlines]
        rows = rows.assign(short=[f"C{number}. {name}" for number, name in zip(numbers, rows["short"], strict=True)])
        title = html.unescape(self.filled(self.file.title.text)) or self.name
        return forest.forest_picture(self.files, rows, title) if len(rows) else Markdown("")

    @property
    def own(self) -> Markdown:
        """The runs of the workspace, if the page also shows the reference: a row for each experiment, variant, kind and
        scale, with medians, what others took of the machine where it was busy, and the runs' warnings."""
        by, rows = ["experiment", "variant", "kind", "scale", "configuration"], []
        for (experiment, variant, kind, scale, _), runs in self._own.groupby(by, sort=False, dropna=False):
            kind = f"{marked_kind(kind, runs['cpu_taken_share'].max())}, {scale}"
            data = f", on {runs['dataset'].iloc[0]}" if runs["standin"].eq(True).any() else ""
            rows.append(
                {
                    "run": f"{experiment}, {variant}{data}",
                    "kind": "; ".join([kind, *runs["warnings"].dropna().unique()]),
                    "ms a step": format_number(1000 * runs["step_s"].median()),
                    "score": format_number(runs["final"].median()),
                    "runs": str(len(runs)),
                }
            )
        return self.files.text_table(pd.DataFrame(rows), "own")

    @cached_property
    def _own(self) -> pd.DataFrame:
        runs = self.results.runs.records.values() if self.folder is None else ()
        numbers, others = ["step_s", "final", "cpu_taken_share"], ["warnings", "dataset", "standin", "configuration"]
        columns = ["experiment", "variant", "kind", "scale", *others, *numbers]
        mine = [run for run in runs if run.origin == WORKSPACE]
        old = find_superseded(mine)
        own = build_table("runs", [run for run in mine if run.record.name not in old])
        return own.reindex(columns=columns).astype(dict.fromkeys(numbers, float))

    @property
    def untried(self) -> Markdown:
        return self.files.text_table(untried.table(self.file.untried), "untried")

    @property
    def method(self) -> Markdown:
        """What the paper proposes and reports."""
        return self.filled(self.file.method)

    @property
    def answer(self) -> Markdown:
        """Our answer in two sentences."""
        return self.finding(self.file.answer)

    @cached_property
    def title(self) -> Markdown:
        """The result in one short sentence."""
        return self.finding(self.file.title)

    @property
    def trust(self) -> dict[str, Markdown]:
        """What a reader may believe, may doubt, and cannot know from here."""
        return {name: text for name in TRUST if (text := self.finding(getattr(self.file, name)))}

    @property
    def findings(self) -> list[Markdown]:
        return [self.finding(finding) for finding in self.file.findings]

    def finding(self, finding: Finding) -> Markdown:
        """The text of a finding, with a note if runs of the workspace changed a verdict that it rests on; InputError if
        the reference contradicts it."""
        changed, reference = [], self.folder == reference_root()
        for place, verdict in finding.rests_on.items():
            now = self.one(*place.split(":", 1))
            if now.verdict.answer == verdict or not (now.evidence.values or reference):
                continue
            if reference:
                raise InputError(f"{self.paper}: a finding rests on {place} {verdict}; it is {now.verdict.text}")
            claim = f"C{self.claims.numbers[now.claim.id]}"
            changed.append(f"{claim} is {now.verdict.answer} ({now.kind}), no longer {verdict}")
        note = Markdown(f" *With the runs here: {'; '.join(changed)}.*" if changed else "")
        return self.filled(finding.text) + note

    def filled(self, text: str) -> Markdown:
        """A text of the claims file with its numbers: ours for `{claim:kind}`, the paper's for `{claim:paper}`."""
        return Markdown(PLACEHOLDER.sub(lambda place: Markdown.escape(self.number(**place.groupdict(""))), text))

    def number(self, claim: str, kind: str, part: str = "") -> str:
        if part == "verdict":
            return self.one(claim, kind).verdict.answer
        if part == "reason":
            return wording.unjudged_reason(self.one(claim, kind))
        if kind == "paper":
            return self.printed(claim)
        ours, decided = self.ours(claim, kind, part), self.claims.decisive[claim].kind
        return ours if part or kind == decided else f"{ours} {kind}"  # the headline table shows the deciding kind

    def printed(self, claim: str) -> Markdown:
        """The paper's number, as it is printed."""
        return Markdown(self.one(claim, SIMULATED).claim.paper.shown)

    # --- provenance

    @property
    def header(self) -> Markdown:
        """The shown runs, a row for each experiment and kind, and all their properties as CSV."""
        rows = provenance.of_groups(self.results.shown, self.claims.with_numbers)
        return self._with_file(rows, provenance.for_page(rows, provenance.ON_PAGE), "provenance")

    def _with_file(self, rows: pd.DataFrame, shown: pd.DataFrame, name: str) -> Markdown:
        """What is shown of rows as a table, and a link to all as CSV; "" without rows."""
        if rows.empty:
            return Markdown("")
        table, path = self.files.text_table(shown, name), self.files.data(rows, name)
        return Markdown(f"{table}\n\n[All columns as CSV]({path})")

    @property
    def versions(self) -> list[str]:
        return provenance.versions(self.results.used)

    @property
    def errors(self) -> list[str]:
        """The errors of simulated numbers with their sources, each once."""
        return list(dict.fromkeys(each.evidence.error for each in self.judged if each.evidence.error))

    @property
    def testbeds(self) -> Markdown:
        rows = tables.testbed_parameters(self.results.used)
        return self._with_file(rows, rows, "testbed")

    @property
    def assumed(self) -> Markdown:
        """What the draws of the paper's experiments were drawn from."""
        rows = assumed_inputs(self.paper, self.results.sweeps)
        return self._with_file(rows, rows, "assumed")

    @property
    def quoted(self) -> Markdown:
        rows = [
            [Markdown(row[name]) for name in paper_numbers.COLUMNS] for row in paper_numbers.read_numbers(self.paper)
        ]
        cells = tables.frame_of_cells(rows, [*paper_numbers.COLUMNS])
        return self._with_file(cells, cells, "reference")

    @property
    def others(self) -> Markdown:
        rows = provenance.others(self.results.others)
        return self._with_file(rows, provenance.for_page(rows, provenance.OTHERS_ON_PAGE), "others")
