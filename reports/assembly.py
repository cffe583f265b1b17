"""What the papers' pages share: filling the template, the results at a glance, headlines, the testbeds' parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from repro.reports import glance, provenance, tables
from repro.reports.claims import Claims, read_claims
from repro.reports.groups import Group
from repro.reports.loading import KINDS, Summary
from repro.reports.order import in_order
from repro.reports.page import Files, Section
from repro.reports.probes import ProbeGroup
from repro.reports.reference import read as read_reference
from repro.reports.render import template, write_page
from repro.reports.stats import DASH
from repro.reports.verdicts import NOT_ATTEMPTED, Verdict, judge_all

if TYPE_CHECKING:
    import pandas as pd

AnyGroup = Group | ProbeGroup
Built = tuple[list[Path], list[Path], dict[str, Any]]
Finder = Callable[[str, str], AnyGroup | None]  # (experiment, kind) -> the results that speak to a claim


class Found(Protocol):
    """The results of a page: (experiment, kind) -> group, every group in a figure or table, all other groups."""

    @property
    def shown(self) -> dict[tuple[str, str], AnyGroup]: ...

    @property
    def used(self) -> list[AnyGroup]: ...

    @property
    def others(self) -> list[AnyGroup]: ...


@dataclass(frozen=True)
class Page:
    """A paper's page: what is told of it, from what; experiments: name -> what it is, files: name -> what to run."""

    content: Claims
    quoted: pd.DataFrame
    verdicts: Sequence[Verdict]
    found: Found
    experiments: Mapping[str, str]
    commands: Mapping[str, Sequence[str]]
    files: Files

    @classmethod
    def of(
        cls, paper: str, found: Found, find: Finder, experiments: Mapping[str, str],
        commands: Callable[[str], Sequence[str]], out: Path,
    ) -> Page:  # fmt: skip
        """A paper's claims judged by its results.

        commands: experiment -> what to run.
        """
        content = read_claims(paper)
        verdicts, run_with = judge_all(content.claims, find), {name: commands(name) for name in experiments}
        return cls(content, read_reference(paper), verdicts, found, experiments, run_with, Files(paper, out))

    @property
    def paper(self) -> str:
        return self.content.paper

    def glance(self, *middle: str) -> str:
        """Verdicts by kind; `middle`: the numbers that the paper is known for; what has been run."""
        claims = {v.claim.id for v in self.verdicts}
        tried = {v.claim.id for v in self.verdicts if v.label != NOT_ATTEMPTED}
        ran = glance.runs(self.found.shown, self.experiments, self.paper, self.commands)
        parts = [
            self.files.table(glance.counts(self.verdicts), "verdicts"),
            f"{len(tried)} of {len(claims)} claims are attempted; a verdict is provisional with fewer seeds than its "
            "claim asks for.",
            *middle,
            glance.HAS_RUN,
            self.files.table(ran, "runs", ["experiment", *KINDS, "run with"]),
        ]
        return "\n\n".join(parts)

    def headlines(self, names: Sequence[str], ours: Callable[[Verdict], str] = lambda v: v.ours_text) -> str:
        """The claims of these names as a table, with the sentence before it."""
        table = headlines(self.verdicts, names, ours)
        shown = self.files.table(table, "headlines", ["claim", *KINDS])
        return f"The numbers that the paper is known for:\n\n{shown}"

    def write(
        self, sections: Sequence[Section], glance: str, run_deviations: Iterable[tuple[str, str]],
        standins: Sequence[str], runs: Iterable[Summary],
    ) -> Built:  # fmt: skip
        """(pages, other files, what the overview says); runs: those whose testbeds' parameters are shown."""
        sections, (spoken, rest) = in_order(self.experiments, sections), tables.split(self.verdicts)
        others, files, found = tables.others(self.found.others), self.files, self.found
        text = template(
            f"{self.paper}.md.j2",
            sections=[section.markdown() for section in sections],
            contents=[(section.title, section.anchor) for section in sections],
            anything=bool(found.shown),
            standin=standins,
            glance=glance,
            claims=every(files, tables.claims(spoken), "claims") if spoken else "",
            unattempted=every(files, tables.unattempted(rest), "claims-not-attempted") if rest else "",
            run_deviations=[(tables.cell(line), where) for line, where in run_deviations],
            deviations=self.content.deviations,
            contradictions=self.content.contradictions,
            provenance=every(files, provenance.header(found.shown), "provenance") if found.shown else "",
            versions=[tables.cell(line) for line in provenance.versions(found.used)],
            testbed=testbeds(runs, files),
            reference=files.table(self.quoted, "reference", [name for name in self.quoted.columns if name != "value"]),
            others=tables.markdown(others, list(others.columns)) if found.others else "",
        )
        state = {"verdicts": self.verdicts, "standins": standins, "shown": sorted(found.shown),
                 "experiments": list(self.experiments)}  # fmt: skip
        return write_page(text, self.paper, files.out, files.written), files.written, state


def headlines(verdicts: Sequence[Verdict], names: Sequence[str], ours: Callable[[Verdict], str]) -> pd.DataFrame:
    """A row a claim of these names: the paper's number, and ours with the verdict by kind."""
    import pandas as pd

    rows: dict[str, dict[str, str]] = {}
    for verdict in verdicts:
        claim = verdict.claim
        if claim.id in names:
            line = rows.setdefault(claim.id, {"claim": claim.text, "paper": claim.shown})
            line[verdict.kind] = f"{verdict.label} {ours(verdict)}" if verdict.ours else DASH
    order = [rows[name] for name in names if name in rows]
    return pd.DataFrame(order, columns=["claim", "paper", *KINDS]).fillna(DASH)


def standins(groups: Iterable[AnyGroup]) -> list[str]:
    """Names of the data sets that stand in for a paper's."""
    return sorted({_standin(group)["name"] for group in groups if group.standin})


def _standin(group: AnyGroup) -> Mapping[str, Any]:
    if isinstance(group, Group):
        return group.first["dataset"]
    return next(run["dataset"] for run in group.summaries if (run.get("dataset") or {}).get("standin"))


def runs_of(found: Found) -> list[Summary]:
    """Every run that a figure or table reads."""
    return [run for group in found.used for run in group.used()]


def every(files: Files, table: pd.DataFrame, name: str) -> str:
    """A table of text, all columns to the left."""
    return files.table(table, name, list(table.columns))


def testbeds(runs: Iterable[Summary], files: Files) -> str:
    """The parameters of the simulated testbeds; nothing where there are none."""
    parameters = tables.testbed_parameters(list(runs))
    return files.table(parameters, "testbed", ["parameter", "source"]) if len(parameters) else ""
