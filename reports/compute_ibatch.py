"""How ours is computed for iBatch's claims: scaling of simulated clusters (Figures 5 to 7), and what was measured.

Functions over a cluster take a ProbeGroup of the runs of all its networks, those of what was measured a Group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from repro.common.known import known
from repro.reporting.stats import TIMES, number
from repro.reports.batched_pulls import (
    DEFAULT,
    IBATCH,
    LAYERWISE,
    MODES,
    SINGLE,
    Place,
    Scaling,
    Times,
    sized,
    times,
)
from repro.reports.compute import Outcome, _paired, function, probe_function
from repro.reports.groups import Group
from repro.reports.loading import Summary
from repro.reports.probes import ProbeGroup


def _of(
    group: ProbeGroup, value: Callable[[Scaling], float | None], wanted: Sequence[Place], note: str = "",
    reason: str = "nothing to compare",
) -> Outcome:  # fmt: skip
    """value(the runs) where there are all that are wanted; several seeds of a timing are one number."""
    runs = Scaling.of(group.summaries)
    if lacking := runs.lacking(wanted):
        return Outcome(reason=f"no results for {lacking}")
    found = value(runs)
    return Outcome({group.seeds()[0]: found}, note=note) if found is not None else Outcome(reason=reason)


# --- Figures 5 and 6


@function
def scaled(group: ProbeGroup, network: str, mode: str, nodes: int) -> Outcome:
    """Speed-up on throughput over a single node."""
    wanted = [(network, mode, nodes), (network, SINGLE, 1)]
    return _of(group, lambda runs: runs.speedup(network, mode, nodes), wanted)


@function
def scaled_ratio(group: ProbeGroup, network: str, nodes: int, mode: str = IBATCH, over: str = DEFAULT) -> Outcome:
    """Throughput of a mode over that of another one."""
    return _of(group, lambda runs: _ratio(runs, network, nodes, mode, over),
               [(network, mode, nodes), (network, over, nodes)])  # fmt: skip


@function
def scaled_gain(group: ProbeGroup, network: str, nodes: int, over: str, mode: str = IBATCH) -> Outcome:
    """The same, less 1: by how much a mode improves on another one."""
    return _of(group, lambda runs: _ratio(runs, network, nodes, mode, over) - 1,
               [(network, mode, nodes), (network, over, nodes)])  # fmt: skip


def _ratio(runs: Scaling, network: str, nodes: int, mode: str, over: str) -> float:
    return known(runs.seconds(network, over, nodes)) / known(runs.seconds(network, mode, nodes))


@function
def least_efficiency(
    group: ProbeGroup, networks: Sequence[str], least_nodes: int, most_nodes: int, modes: Sequence[str] = MODES
) -> Outcome:
    """The least speed-up over nodes of some networks and modes, over all sizes from `least_nodes` to `most_nodes`."""
    runs = Scaling.of(group.summaries)
    each = {
        (name, mode, n): known(runs.speedup(name, mode, n)) / n
        for name in networks for mode in modes for n in runs.nodes(name, mode)
        if least_nodes <= n <= most_nodes and runs.seconds(name, SINGLE, 1)
    }  # fmt: skip
    if missing := [(n, m) for n in networks for m in modes if not any((n, m) == key[:2] for key in each)]:
        return Outcome(reason="no results for " + ", ".join(f"{mode} of {name}" for name, mode in missing))
    where = min(each, key=lambda key: (each[key], key))
    return Outcome({group.seeds()[0]: each[where]}, note=f"{where[0]}, {where[1]}, {where[2]} nodes")


@function
def wins_everywhere(group: ProbeGroup, networks: Sequence[str], nodes: int) -> Outcome:
    """Share of the networks in which iBatch's iteration is the shortest of the three."""
    wanted = [(name, mode, nodes) for name in networks for mode in MODES]
    runs = Scaling.of(group.summaries)
    if lacking := runs.lacking(wanted):
        return Outcome(reason=f"no results for {lacking}")
    lost = [name for name in networks
            if any(_ratio(runs, name, nodes, IBATCH, other) < 1 - 1e-9 for other in (DEFAULT, LAYERWISE))]  # fmt: skip
    note = f"{len(networks) - len(lost)} of {len(networks)}" + (f"; not: {', '.join(lost)}" if lost else "")
    return Outcome({group.seeds()[0]: 1 - len(lost) / len(networks)}, note=note)


