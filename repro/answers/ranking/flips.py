"""At which bandwidth and number of workers another strategy is worth using, by the closed forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from repro.answers.ranking import forms
from repro.answers.ranking.candidates import BETTER, Candidate, tied_names
from repro.answers.ranking.setting import Setting

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
    known: dict[tuple[str, float], dict[str, float]] = field(default_factory=dict)

    def find_flips(self, kind: str) -> list[Flip]:
        """Flips over bandwidths at this number of workers, then over numbers of workers at this bandwidth."""

        def at_bits(bits: float, present: str = "") -> str:
            return self._named("bits", bits, kind, present)

        def at_workers(workers: float, present: str = "") -> str:
            return self._named("workers", workers, kind, present)

        bandwidths = [SLOWEST * (FASTEST / SLOWEST) ** (n / (STEPS - 1)) for n in range(STEPS)]
        by_bits = _over("bandwidth", bandwidths, at_bits, HALVINGS) if self.setting.uses_network else []
        return by_bits + _over("workers", WORKERS, at_workers, 0)

    def _named(self, what: str, value: float, kind: str, present: str = "") -> str:
        times = self._times(what, value)
        counted = {name: seconds for name, seconds in times.items() if self.among[name].counts(kind)}
        names = tied_names(counted, self.lead)
        return present if present in names else names[0]

    def _times(self, what: str, value: float) -> dict[str, float]:
        """Seconds of what fits the memory, with another bandwidth or number of workers."""
        if (what, value) not in self.known:
            bits = what == "bits"
            where = (
                self.setting.with_entries(beta_s_per_byte=8 / value)
                if bits
                else replace(self.setting, workers=int(value))
            )
            fitting = {name: each for name, each in self.among.items() if self.fits.get(name, True)}
            self.known[what, value] = forms.step_seconds(fitting, where)
        return self.known[what, value]


def _over(what: str, values: Sequence[float], best: Callable[..., str], halvings: int) -> list[Flip]:
    flips: list[Flip] = []
    before, last = values[0], best(values[0])
    for value in values[1:]:
        if (now := best(value, last)) != last:
            low, high = before, value
            for _ in range(halvings):
                middle = (low * high) ** 0.5
                low, high = (middle, high) if best(middle, last) == last else (low, middle)
            flips.append(Flip(what, high, last, now))
            last = now
        before = value
    return flips
