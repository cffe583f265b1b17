"""At which bandwidth and number of workers another strategy is the fastest, by the closed forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from repro.ranking import forms
from repro.ranking.candidates import Candidate
from repro.ranking.setting import Setting

SLOWEST, FASTEST = 1e8, 4e11  # bits/s
STEPS = 37  # of the bandwidth, a third of an octave apart
WORKERS = (1, 2, 4, 8, 16, 32, 64, 128)
BETTER = 0.01  # by which another must be faster: less is a tie, and the one before stays
HALVINGS = 5


@dataclass(frozen=True)
class Flip:
    """From `at` on (bits/s, or workers) `after` is the fastest, below it `before`."""

    what: str
    at: float
    before: str
    after: str


def alike(times: Mapping[str, float]) -> list[str]:
    """Those that are less than BETTER slower than the fastest, in their order: in the file's the first is the
    simplest."""
    return [name for name, seconds in times.items() if seconds <= (1 + BETTER) * min(times.values())]


def fastest(among: Mapping[str, Candidate], setting: Setting, fits: Mapping[str, bool], of: str, stay: str = "") -> str:
    """The name of the fastest candidate that fits; of those that are alike `stay`, or else the simplest."""
    own = {name: one for name, one in among.items() if fits.get(name, True) and one.counts(of)}
    names = alike(forms.seconds(own, setting))
    return stay if stay in names else names[0]


def of(among: Mapping[str, Candidate], setting: Setting, fits: Mapping[str, bool], kind: str) -> list[Flip]:
    """Over bandwidths at this number of workers, then over numbers of workers at this bandwidth."""

    def at_bits(bits: float, stay: str = "") -> str:
        return fastest(among, setting.with_entries(beta_s_per_byte=8 / bits), fits, kind, stay)

    def at_workers(workers: float, stay: str = "") -> str:
        return fastest(among, replace(setting, workers=int(workers)), fits, kind, stay)

    octaves = [SLOWEST * (FASTEST / SLOWEST) ** (n / (STEPS - 1)) for n in range(STEPS)]
    found = _over("bandwidth", octaves, at_bits, True)
    return found + _over("workers", [n for n in WORKERS if n > 1], at_workers, False)


def _over(what: str, values: Sequence[float], best: Callable[..., str], halve: bool) -> list[Flip]:
    found: list[Flip] = []
    before, last = values[0], best(values[0])
    for value in values[1:]:
        if (now := best(value, last)) != last:
            low, high = before, value
            for _ in range(HALVINGS if halve else 0):
                middle = (low * high) ** 0.5
                low, high = (middle, high) if best(middle, last) == last else (low, middle)
            found.append(Flip(what, high, last, now))
            last = now
        before = value
    return found


def halved(among: Mapping[str, Candidate], setting: Setting, fits: Mapping[str, bool], kind: str) -> tuple[str, float]:
    """(the fastest, its seconds) at half of the bandwidth."""
    half = setting.with_entries(beta_s_per_byte=2 * setting.testbed.beta_s_per_byte)
    best = fastest(among, half, fits, kind)
    return best, forms.seconds({best: among[best]}, half)[best]
