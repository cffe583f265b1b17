"""How many draws the headlines rest on, and which need more: 64 at least, doubled to 256 while Wilson's interval of a
share contains 90 % or 10 %, or while too few reproduce the paper's baseline for a verdict over these.

The sides of the baseline alone are doubled to 1,024 while it is undecided whether ours is another. Costs follow from
the recorded seconds of a draw.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from repro.answers.claims.claims import Value
from repro.answers.claims.drawn import Drawn, Sweeps
from repro.answers.claims.evaluate import OUR_BASELINE, ClaimVerdict
from repro.answers.tables.results import Results
from repro.answers.tables.runs import Runs

LEAST, MOST = 64, 256  # draws of a side that a headline reads
MOST_OF_BASELINE = 1024  # draws of a side of its baseline


@dataclass(frozen=True)
class DrawsOfClaim:
    """The draws behind a headline's verdict. sides: the sweeps that its number and its baseline read; draws: those that
    the number has; of_baseline: keys of the baseline's sweeps."""

    verdict: ClaimVerdict
    sides: Sequence[Drawn]
    draws: int
    of_baseline: Collection[str] = ()

    @property
    def undecided(self) -> bool:
        """Whether more draws may bring another word."""
        verdict, conditional = self.verdict.verdict, self.verdict.evidence.conditional
        shares = [share for share in (verdict.share, verdict.size) if share and share.drawn]
        return any(share.undecided for share in shares) or bool(conditional and conditional.lacks_draws)

    @property
    def wanted(self) -> int:
        """The number of draws that the rule asks for next."""
        if self.draws < LEAST:
            return LEAST
        return min(2 * self.draws, MOST) if self.undecided and self.draws < MOST else self.draws

    @property
    def wanted_of_baseline(self) -> int:
        """The number of draws that the rule asks of the baseline's sides alone; 0 if it is none above `wanted`."""
        conditional = self.verdict.evidence.conditional
        if conditional is None or not conditional.share.may_be(OUR_BASELINE):
            return 0
        number = min(2 * conditional.draws, MOST_OF_BASELINE)
        return number if number > max(self.wanted, conditional.draws) else 0

    def wanted_of(self, side: Drawn) -> int:
        """The number of draws that the rule asks of a side."""
        return max(self.wanted, self.wanted_of_baseline) if side.run.record.key in self.of_baseline else self.wanted

    @property
    def scale(self) -> str:
        """The scale of the sides; draws at another are of other runs."""
        return self.sides[0].run.identity.scale

    @property
    def seconds(self) -> float:
        """Seconds of one core for the missing draws; NaN if a side has no recorded time."""
        return sum(seconds_of_draw(each) * max(0, self.wanted_of(each) - len(each.draws)) for each in self.sides)


def seconds_of_draw(drawn: Drawn) -> float:
    """The wall-clock seconds of one core for a draw of a side."""
    seconds = drawn.run.record.wall.get("total_s")
    return math.nan if seconds is None else float(seconds)


def draws_of_headlines(results: Results, verdicts: Sequence[ClaimVerdict]) -> Iterator[DrawsOfClaim]:
    """One for each headline whose deciding verdict rests on draws. verdicts: the deciding ones of a paper's claims."""
    for each in verdicts:
        sample, sweeps = each.evidence.sample, results.drawn(each.claim.experiment)
        if each.claim.headline and sample and sweeps:
            baseline = [each.claim.given.value] if each.claim.given else []
            read = sides_of([value for value in [each.claim.value, *baseline] if value], sweeps)
            of_baseline = [side.run.record.key for side in sides_of(baseline, sweeps)]
            yield DrawsOfClaim(each, read, len(sample.values), of_baseline)


def sides_of(values: Sequence[Value], sweeps: Sweeps) -> list[Drawn]:
    """The sweeps that the numbers of a claim or its baseline read; all for a function, which sees whatever there is."""
    if any(value.verb is None or value.table != "runs" for value in values):
        return list(sweeps.sweeps)
    runs = Runs.of(each.run for each in sweeps.sweeps)
    read = {number for value in values for _, where in value.sides for number in runs.matching("runs", where)}
    return [sweeps.sweeps[number] for number in sorted(read)]


def wanted_draws(headlines: Iterable[DrawsOfClaim]) -> dict[str, int]:
    """Key of a sweep -> the number of draws that a headline asks for, if it has fewer."""
    wanted: dict[str, int] = {}
    for headline in headlines:
        for side in headline.sides:
            if (number := headline.wanted_of(side)) > len(side.draws):
                key = side.run.record.key
                wanted[key] = max(wanted.get(key, 0), number)
    return wanted
