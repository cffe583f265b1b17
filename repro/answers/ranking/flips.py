"""At which bandwidth and number of workers another strategy becomes the fastest, by the closed forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from repro.answers.ranking import forms
from repro.answers.ranking.candidates import Candidate
from repro.answers.ranking.setting import Setting

SLOWEST, FASTEST = 1e8, 4e11  # bits/s
STEPS = 37  # bandwidths to try, a third of an octave apart
WORKERS = (2, 4, 8, 16, 32, 64, 128)
BETTER = 0.01  # a strategy that is faster by this share or less ties, and the simpler or present one is named
HALVINGS = 5


@dataclass(frozen=True)
class Flip:
    """From `at` (bits/s, or workers) on `after` is the fastest, below it `before`."""

    what: str
    at: float
    before: str
    after: str


def tied_names(times: Mapping[str, float]) -> list[str]:
    """The names within BETTER of the fastest, in their order: that of the file, the simplest first."""
    return [name for name, seconds in times.items() if seconds <= (1 + BETTER) * min(times.values())]


def fastest_candidate(
    among: Mapping[str, Candidate], setting: Setting, fits: Mapping[str, bool], kind: str, present: str = ""
) -> str:
    """The fastest candidate that fits the memory; among ties `present`, or else the simplest."""
    counted = {name: each for name, each in among.items() if fits.get(name, True) and each.counts(kind)}
    names = tied_names(forms.step_seconds(counted, setting))
    return present if present in names else names[0]


def find_flips(among: Mapping[str, Candidate], setting: Setting, fits: Mapping[str, bool], kind: str) -> list[Flip]:
    """Flips over bandwidths at this number of workers, then over numbers of workers at this bandwidth."""

    def at_bits(bits: float, present: str = "") -> str:
        return fastest_candidate(among, setting.with_entries(beta_s_per_byte=8 / bits), fits, kind, present)

    def at_workers(workers: float, present: str = "") -> str:
        return fastest_candidate(among, replace(setting, workers=int(workers)), fits, kind, present)

    bandwidths = [SLOWEST * (FASTEST / SLOWEST) ** (n / (STEPS - 1)) for n in range(STEPS)]
    return _over("bandwidth", bandwidths, at_bits, HALVINGS) + _over("workers", WORKERS, at_workers, 0)


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


def fastest_at_half(
    among: Mapping[str, Candidate], setting: Setting, fits: Mapping[str, bool], kind: str
) -> tuple[str, float]:
    """(the fastest, its seconds) at half of the bandwidth."""
    half = setting.with_entries(beta_s_per_byte=2 * setting.testbed.beta_s_per_byte)
    best = fastest_candidate(among, half, fits, kind)
    return best, forms.step_seconds({best: among[best]}, half)[best]
