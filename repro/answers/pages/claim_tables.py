"""A paper's claims as tables: the headlines, every claim by verdict, by the paper's section, by experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from repro.answers.claims.claims import Claim, File
from repro.answers.claims.evaluate import Judged
from repro.answers.claims.stats import DASH, TIMES
from repro.answers.claims.verdict import CONFIRMED, NOT_RUN
from repro.answers.figures.specification import Experiment
from repro.answers.pages import cells as tables
from repro.answers.pages import wording
from repro.answers.pages.files import Files
from repro.records.kinds import EMULATED, MEASURED, PADDED, SIMULATED

COLUMNS = (EMULATED, MEASURED, SIMULATED)  # of verdicts; what is padded says so in the column of what is measured

FOLDED = (CONFIRMED, wording.NOT_JUDGED, *wording.GIVEN)  # of verdicts: the long lists of a page of claims


@dataclass(frozen=True)
class ClaimTables:
    """by_claim: claim -> its verdicts, one for each kind of number."""

    paper: str
    file: File
    by_claim: Mapping[str, Sequence[Judged]]
    experiments: Mapping[str, Experiment]
    files: Files

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """claim -> its number on the paper's pages, in the file's order"""
        return {claim: n for n, claim in enumerate(self.by_claim, start=1)}

    @property
    def headlines(self) -> list[Judged]:
        """The headline claims, each by the kind of number that decides it."""
        return [wording.deciding(of) for of in self.by_claim.values() if of[0].claim.headline]

    @property
    def headline_table(self) -> str:
        """A row a headline: claim, paper, ours, verdict, why in a few words."""
        return self._text(pd.DataFrame(map(self._headline, self.headlines)), "headlines")

    def _headline(self, one: Judged) -> dict[str, str]:
        ours = ", ".join([wording.ours(one), one.kind, *(["yours"] if wording.mine(one) else [])]) if one.ours else DASH
        verdict = one.verdict.text if one.verdict.judged else one.verdict.answer
        about = {"claim": f"C{self.numbers[one.claim.id]}. {one.claim.text}", "paper": one.claim.paper.shown}
        return about | {"ours": ours, "verdict": verdict, "why": wording.short(one, self.file)}

    @property
    def headline_reasons(self) -> list[str]:
        """Why headlines do not hold as printed, in full: each reason once, with the numbers of its claims."""
        found: dict[str, list[int]] = {}
        for one in self.headlines:
            for reason in wording.reasons([one], self.file):
                found.setdefault(wording.told(reason), []).append(self.numbers[one.claim.id])
        return [f"{tables.cell(text)} {ranges(numbers)}." for text, numbers in found.items()]

    @property
    def decided(self) -> Mapping[str, str]:
        """The input that decides -> the numbers of the headlines, of those that were drawn."""
        found: dict[str, list[int]] = {}
        for one in self.headlines:
            if one.evidence.decided_by:
                found.setdefault(one.evidence.decided_by, []).append(self.numbers[one.claim.id])
        return {name: ranges(numbers) for name, numbers in found.items()}

    @property
    def baselines(self) -> str:
        """A row a headline and its baseline: the paper's number, ours, and the verdict of the draws at which ours comes
        out as the paper prints it."""
        rows = [
            {"claim": f"C{self.numbers[one.claim.id]}", "the paper's baseline": asked.what, "paper": asked.paper.shown}
            | {
                "ours": wording.interval(asked.paper, given.baseline) if given.baseline else DASH,
                "given it": given.text,
            }
            for one in self.headlines
            if (given := one.evidence.given) and (asked := one.claim.given)
        ]
        return self._text(pd.DataFrame(rows), "baselines")

    @property
    def counts(self) -> str:
        """`84 claims: 30 confirmed; ...`, in the words of the headings."""
        found = wording.strip(self.by_claim)
        return f"{len(self.by_claim)} claims: " + "; ".join(f"{count} {name}" for name, count in found.items())

    @property
    def by_verdict(self) -> Mapping[str, Mapping[str, str]]:
        """verdict -> why -> a table of the claims to which it applies; what does not hold first"""
        found: dict[str, dict[str, list[list[Judged]]]] = {name: {} for name in wording.STRIP}
        for of in self.by_claim.values():
            one = wording.deciding(of)
            settled = one.verdict.settled
            said = DASH if settled else wording.why([one] if one.verdict.judged else of, self.file)
            found[wording.place(one)].setdefault(said, []).append(list(of))
        return {verdict: self._groups(verdict, groups, found) for verdict, groups in found.items() if groups}

    def folded(self, verdict: str) -> str:
        """What stands above claims that are shown once asked for, `30 claims`; nothing of those to be read first."""
        count = wording.strip(self.by_claim)[verdict]
        return f"{count} claim{'s' if count > 1 else ''}" if verdict in FOLDED else ""

    def _groups(
        self,
        verdict: str,
        groups: Mapping[str, Sequence[Sequence[Judged]]],
        every: Mapping[str, Mapping[str, Sequence[Sequence[Judged]]]],
    ) -> Mapping[str, str]:
        """why -> a table; what stands under an earlier verdict already is named by a claim there"""
        made = {}
        for n, (said, of) in enumerate(groups.items()):
            first = next((each[said][0][0].claim.id for each in every.values() if said in each), "")
            own = of[0][0].claim.id
            title = "" if said == DASH else tables.cell(said) if first == own else f"As C{self.numbers[first]}, above."
            made[title] = self._text(self._claims(of), f"claims-{wording.STRIP.index(verdict)}-{n}")
        return made

    def _claims(self, of_kinds: Sequence[Sequence[Judged]]) -> pd.DataFrame:
        """A row a claim, kinds side by side; a kind that says nothing of any is left out."""
        table = pd.DataFrame([self.row(of) for of in of_kinds])
        return table.drop(columns=[kind for kind in COLUMNS if (table[kind] == DASH).all()])

    def row(self, of_kinds: Sequence[Judged]) -> dict[str, str]:
        claim, by_kind = of_kinds[0].claim, {one.kind: one for one in of_kinds}
        cells = {kind: wording.cell(by_kind[kind]) for kind in COLUMNS}
        if (padded := wording.cell(by_kind[PADDED])) != DASH:
            cells[MEASURED] = "; ".join(text for text in (cells[MEASURED], f"padded: {padded}") if text != DASH)
        if set(cells.values()) == {DASH}:
            cells[SIMULATED] = NOT_RUN
        scope = f" ({claim.scope})" if claim.scope else ""
        named = f"C{self.numbers[claim.id]}. {claim.text}{scope}"
        about = {"claim": named, "in the paper": claim.source, "experiment": self.experiment(claim)}
        return about | {"paper": claim.paper.shown, "judged by": self.judged_by(claim)} | cells

    def judged_by(self, claim: Claim) -> str:
        """`1.05 to 1.16×; direction: above 1.05×; since 2026-11-26`: the range with its tolerance, the direction with
        its margin, and since when they stand, if not since the file's date."""
        low, high = (None if end is None else wording.value(claim.paper, end, claim.about) for end in claim.widened)
        unit = {"x": TIMES, "%": " %"}.get(claim.paper.unit, "")
        ends = ("at least " if high is None else "at most " if low is None else "") + " to ".join(
            dict.fromkeys(end for end in (low, high) if end is not None)
        )
        said = [] if claim.effect and None in (low, high) else [f"{ends}{unit}"]
        if effect := self.file.effect(claim):
            end = effect.band[effect.side == "above"]
            said.append(f"{effect.side} {wording.value(claim.paper, end, claim.about)}{unit}")
        since = max(filter(None, (claim.fixed, claim.tolerance.fixed)), default=self.file.fixed)
        return "; ".join([*said, *([f"since {since}"] if since != self.file.fixed else [])])

    @property
    def changed(self) -> Mapping[str, str]:
        """What was added, or whose tolerance was fixed, after the file's date -> the claims."""
        found: dict[str, list[int]] = {}
        for claim in self.file.claims:
            for what, since in (("Added", claim.fixed), ("Tolerance fixed", claim.tolerance.fixed)):
                if since not in (None, self.file.fixed) and not (what != "Added" and claim.fixed):
                    found.setdefault(f"{what} on {since}", []).append(self.numbers[claim.id])
        return {what: ranges(numbers) for what, numbers in sorted(found.items())}

    @property
    def by_section(self) -> str:
        """Where in the paper -> the numbers of the claims from there"""
        found: dict[str, list[int]] = {}
        for claim in self.file.claims:
            found.setdefault(claim.source, []).append(self.numbers[claim.id])
        rows = [{"in the paper": source, "claims": ranges(numbers)} for source, numbers in found.items()]
        return self._text(pd.DataFrame(rows), "sections")

    def speaks(self, experiment: str, kind: str) -> str:
        """The numbers of the claims of which a kind of number of an experiment says something."""
        there = [claim.id for claim in self.file.claims if claim.experiment == experiment]
        said = {one.claim.id for of in self.by_claim.values() for one in of if one.kind == kind and one.evidence.values}
        return ranges([self.numbers[name] for name in there if name in said]) or DASH

    def experiment(self, claim: Claim) -> str:
        """What to run for a claim: its experiment, or all of the paper's where a group of the page is of several."""
        filters = [claim.value.arguments, *(of for _, of in claim.value.sides)] if claim.value else []
        named = next((of["experiment"] for of in filters if isinstance(of.get("experiment"), str)), claim.experiment)
        spec = self.experiments.get(named)
        return spec.run if spec and spec.run else f"{self.paper}/{named}"

    def _text(self, table: pd.DataFrame, name: str) -> str:
        """Nothing of an empty table."""
        return self.files.table(table, name, list(table.columns)) if len(table) else ""


def ranges(numbers: Sequence[int]) -> str:
    """`C1 to C4, C9`"""
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    return ", ".join(f"C{low}" + (f" to C{high}" if high > low else "") for low, high in zip(starts, ends, strict=True))
