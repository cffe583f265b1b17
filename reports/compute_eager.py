"""How ours is computed for eager-SGD's claims about training: throughput, scaling, scores, and what the rounds held.

Counters of an eager run are sums over the ranks: `rounds`, `active`, `accepted`, `pending`, `dropped`, `missed`,
`repeated`. The mean number of active processes (NAP) is ranks x active / rounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from repro.common.known import known
from repro.reporting.stats import number, spread
from repro.reports.compute import Outcome, _paired, _ratio, final, function, iteration_s
from repro.reports.groups import Group, finished
from repro.reports.loading import Summary

# --- throughput and scaling


@function
def steps_per_second(group: Group, setting: str) -> Outcome:
    """Training steps a second of all ranks together."""
    return _paired(group, [setting], lambda one: _ratio(1.0, iteration_s(one)))


def alone(group: Group, batch: float) -> dict[int, Summary]:
    """seed -> the latest run of one worker with that batch, whatever its variant is called."""
    found: dict[int, Summary] = {}
    for run in sorted(group.summaries, key=finished):
        if run["workers"] == 1 and run["batch"] == batch and not run["breakdown"]:
            found[run["seed"]] = run
    return found


def _batch(run: Summary, scaling: str) -> float:
    return {"strong": run["batch"], "weak": run["batch"] / run["workers"]}[scaling]


@function
def node_speedup(group: Group, setting: str, scaling: str) -> Outcome:
    """Samples a second of `setting` over those of one worker alone.

    scaling: strong (the one worker has the whole batch) or weak (it has a worker's share of it).
    """
    runs = group.runs(setting)
    if not runs:
        return Outcome(reason=f"no results for {setting}")
    batch = _batch(next(iter(runs.values())), scaling)
    single = alone(group, batch)
    if not single:
        return Outcome(reason=f"no run of one worker with batch {batch:g}")
    # the time of one worker does not depend on whom the others wait for: its median stands in for a seed that lacks it
    seconds = spread(map(sample_s, single.values())).median
    values = {
        seed: (sample_s(single[seed]) if seed in single else seconds) / sample_s(run) for seed, run in runs.items()
    }
    workers = next(iter(runs.values()))["workers"]
    return Outcome(values, note=f"{workers} workers over one with batch {batch:g}")


def sample_s(run: Summary) -> float:
    """Training seconds a sample of the global batch."""
    return iteration_s(run) / run["batch"]


@function
def alone_steps(group: Group, batch: int) -> Outcome:
    """Training steps a second of one worker alone."""
    single = alone(group, batch)
    if not single:
        return Outcome(reason=f"no run of one worker with batch {batch}")
    return Outcome({seed: 1 / iteration_s(run) for seed, run in single.items()})


@function
def alone_seconds(group: Group, batch: int, samples: int, epochs: int) -> Outcome:
    """Seconds of so many epochs of so many samples with one worker, from its seconds a sample."""
    single = alone(group, batch)
    if not single:
        return Outcome(reason=f"no run of one worker with batch {batch}")
    return Outcome({seed: sample_s(run) * samples * epochs for seed, run in single.items()})


# --- scores


def score(run: Summary, name: str) -> float:
    """A score at the end; NaN where it was not evaluated or nothing was computed."""
    value = run["final"].get(name)
    return math.nan if value is None else value


def _scored(group: Group, variants: list[str], name: str, found: Outcome) -> Outcome:
    """The outcome, or why it has no number."""
    if found.values and all(math.isnan(value) for value in found.values.values()):
        return Outcome(reason=f"no {name} was evaluated for {' and '.join(variants)}")
    return found


@function
def final_score(group: Group, setting: str, score_of: str) -> Outcome:
    """A score at the end of training: top1, top5, train_top1, train_top5, mse."""
    return _scored(group, [setting], score_of, _paired(group, [setting], lambda one: score(one, score_of)))


@function
def score_gap(group: Group, setting: str, over: str, score_of: str) -> Outcome:
    """Final score of `setting` minus that of `over`, seed by seed."""
    found = _paired(group, [setting, over], lambda one, base: score(one, score_of) - score(base, score_of))
    return _scored(group, [setting, over], score_of, found)


@function
def best_score(group: Group, setting: str, score_of: str) -> Outcome:
    """The best of the seeds' final scores ("up to")."""
    there = {seed: score(run, score_of) for seed, run in group.runs(setting).items()}
    known = {seed: value for seed, value in there.items() if not math.isnan(value)}
    if not known:
        return Outcome(reason=f"no {score_of} was evaluated for {setting}" if there else f"no results for {setting}")
    best = max(known, key=known.__getitem__)
    return Outcome({best: known[best]}, note=f"best of {len(known)} seed{'s' if len(known) != 1 else ''}")


@function
def score_ratio(group: Group, setting: str, over: str, score_of: str) -> Outcome:
    """Final score of `setting` / that of `over`, seed by seed: for errors, where 1 is the same and less is better."""
    found = _paired(group, [setting, over], lambda one, base: _ratio(score(one, score_of), score(base, score_of)))
    return _scored(group, [setting, over], score_of, found)


@function
def synchronisation_gain(group: Group, strategy: str = "eager_solo") -> Outcome:
    """Final metric with periodic model synchronisation minus that without it, same strategy, seed by seed."""
    sides: dict[bool, list[str]] = {True: [], False: []}
    for name in group.covered():
        one = next(iter(group.runs(name).values()))
        if one["strategy"] == strategy:
            sides[one["options"].get("sync_epochs") is not None].append(name)
    if not (sides[True] and sides[False]):
        lacking = "with" if not sides[True] else "without"
        return Outcome(reason=f"no results of {strategy} {lacking} model synchronisation")
    shown = ", ".join((sides[True][0], sides[False][0]))
    return _paired(group, [sides[True][0], sides[False][0]], lambda one, base: final(one) - final(base), note=shown)


# --- what the rounds held


def counters(run: Summary) -> Mapping[str, float]:
    """What an eager run counted; empty where it was no eager run."""
    found = run.get("counters") or {}
    return found if found.get("rounds") else {}


def eager(group: Group, variant: str | None = None) -> Iterator[tuple[str, int, Summary]]:
    """(variant, seed, run) of the runs that counted rounds."""
    for name in group.covered() if variant is None else [variant]:
        for seed, run in group.runs(name).items():
            if counters(run):
                yield name, seed, run


def conserved_share(run: Summary) -> float:
    """(accepted + pending + dropped) / (ranks x iterations): 1 if every local gradient is accounted for."""
    of, ranks = counters(run), run.get("ranks", run["workers"])
    return sum(of.get(name, 0.0) for name in ("accepted", "pending", "dropped")) / (ranks * run["iterations"])


def active_share(run: Summary) -> float:
    """Share of the ranks that contribute to a round in time: NAP / ranks."""
    return counters(run)["active"] / counters(run)["rounds"]


def staleness(run: Summary) -> dict[int, int]:
    """Rounds between a gradient's step and the round that accepted it -> how many such gradients, all ranks."""
    found: dict[int, int] = {}
    for of_rank in run.get("staleness") or ():
        for age, count in of_rank.items():
            found[int(age)] = found.get(int(age), 0) + int(count)
    return dict(sorted(found.items()))


def _by_seed(group: Group, variant: str, number_of: Any, reason: str) -> Outcome:
    found = {seed: number_of(run) for _, seed, run in eager(group, variant)}
    values = {seed: value for seed, value in found.items() if value is not None}
    return Outcome(values) if values else Outcome(reason=reason)


@function
def conservation(group: Group) -> Outcome:
    """Of all eager runs of a group the share of local gradients accounted for that is farthest from 1, a seed each."""
    worst: dict[int, float] = {}
    every = list(eager(group))
    for _, seed, run in every:
        share = conserved_share(run)
        if seed not in worst or abs(share - 1) > abs(worst[seed] - 1):
            worst[seed] = share
    if not worst:
        return Outcome(reason="no eager run counted its rounds")
    return Outcome(worst, note=f"the farthest from 1 of {len(every)} runs")


@function
def active_ranks(group: Group, setting: str) -> Outcome:
    """Share of the ranks that contribute to a round in time."""
    found = _by_seed(group, setting, active_share, f"no rounds counted for {setting}")
    ranks = {run.get("ranks") or run["workers"] for _, _, run in eager(group, setting)}
    if not found.values:
        return found
    nap = max(ranks) * known(spread(found.values.values()).median)
    return Outcome(found.values, note=f"NAP {number(nap)} of {max(ranks)} ranks")


@function
def staleness_mean(group: Group, setting: str) -> Outcome:
    """Mean staleness in rounds of the accepted gradients."""

    def mean(run: Summary) -> float | None:
        ages = staleness(run)
        return sum(age * n for age, n in ages.items()) / sum(ages.values()) if sum(ages.values()) else None

    return _by_seed(group, setting, mean, f"no staleness recorded for {setting}")


def largest_delay(run: Summary) -> float | None:
    """Seconds of the longest delay that the run's injector can draw; None without a bounded injector."""
    found = run.get("imbalance") or {}
    known = [found.get(name) for name in ("delay_s", "high_s")]
    return max((float(value) for value in known if value is not None), default=None)


def rounds_of_a_delay(run: Summary) -> int | None:
    """Rounds that one longest delay explains: ceil(delay / c) + 1, c the mean seconds of a step's computation.

    A round takes at least c, and one more is under way. Delays of one rank in steps that follow each other add up, so
    this is no bound of a whole run. None where the injector has no bound or nothing was computed.
    """
    delay, phases = largest_delay(run), run["phases"]
    computing = sum(phases[name] for name in ("forward", "backward", "update", "data"))
    if delay is None or computing <= 0:
        return None
    return math.ceil(delay / computing) + 1


@function
def staleness_explained(group: Group, setting: str) -> Outcome:
    """Share of the accepted gradients that are not later than one injected delay explains (`rounds_of_a_delay`)."""

    def share(run: Summary) -> float | None:
        ages, most = staleness(run), rounds_of_a_delay(run)
        return sum(n for age, n in ages.items() if age <= most) / sum(ages.values()) if ages and most else None

    return _by_seed(group, setting, share, f"no staleness, or no injector with a bound, for {setting}")


@function
def missed_results(group: Group, setting: str) -> Outcome:
    """Share of the round results that a rank never applied, because the next one had overwritten them."""
    return _by_seed(
        group, setting, lambda run: counters(run).get("missed", 0.0) / counters(run)["rounds"],
        f"no rounds counted for {setting}",
    )  # fmt: skip