@function
def largest_gain(group: ProbeGroup, network: str, others: Sequence[str], nodes: int, over: str) -> Outcome:
    """iBatch's improvement in a network less the largest of it in the others."""
    names = (network, *others)
    runs = Scaling.of(group.summaries)
    if lacking := runs.lacking([(name, mode, nodes) for name in names for mode in (IBATCH, over)]):
        return Outcome(reason=f"no results for {lacking}")
    found = {name: _ratio(runs, name, nodes, IBATCH, over) for name in names}
    note = ", ".join(f"{name} {number(ratio)}{TIMES}" for name, ratio in found.items())
    return Outcome({group.seeds()[0]: found[network] - max(found[name] for name in others)}, note=note)


@function
def scales_worse(group: ProbeGroup, heavy: Sequence[str], light: Sequence[str], nodes: int, mode: str) -> Outcome:
    """The least speed-up of the networks `light` less the largest of `heavy`."""
    wanted = [(name, mode, nodes) for name in (*heavy, *light)] + [(name, SINGLE, 1) for name in (*heavy, *light)]
    return _of(
        group, lambda runs: min(known(runs.speedup(n, mode, nodes)) for n in light)
        - max(known(runs.speedup(n, mode, nodes)) for n in heavy), wanted,
    )  # fmt: skip


@function
def gain_grows(group: ProbeGroup, networks: Sequence[str], small: int, large: int, over: str) -> Outcome:
    """Share of the networks in which iBatch gains more on `large` nodes than on `small`."""
    wanted = [(name, mode, n) for name in networks for mode in (IBATCH, over) for n in (small, large)]

    def share(runs: Scaling) -> float:
        grown = [_ratio(runs, name, large, IBATCH, over) > _ratio(runs, name, small, IBATCH, over) for name in networks]
        return sum(grown) / len(grown)

    return _of(group, share, wanted)


# --- Figures 3, 4 and 7: what pulls and forward passes took


def _timed(group: ProbeGroup, wanted: Sequence[Place], value: Callable[[Sequence[Times]], float | None], reason: str
           ) -> Outcome:  # fmt: skip
    """value(times of each place)."""
    runs = Scaling.of(group.summaries)
    if not runs.lacking(wanted) and any(runs.times(*where) is None for where in wanted):
        return Outcome(reason="the workers recorded no pulls")
    return _of(group, lambda runs: value([known(runs.times(*where)) for where in wanted]), wanted, reason=reason)


@function
def overlap_ratio(group: ProbeGroup, network: str, nodes: int, mode: str = IBATCH, over: str = LAYERWISE) -> Outcome:
    """Overlapping time of a mode over that of another one."""
    wanted = [(network, mode, nodes), (network, over, nodes)]
    return _timed(group, wanted, lambda t: t[0].overlap_s / t[1].overlap_s if t[1].overlap_s else None,
                  f"{over} overlaps nothing")  # fmt: skip


@function
def exposed_ratio(group: ProbeGroup, network: str, nodes: int, mode: str = LAYERWISE, over: str = IBATCH) -> Outcome:
    """Non-overlapping communication time of a mode over that of another one."""
    wanted = [(network, mode, nodes), (network, over, nodes)]
    return _timed(group, wanted, lambda t: t[0].communication_s / t[1].communication_s if t[1].communication_s else
                  None, f"{over} exposes nothing")  # fmt: skip


@function
def overlap_share(group: ProbeGroup, network: str, nodes: int, mode: str) -> Outcome:
    """Share of the forward computation during which parameters are pulled."""
    return _timed(group, [(network, mode, nodes)], lambda t: t[0].overlap_s / t[0].forward_s, "no forward pass")


