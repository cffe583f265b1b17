"""The section `Why it differs` of a paper's page: the ladder of causes, their table, and what stays unexplained."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import pandas as pd

from repro.answers.claims.causes import IMPLIED, RIVAL, TESTED, Comparison, Step
from repro.answers.claims.claims import Claim
from repro.answers.claims.stats import DASH, TIMES
from repro.answers.claims.verdict import factor_text
from repro.answers.figures import ladder
from repro.answers.pages import wording
from repro.answers.pages.cells import fit_cell, frame_of_cells
from repro.answers.pages.files import Files
from repro.answers.pages.markdown import Markdown


@dataclass(frozen=True)
class CauseSection:
    """numbers: claim -> its number on the paper's pages; label: its name in pictures."""

    paper: str
    steps: Sequence[Step]
    numbers: Mapping[str, int]
    files: Files
    label: Callable[[Claim], str]

    @cached_property
    def by_claim(self) -> Mapping[str, list[Step]]:
        """claim -> its steps, in the order of the pages' claims."""
        steps: dict[str, list[Step]] = {}
        for step in sorted(self.steps, key=lambda step: self.numbers[step.headline.claim.id]):
            steps.setdefault(step.headline.claim.id, []).append(step)
        return steps

    @property
    def picture(self) -> Markdown:
        """The ladder, as Markdown; "" where no claim has a number to begin with."""
        rows = pd.DataFrame(self.rungs())
        if rows.empty:
            return Markdown("")
        drawn = rows["status"][rows["status"] != ""].value_counts()
        counts = ", ".join(f"{count} {status}" for status, count in drawn.items())
        alt = f"A row for our number of each claim, and one for each cause: {counts}, with a line to the number."
        caption = (
            "A line goes from our number without a cause (bar) to that with it (mark; without a run: as predicted), "
            "inputs at their best guess, where headlines may show the median draw. Grey: the paper's number with its "
            "tolerance. A line that begins elsewhere has another kind of number, or (+) another cause."
        )
        return self.files.picture(partial(ladder.draw_ladder, rows), "", "ladder", fit_cell(alt), caption, rows)

    def rungs(self) -> Iterator[dict[str, str | float]]:
        """The rows of the ladder, as `draw_ladder` takes them."""
        for name, steps in self.by_claim.items():
            first, by = steps[0].headline.ours, steps[0].headline.claim.paper.middle()
            if first is None or not by:
                continue
            low, high = (math.nan if end is None else end / by for end in steps[0].headline.claim.widened)
            ends_of = {"low": low, "high": high}
            kind = steps[0].cause.kind
            ours = f"C{self.numbers[name]}. {self.label(steps[0].headline.claim)} ({kind})"
            first_row = self._rung(ours, steps[0].headline, first)
            yield {"text": first_row, "start": math.nan, "end": first / by, "status": "", **ends_of}
            above = ""
            for step in steps:
                start, end = step.headline.without, step.headline.with_cause
                reached = step.headline.predicted if end is None else end
                name, above = self._name_of(step, above), step.cause.id
                yield {
                    "text": self._rung(name, step.headline, reached, start),
                    "start": math.nan if start is None else start / by,
                    "end": reached / by,
                    "status": step.status,
                    **ends_of,
                }

    def _name_of(self, step: Step, above: str) -> str:
        """A cause's name, with the earlier cause that its runs have too: `+ NAME` where that is the row above."""
        cause = step.cause
        if cause.after is None:
            return f"{cause.short} (ours has it)" if cause.without else cause.short
        return f"+ {cause.short}" if cause.after == above else f"{self.shorts[cause.after]} + {cause.short}"

    @staticmethod
    def _rung(name: str, comparison: Comparison, reached: float, begins: float | None = None) -> str:
        """The name of a row, with the ends of its line that the axis does not reach: `name: from 276 times the paper's
        (14,700×)`."""
        begun, ended = ("" if end is None else _beyond_axis(comparison, end) for end in (begins, reached))
        texts = [f"from {begun}" * bool(begun), f"to {ended}" if begun and ended else ended]
        return ": ".join(filter(None, [name, " ".join(filter(None, texts))]))

    @property
    def table(self) -> Markdown:
        """A row for each claim and cause: the paper's number, ours without and with it, the prediction, the second
        numbers and the status."""
        rows = [
            {
                "claim": f"C{self.numbers[name]}. {self.label(step.headline.claim)}",
                "cause": Markdown(step.cause.short),
                "paper": Markdown(step.headline.claim.paper.shown),
                "ours without, with": Markdown(f"{self._without(step)}, {shown(step.headline, 'with_cause')}"),
                "predicted": shown(step.headline, "predicted"),
                "second number: paper, ours with": Markdown("; ".join(map(self._second, step.second))),
                "status": step.status,
            }
            for name, steps in self.by_claim.items()
            for step in steps
        ]
        return self.files.text_table(frame_of_cells(rows), "causes")

    def _without(self, step: Step) -> str:
        """Our number without a cause, and what its runs have that our number for the claim does not."""
        without = shown(step.headline, "without")
        if step.cause.after is not None:
            return f"{without} (with: {self.shorts[step.cause.after]})"
        return f"{without} (before we mended it)" if step.cause.without else without

    @cached_property
    def shorts(self) -> Mapping[str, str]:
        """cause -> its name"""
        return {step.cause.id: step.cause.short for step in self.steps}

    def _second(self, second: Comparison) -> str:
        return f"C{self.numbers[second.claim.id]}: {second.claim.paper.shown}, {shown(second, 'with_cause')}"

    @property
    def unexplained(self) -> Sequence[str]:
        """The claims that no cause brings to the paper's number without missing others: `C3`."""
        return [f"C{self.numbers[name]}" for name, steps in self.by_claim.items() if not self._reached(steps)]

    def _reached(self, steps: Sequence[Step]) -> bool:
        """Whether our number, with the accepted causes, is the paper's within the tolerance."""
        accepted = [step.headline for step in steps if step.status in (TESTED, RIVAL, IMPLIED)]
        if not accepted:
            return steps[0].headline.hits(steps[0].headline.ours)
        return accepted[-1].hits(accepted[-1].with_cause)

    @property
    def sources(self) -> Sequence[Markdown]:
        """The mechanism of each cause, its source, the runs that have it, and since when its prediction stands."""
        causes = {step.cause.id: step for step in self.steps}
        return [
            Markdown(
                f"**{fit_cell(step.cause.short)}** ({self._statuses(step.cause.id)}): {fit_cell(step.cause.mechanism)} "
                f"Source: {fit_cell(step.cause.source)}. {self._runs(step)} Predicted on {step.cause.fixed}."
            )
            for step in causes.values()
        ]

    def _statuses(self, cause: str) -> str:
        return ", ".join(dict.fromkeys(step.status for step in self.steps if step.cause.id == cause))

    def _runs(self, step: Step) -> str:
        if step.cause.experiment is None:
            return "No run can have it here."
        missing = "Not run: " if step.headline.with_cause is None else ""
        return f"{missing}`repro run {self.paper}/{step.cause.experiment}`."


def _beyond_axis(comparison: Comparison, number: float) -> str:
    """`276 times the paper's (14,700×)`: a number that the ladder's axis does not reach; "" for others."""
    over = number / comparison.claim.paper.middle()
    if ladder.axis_reaches(over):
        return ""
    return f"{factor_text(over)} ({in_unit(comparison, number)})" if over > 0 else "below 0"


def shown(comparison: Comparison, which: str) -> str:
    """One of the numbers in the unit of the paper's; a dash without it."""
    number_of = getattr(comparison, which)
    return DASH if number_of is None else in_unit(comparison, number_of)


def in_unit(comparison: Comparison, number: float) -> str:
    """A number of ours in the unit of the paper's."""
    unit = {"x": TIMES, "%": " %"}.get(comparison.claim.paper.unit, "")
    return f"{wording.value(comparison.claim.paper, number, comparison.claim.about)}{unit}"
