"""eager-SGD's claims: numbers that no verb computes, on runtimes by length and on staleness."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from repro.answers.claims.compute import Outcome, by_seed, function, median_rates, probe_function
from repro.answers.tables.runs import Runs
from repro.answers.tables.time_to_target import compare_epochs, epochs_to
from repro.core.phases import COMPUTATION
from repro.records.record import Found


@probe_function("runtimes")
def runtime_by_length(group: Runs) -> Outcome:
    """Pearson's correlation between the seconds and the lengths of batches (Figures 2 (b), 3 and 4)."""
    import numpy as np

    def correlation(runs: list[Found]) -> float | None:
        lengths, seconds = (runs[-1].probe.found.get(name) or () for name in ("lengths", "seconds"))
        if len(lengths) != len(seconds) or len(lengths) < 3 or not (np.ptp(lengths) and np.ptp(seconds)):
            return None
        return float(np.corrcoef(lengths, seconds)[0, 1])

    return by_seed(group, correlation, "no lengths of batches recorded")


def count_staleness(run: Found) -> dict[int, int]:
    """Rounds between a gradient's step and the round that accepted it -> the number of such gradients of all ranks."""
    counts: Counter[int] = Counter()
    for of_rank in run.training.staleness:
        counts.update({int(age): int(count) for age, count in of_rank.items()})
    return counts


def rounds_of_a_delay(run: Found) -> int | None:
    """The rounds that one longest delay takes: ceil(delay / c) + 1, with c the mean computation of a step in seconds.

    A round takes at least c, and one more is in progress. Consecutive delays of a rank add up, so this does not bound a
    whole run. None if the injected delays have no bound or nothing was computed.
    """
    injector, phases = run.identity.imbalance.options, run.training.phases
    delays = [float(injector[name]) for name in ("delay_s", "high_s") if injector.get(name) is not None]
    computing = sum(phases[name] for name in COMPUTATION)
    if not delays or computing <= 0:
        return None
    return math.ceil(max(delays) / computing) + 1


@function
def staleness_explained(group: Runs, variant: str) -> Outcome:
    """The share of accepted gradients that are at most as late as one injected delay explains (`rounds_of_a_delay`)."""
    values = {}
    for seed, run in group.seeds(variant).items():
        ages, most = count_staleness(run), rounds_of_a_delay(run)
        if ages and most:
            values[seed] = sum(n for age, n in ages.items() if age <= most) / sum(ages.values())
    return Outcome(values) if values else Outcome(reason=f"no staleness, or no injector with a bound, for {variant}")


@function
def time_to_loss(group: Runs, loss: float, variants: Sequence[str], timed: Sequence[str]) -> Outcome:
    """Time to a loss of the second of two variants / that of the first, one a seed.

    variants: whose epochs count; timed: their namesakes of `fig10`, whose rates say how long an epoch takes.
    """
    rates, sides = median_rates(group), [group.seeds(name) for name in variants]
    if missing := [name for name, runs in zip(variants, sides, strict=True) if not runs]:
        return Outcome(reason=f"no results for {', '.join(missing)}")
    if missing := [name for name in timed if ("fig10", name) not in rates]:
        return Outcome(reason=f"no results for {', '.join(missing)}")
    faster = rates["fig10", timed[0]] / rates["fig10", timed[1]]
    epochs, base = ({seed: epochs_to(run, loss) for seed, run in runs.items()} for runs in sides)
    known = {seed: faster * ratio for seed, ratio in compare_epochs(epochs, base).items()}
    return Outcome(known) if known else Outcome(reason=f"a loss of {loss:g} not reached by {' nor '.join(variants)}")
