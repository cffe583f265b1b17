"""How many draws the headlines rest on, and which need more: 64 at least, doubled to 256 while Wilson's interval of a
share contains 90 % or 10 %. Costs follow from the recorded seconds of a draw."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from repro.answers.claims.claims import Claim
from repro.answers.claims.drawn import Drawn, Sweeps
from repro.answers.claims.evaluate import ClaimVerdict
from repro.answers.tables.results import Results
from repro.answers.tables.runs import Runs

LEAST, MOST = 64, 256  # draws of a side that a headline reads


@dataclass(frozen=True)
class DrawsOfClaim:
    """The draws behind a headline's verdict. sides: the sweeps that its number reads; draws: that all of them have."""

    verdict: ClaimVerdict
    sides: Sequence[Drawn]
    draws: int

    @property
    def undecided(self) -> bool:
        """Whether more draws may bring another word."""
        verdict = self.verdict.verdict
        return any(share.undecided for share in (verdict.share, verdict.size) if share and share.drawn)

    @property
    def wanted(self) -> int:
        """The number of draws that the rule asks for next."""
        if self.draws < LEAST:
            return LEAST
        return min(2 * self.draws, MOST) if self.undecided and self.draws < MOST else self.draws

    @property
    def scale(self) -> str:
        """The scale of the sides; draws at another are of other runs."""
        return self.sides[0].run.identity.scale

    @property
    def seconds(self) -> float:
        """Seconds of one core for the missing draws; NaN if a side has no recorded time."""
        return sum(seconds_of_draw(each) * max(0, self.wanted - len(each.draws)) for each in self.sides)


def seconds_of_draw(drawn: Drawn) -> float:
    """The wall-clock seconds of one core for a draw of a side."""
    seconds = drawn.run.record.wall.get("total_s")
    return math.nan if seconds is None else float(seconds)


def draws_of_headlines(results: Results, verdicts: Sequence[ClaimVerdict]) -> Iterator[DrawsOfClaim]:
    """One for each headline whose deciding verdict rests on draws. verdicts: the deciding ones of a paper's claims."""
    for each in verdicts:
        sample, sweeps = each.evidence.sample, results.drawn(each.claim.experiment)
        if each.claim.headline and sample and sweeps:
            yield DrawsOfClaim(each, sides_of(each.claim, sweeps), len(sample.values))


def sides_of(claim: Claim, sweeps: Sweeps) -> list[Drawn]:
    """The sweeps that a claim's number and its baseline read; all for a function, which sees whatever there is."""
    values = [value for value in (claim.value, claim.given and claim.given.value) if value]
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
            if headline.wanted > len(side.draws):
                key = side.run.record.key
                wanted[key] = max(wanted.get(key, 0), headline.wanted)
    return wanted
