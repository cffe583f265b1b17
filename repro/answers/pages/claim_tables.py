"""Tables of a paper's claims: the headlines, all claims by verdict, and by the paper's section.

Where a number comes from, from the page back to the disk:

    a cell, "ours"        wording.ours: ClaimVerdict.estimate, an Interval
    its range             claims.evaluate.evidence_interval, of the seeds or draws in Evidence
    a number a seed       claims.evidence.outcome_of: the claim's verb over columns of runs (evaluate.compute_numbers)
    a column of runs      records.run_columns: its path in a run's Record
    the runs              records.catalogue.runs and .sweeps: results/*/summary.json and draws.jsonl, or
                          results/reference/PAPER/runs.parquet and sweeps.parquet
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from repro.answers.claims import decides
from repro.answers.claims.claims import Claim, File
from repro.answers.claims.decisive import choose_verdict
from repro.answers.claims.evaluate import ClaimVerdict
from repro.answers.claims.stats import DASH, TIMES
from repro.answers.claims.verdict import GIVEN, HEADINGS, NOT_JUDGED, NOT_RUN, REPRODUCED, factor_text
from repro.answers.figures.specification import Experiment
from repro.answers.pages import cells as tables
from repro.answers.pages import settling, wording
from repro.answers.pages.files import Files
from repro.answers.pages.markdown import Markdown
from repro.answers.tables.results import run_argument
from repro.core.input_names import describe_names
from repro.records.kinds import KINDS, MEASURED, PADDED, SIMULATED

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = sorted({*KINDS} - {PADDED})  # of verdicts; padded numbers share the column of measured ones
FOLDED = (REPRODUCED, NOT_JUDGED, *GIVEN)  # verdicts whose long lists are folded


@dataclass(frozen=True)
class ClaimTables:
    """by_claim: claim -> its verdicts, one for each kind of number. statuses: of the paper's causes."""

    paper: str
    file: File
    by_claim: Mapping[str, Sequence[ClaimVerdict]]
    experiments: Mapping[str, Experiment]
    files: Files
    statuses: wording.Statuses = field(default_factory=dict)
    least: float = decides.LEAST

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """claim -> its number on the paper's pages"""
        return {claim: n for n, claim in enumerate(self.by_claim, start=1)}

    @cached_property
    def decisive(self) -> Mapping[str, ClaimVerdict]:
        """claim -> the verdict that decides it."""
        return {claim: choose_verdict(verdicts) for claim, verdicts in self.by_claim.items()}

    @property
    def headlines(self) -> list[ClaimVerdict]:
        """The headline claims, each with its deciding verdict."""
        return [each for each in self.decisive.values() if each.claim.headline]

    @property
    def headline_table(self) -> Markdown:
        """A row for each headline: claim, paper with what counts as its number (`counts_as`), ours, verdict, reason."""
        rows = [
            self._row(each) | {"paper": self._printed(each.claim), "reason": self._short_reason(each)}
            for each in self.headlines
        ]
        table = tables.frame_of_cells(rows).rename(columns={"paper": "paper (accepted size; effect)"})
        return self.files.text_table(table, "headlines")

    def _printed(self, claim: Claim) -> Markdown:
        """`2.0–3.2× (1.8 to 3.52×; above 1.05×)`"""
        return Markdown(f"{claim.paper.shown} ({self.counts_as(claim)})")

    def _row(self, judged: ClaimVerdict) -> dict[str, str]:
        """The row of a claim in every table: claim, paper, ours, verdict."""
        return {
            "claim": Markdown(f"C{self.numbers[judged.claim.id]}. {judged.claim.text}"),
            "paper": Markdown(judged.claim.paper.shown),
            "ours": "; ".join([wording.state_number(judged), *self._yours_beside(judged)]),
            "verdict": wording.state_verdict(judged),
        }

    def _yours_beside(self, judged: ClaimVerdict) -> list[str]:
        """The user's numbers of other kinds than that of a verdict, each with its own verdict."""
        others = [each for each in self.by_claim[judged.claim.id] if each is not judged and wording.is_own(each)]
        return [f"{wording.state_number(each)} ({wording.state_verdict(each)})" for each in others if each.estimate]

    @property
    def headline_rows(self) -> pd.DataFrame:
        """The rows of `wording.describe_headlines` with the claim's name in pictures (`short`), and the reason in a few
        words (`why`, Markdown)."""
        rows = wording.describe_headlines(self.headlines)
        return rows.assign(
            short=[self.file.label(each.claim) for each in self.headlines],
            why=[str(tables.format_cell(self._short_reason(each))) for each in self.headlines],
        )

    @cached_property
    def accuracies(self) -> list[ClaimVerdict]:
        """The claims about accuracy that have a number, each with its deciding verdict."""
        about = (each for each in self.decisive.values() if each.claim.about == "accuracy")
        return [each for each in about if each.verdict.judged and each.estimate]

    @property
    def open_accuracies(self) -> str:
        """The numbers of the claims about accuracy that are open and no headlines."""
        return self._other_accuracies(decided=False)

    @property
    def decided_accuracies(self) -> str:
        """The numbers of the claims about accuracy that are decided and no headlines."""
        return self._other_accuracies(decided=True)

    def _other_accuracies(self, decided: bool) -> str:
        others = [each for each in self.accuracies if not each.claim.headline]
        return ranges([self.numbers[each.claim.id] for each in others if each.verdict.decided == decided])

    def _short_reason(self, judged: ClaimVerdict) -> str:
        """The first reason in a few words, and what it rests on."""
        short = wording.short_reason(judged, self.file)
        if not (listed := wording.reasons([judged], self.file)):
            return short
        basis = wording.state_basis(listed[0], judged.claim.id, self.statuses)
        return Markdown(f"{short.removesuffix('.')} ({basis}).")

    @property
    def settling(self) -> list[Markdown]:
        """What would settle headlines that are not reproduced."""
        open_ids = [each.claim.id for each in self.headlines if not each.verdict.as_printed]
        return settling.lines(self.file, open_ids, self.numbers)

    @property
    def deciding_inputs(self) -> Mapping[str, str]:
        """The input that decides, in words -> the numbers of the headlines whose inputs are drawn."""
        words, drawn = describe_names(), [each for each in self.headlines if each.evidence.decided_by]
        return self._grouped((words.get(name := each.evidence.decided_by, name), each) for each in drawn)

    @property
    def scopes(self) -> Mapping[str, str]:
        """What was run or modelled for the headlines -> the numbers of these."""
        return self._grouped((tables.fit_cell(each.claim.scope), each) for each in self.headlines if each.claim.scope)

    def _grouped(self, pairs: Iterable[tuple[str, ClaimVerdict]]) -> dict[str, str]:
        """Text -> the numbers of its claims."""
        numbers: dict[str, list[int]] = {}
        for text, each in pairs:
            numbers.setdefault(text, []).append(self.numbers[each.claim.id])
        return {text: ranges(claims) for text, claims in numbers.items()}

    @property
    def baselines(self) -> Markdown:
        """A row for each headline with a baseline: the paper's and our baseline, and the verdict of the draws in which
        both are equal."""
        rows = [
            {
                "claim": f"C{self.numbers[each.claim.id]}",
                "the paper's baseline": Markdown(printed.what),
                "printed, or from printed numbers": Markdown(printed.paper.shown),
                "ours, simulated": wording.interval(printed.paper, conditional.baseline)
                if conditional.baseline
                else DASH,
                "verdict at the paper's baseline": conditional.text,
            }
            for each in self.headlines
            if (conditional := each.evidence.conditional) and (printed := each.claim.given)
        ]
        return self.files.text_table(tables.frame_of_cells(rows), "baselines")

    @property
    def other_baselines(self) -> Mapping[str, str]:
        """`the default, over one node: 2.2 times the paper's` -> the numbers of the claims at that baseline."""
        pairs = []
        for each in self.decisive.values():
            baseline, printed = each.verdict.baseline, each.claim.given
            if each.verdict.judged and printed and baseline and not baseline.reproduced:
                pairs.append((f"{printed.what}: {factor_text(baseline.factor)}", each))
        return self._grouped((tables.format_cell(Markdown(text)), each) for text, each in pairs)

    @property
    def counts(self) -> Markdown:
        """`84 claims: 30 reproduced; ...`, with links to the sections of the page of all claims."""
        counts = wording.count_headings(self.decisive.values())
        links = (f"[{count} {name}](#{name.replace(' ', '-')})" for name, count in counts.items())
        return Markdown(f"{len(self.by_claim)} claims: {'; '.join(links)}")

    @cached_property
    def by_verdict(self) -> Mapping[str, tuple[Markdown, Sequence[Markdown]]]:
        """verdict -> a table of its claims, and each reason once with its claims, in the order of HEADINGS."""
        groups: dict[str, list[Sequence[ClaimVerdict]]] = {name: [] for name in HEADINGS}
        for verdicts in self.by_claim.values():
            groups[wording.heading_of(self.decisive[verdicts[0].claim.id])].append(verdicts)
        return {
            verdict: (self._claims(claims, f"claims-{place}"), self._reasons(claims))
            for place, (verdict, claims) in enumerate(groups.items())
            if claims
        }

    def _claims(self, claims: Sequence[Sequence[ClaimVerdict]], name: str) -> Markdown:
        """A row for each claim, by the kind of number that decides it."""
        return self.files.text_table(
            tables.frame_of_cells(self._row(self.decisive[verdicts[0].claim.id]) for verdicts in claims), name
        )

    def _reasons(self, claims: Sequence[Sequence[ClaimVerdict]]) -> Sequence[Markdown]:
        """`**C1, C3**: why these claims do not hold as printed, or what speaks against them`"""
        pairs = []
        for verdicts in claims:
            decisive = self.decisive[verdicts[0].claim.id]
            kinds = [decisive] if decisive.verdict.judged else verdicts
            pairs.append((wording.explain_verdict(kinds, self.file, self.statuses), decisive))
        grouped = self._grouped((tables.format_cell(text), each) for text, each in pairs if text != DASH)
        return [Markdown(f"**{numbers}**: {text}") for text, numbers in grouped.items()]

    def folded(self, verdict: str) -> str:
        """The summary of a fold, `30 claims`; "" for verdicts that are not folded."""
        count = wording.count_headings(self.decisive.values())[verdict]
        return f"{count} claim{'s' if count > 1 else ''}" if verdict in FOLDED else ""

    @property
    def file_of_all(self) -> Markdown:
        """A link to all claims as CSV, with every kind of number (`row`)."""
        rows = tables.frame_of_cells(map(self.row, self.by_claim.values())).map(lambda cell: html.unescape(str(cell)))
        return Markdown(f"[CSV]({self.files.data(rows, 'claims')})")

    def row(self, of_kinds: Sequence[ClaimVerdict]) -> dict[str, str]:
        """The row of a claim in the CSV: also its place in the paper, the argument of `repro run`, what it is judged
        by, and the verdict of each kind of number."""
        claim, by_kind = of_kinds[0].claim, {each.kind: each for each in of_kinds}
        cells = {kind: wording.cell(by_kind[kind]) for kind in COLUMNS}
        if (padded := wording.cell(by_kind[PADDED])) != DASH:
            cells[MEASURED] = "; ".join(text for text in (cells[MEASURED], f"padded: {padded}") if text != DASH)
        if set(cells.values()) == {DASH}:
            cells[SIMULATED] = NOT_RUN
        scope = f" ({claim.scope})" if claim.scope else ""
        return {
            "claim": Markdown(f"C{self.numbers[claim.id]}. {claim.text}{scope}"),
            "in the paper": Markdown(claim.source),
            "experiment": self.experiment(claim),
            "paper": Markdown(claim.paper.shown),
            "judged by": self.judged_by(claim),
        } | cells

    def judged_by(self, claim: Claim) -> str:
        """`1.045 to 1.155×; above 1.05×; since 2026-11-26`: `counts_as`, and since when it is fixed, if not since the
        file's date."""
        since = max(filter(None, (claim.fixed, claim.tolerance.fixed)), default=self.file.fixed)
        return "; ".join([self.counts_as(claim), *([f"since {since}"] if since != self.file.fixed else [])])

    def counts_as(self, claim: Claim) -> str:
        """`1.045 to 1.155×; above 1.05×`: the range with its tolerance, and the direction with its margin, without
        rounding, which could move a draw from one to the other."""
        about = wording.POINTS if claim.in_points else claim.about

        def exact(end: float) -> str:
            text = wording.value(claim.paper, end, about, digits=5)
            return text.rstrip("0").rstrip(".") if "." in text else text

        low, high = (None if end is None else exact(end) for end in claim.widened)
        unit = " points" if claim.in_points else {"x": TIMES, "%": " %"}.get(claim.paper.unit, "")
        bound = "at least " if high is None else "at most " if low is None else ""
        ends = " to ".join(dict.fromkeys(end for end in (low, high) if end is not None))
        effect = self.file.effect(claim)
        parts = [] if effect and effect.implies(*claim.widened) else [f"{bound}{ends}{unit}"]
        if effect:
            end = effect.band[effect.side == "above"]
            parts.append(f"{effect.side} {exact(end)}{unit}")
        return "; ".join(parts)

    @property
    def changed(self) -> Mapping[str, str]:
        """`Added on ...` or `Tolerance fixed on ...`, after the file's date -> the numbers of the claims."""
        numbers: dict[str, list[int]] = {}
        for claim in self.file.claims:
            what, since = ("Added", claim.fixed) if claim.fixed else ("Tolerance fixed", claim.tolerance.fixed)
            if since not in (None, self.file.fixed):
                numbers.setdefault(f"{what} on {since}", []).append(self.numbers[claim.id])
        return {what: ranges(claims) for what, claims in sorted(numbers.items())}

    @property
    def by_section(self) -> Markdown:
        """A row for each section of the paper, with the numbers of its claims."""
        numbers: dict[str, list[int]] = {}
        for claim in self.file.claims:
            numbers.setdefault(claim.source, []).append(self.numbers[claim.id])
        rows = [{"in the paper": Markdown(source), "claims": ranges(claims)} for source, claims in numbers.items()]
        return self.files.text_table(tables.frame_of_cells(rows), "sections")

    def with_numbers(self, experiment: str, kind: str) -> str:
        """The claims for which an experiment, or a member of this family of experiments, has numbers of this kind."""
        spec = self.experiments.get(experiment)
        every = (each for verdicts in self.by_claim.values() for each in verdicts)
        known = {each.claim.id for each in every if each.kind == kind and each.evidence.values}
        claims = [
            claim.id
            for claim in self.file.claims
            if claim.experiment == experiment or (spec and spec.is_of(claim.experiment))
        ]
        return ranges([self.numbers[name] for name in claims if name in known]) or DASH

    def experiment(self, claim: Claim) -> str:
        return run_argument(self.paper, claim, self.experiments)


def ranges(numbers: Sequence[int]) -> str:
    """`C1 to C4, C9, C10`"""
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    between = {0: "C{0}", 1: "C{0}, C{1}"}
    pairs = zip(starts, ends, strict=True)
    return ", ".join(between.get(high - low, "C{0} to C{1}").format(low, high) for low, high in pairs)
