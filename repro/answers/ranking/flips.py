"""At which bandwidth and number of workers another strategy is worth using, by the closed forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from repro.algorithms.timing.setting import Setting
from repro.answers.ranking import forms
from repro.answers.ranking.candidates import ANY, BETTER, Candidate, tied_names

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

    def find_flips(self, kind: str, here: str) -> list[Flip]:
        """Flips over bandwidths at this number of workers, then over numbers of workers at this bandwidth.

        here: what to use in this setting. From there on a strategy stays until another one is worth using.
        """

        def at_bits(bits: float, present: str) -> str:
            return self._named("bits", bits, kind, present)

        def at_workers(workers: float, present: str) -> str:
            return self._named("workers", workers, kind, present)

        bandwidths = [SLOWEST * (FASTEST / SLOWEST) ** (n / (STEPS - 1)) for n in range(STEPS)]
        bits = 8 / self.setting.testbed.beta_s_per_byte
        by_bits = _over("bandwidth", bandwidths, bits, here, at_bits, HALVINGS) if self.setting.uses_network else []
        return by_bits + _over("workers", WORKERS, self.setting.workers, here, at_workers, 0)

    def _named(self, what: str, value: float, kind: str, present: str) -> str:
        times = self._times(what, value)
        counted = {name: seconds for name, seconds in times.items() if self.among[name].counts(kind)}
        names = tied_names(counted, self.lead)
        return present if present in names else names[0]

    def _times(self, what: str, value: float) -> dict[str, float]:
        """Seconds of what is ranked and fits the memory, with another bandwidth or number of workers."""
        if (what, value) not in self.known:
            bits = what == "bits"
            where = (
                self.setting.with_entries(beta_s_per_byte=8 / value)
                if bits
                else replace(self.setting, workers=int(value))
            )
            ranked = {name: each for name, each in self.among.items() if each.counts(ANY)}
            fitting = {name: each for name, each in ranked.items() if self.fits.get(name, True)}
            self.known[what, value] = forms.step_seconds(fitting, where, self.lead)
        return self.known[what, value]


def _over(
    what: str, values: Sequence[float], start: float, here: str, best: Callable[[float, str], str], halvings: int
) -> list[Flip]:
    """Upwards and downwards from `start`, where `here` is used."""
    flips: list[Flip] = []
    for outward in ([each for each in values if each > start], [each for each in reversed(values) if each < start]):
        near, last = start, here
        for value in outward:
            if (now := best(value, last)) != last:
                far = value
                for _ in range(halvings):
                    middle = (near * far) ** 0.5
                    near, far = (middle, far) if best(middle, last) == last else (near, middle)
                flips.append(Flip(what, far, last, now) if value > start else Flip(what, near, now, last))
                last = now
            near = value
    return sorted(flips, key=lambda flip: flip.at)
