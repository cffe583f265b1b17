"""At which bandwidth and number of workers another strategy is worth using, by the closed forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from repro.algorithms.timing.setting import Setting
from repro.answers.ranking import forms
from repro.answers.ranking.candidates import BETTER, SYNCHRONOUS, Candidate, tied_names

SLOWEST, FASTEST = 1e8, 4e11  # bits/s
STEPS = 37  # bandwidths to try, a third of an octave apart
WORKERS = (2, 4, 8, 16, 32, 64, 128)
HALVINGS = 5


@dataclass(frozen=True)
class Flip:
    """From `at` (bits/s, or workers) on `after` is worth using, below it `before`."""

    what: str
    at: float
    before: str
    after: str


@dataclass
class Changes:
    """What to use in other settings than this one. fits: the memory. lead: seconds over the fastest's, above which a
    strategy is not worth using."""

    among: Mapping[str, Candidate]
    setting: Setting
    fits: Mapping[str, bool]
    lead: float = 1 + BETTER

    def find_flips(self) -> list[Flip]:
        """Flips over bandwidths at this number of workers, then over numbers of workers at this bandwidth.

        Everywhere the simplest strategy that no other one replaces is used, whatever is used beside it, so a border
        does not depend on the setting from which it is looked for.
        """
        bandwidths = [SLOWEST * (FASTEST / SLOWEST) ** (n / (STEPS - 1)) for n in range(STEPS)]
        by_bits = _over("bandwidth", bandwidths, self._at_bits, HALVINGS) if self.setting.uses_network else []
        return by_bits + _over("workers", WORKERS, self._at_workers, 0)

    def _at_bits(self, bits: float) -> str:
        return self._name(self.setting.with_entries(beta_s_per_byte=8 / bits))

    def _at_workers(self, workers: float) -> str:
        return self._name(replace(self.setting, workers=int(workers)))

    def _name(self, where: Setting) -> str:
        """The simplest strategy to use of those that are named and fit the memory."""
        named = {
            name: each for name, each in self.among.items() if each.counts(SYNCHRONOUS) and self.fits.get(name, True)
        }
        return tied_names(forms.step_seconds(named, where, self.lead), self.lead)[0]


def _over(what: str, values: Sequence[float], best: Callable[[float], str], halvings: int) -> list[Flip]:
    flips: list[Flip] = []
    names = list(map(best, values))
    for (low, before), (high, after) in pairwise(zip(values, names)):
        if before != after:
            for _ in range(halvings):
                middle = (low * high) ** 0.5
                low, high = (middle, high) if best(middle) == before else (low, middle)
            flips.append(Flip(what, high, before, after))
    return flips