@function
def pulls_longer(group: ProbeGroup, network: str, nodes: int, mode: str = LAYERWISE, over: str = DEFAULT) -> Outcome:
    """Seconds of all pulls of an iteration, of a mode over another one."""
    wanted = [(network, mode, nodes), (network, over, nodes)]
    return _timed(group, wanted, lambda t: t[0].pull_s / t[1].pull_s if t[1].pull_s else None, "nothing is pulled")


# --- measured here: variants MODE P


def _modes(group: Group, modes: Sequence[str], nodes: int, value: Callable[..., float]) -> Outcome:
    """value(the run of each mode) seed by seed."""
    return _paired(group, [f"{mode} {nodes}" for mode in modes], value)


@function
def measured_speedup(group: Group, nodes: int, mode: str = IBATCH, over: str = DEFAULT) -> Outcome:
    """Throughput of a mode over that of another one, same number of workers."""
    return _modes(group, [mode, over], nodes, lambda one, base: base["step"]["mean_s"] / one["step"]["mean_s"])


@function
def measured_pulls(group: Group, nodes: int, mode: str = LAYERWISE, over: str = DEFAULT) -> Outcome:
    """Seconds of all pulls of an iteration, of a mode over another one."""
    return _measured_times(group, nodes, [mode, over], lambda one, base: one.pull_s / base.pull_s)


@function
def measured_overlap(group: Group, nodes: int, mode: str) -> Outcome:
    """Share of the forward computation during which parameters are pulled."""
    return _measured_times(group, nodes, [mode], lambda one: one.overlap_s / one.forward_s)


def _measured_times(group: Group, nodes: int, modes: Sequence[str], value: Callable[..., float]) -> Outcome:
    names = [f"{mode} {nodes}" for mode in modes]
    if bare := [name for name in names for run in group.runs(name).values() if times(run) is None]:
        return Outcome(reason=f"the workers of {bare[0]} recorded no pulls")
    return _paired(group, names, lambda *runs: value(*map(times, runs)))


@function
def equal_weights(group: Group) -> Outcome:
    """Share of the numbers of workers at which all three modes end with the same weights, bit for bit."""
    sizes = sorted({place[1] for name in group.covered() if (place := sized(group.one(name)))})
    values: dict[int, float] = {}
    counted: dict[int, list[bool]] = {}
    for nodes in sizes:
        runs = [group.runs(f"{mode} {nodes}") for mode in MODES]
        for seed in sorted(set.intersection(*map(set, runs))):
            found = [of[seed].get("weights_sha256") for of in runs]
            counted.setdefault(seed, []).append(None not in found and len(set(found)) == 1)
    values = {seed: sum(same) / len(same) for seed, same in counted.items()}
    note = "; ".join(f"seed {seed}: {sum(same)} of {len(same)}" for seed, same in counted.items())
    return Outcome(values, note=note) if values else Outcome(reason="no number of workers with all three modes")


# --- random profiles


@probe_function("batching")
def random_optimal(group: ProbeGroup, mode: str = "greedy") -> Outcome:
    """Share of random profiles of which a mode's batches execute in the least possible time."""
    found = {run["seed"]: _total(run)["modes"][mode] for run in group.summaries}
    one = next(iter(found.values()))
    note = f"{one['compared']} profiles; the largest gap {number(100 * one['max'])} %"
    return Outcome({seed: of["optimal"] for seed, of in found.items()}, note=note)


@probe_function("batching")
def random_below(group: ProbeGroup) -> Outcome:
    """Share of random profiles of which EXETime of greedy's batches is less than their executed time."""
    return Outcome({run["seed"]: _total(run)["exetime_below"] for run in group.summaries})


@probe_function("batching")
def random_no_pair(group: ProbeGroup, algorithm: str) -> Outcome:
    """Share of random profiles in which no pair meets constraint (5) at line 3 of an algorithm."""
    return Outcome({run["seed"]: _total(run)["no_pair"][algorithm] for run in group.summaries})


def _total(run: Summary) -> dict:
    """The row of all profiles."""
    return next(row for row in run["result"]["rows"] if row["family"] is None)
