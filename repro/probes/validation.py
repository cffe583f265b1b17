"""Program `validation`: measured step times of strategies against those of their virtual twins (docs/design.md,
Validation and controls).

A run has p workers on a testbed whose links are limited. First the network and each workload's computation are
measured, each by itself; then every strategy is simulated from these numbers alone; then it is timed. Nothing is fitted
to these times. A strategy of a library (DDP, Horovod) has a twin written on our fabric (`Strategy.twin`), which runs on
a network fitted to the library's own allreduce.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from repro import probes, strategies
from repro.core.errors import InputError
from repro.core.fields import Count, Model, NonNegative, Positive
from repro.core.not_none import not_none
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.probes.shared import network
from repro.probes.shared.options import Bytes, Sizes, Strategies, chosen, most_ranks, needs_several
from repro.probes.shared.steps import groups as group_by_ranks
from repro.probes.shared.steps import observe, summarise
from repro.probes.shared.synthetic import Multiply, Sleep, Workload, worker
from repro.probes.shared.twin import Measured, calibrate, simulate
from repro.strategies.base import RunFacts, Strategy

COMPUTATIONS = {"sleep": Sleep, "multiply": Multiply}
WARMUP = 2  # steps before those that count: pipelines are full, connections open
MOST_STEPS = 60


class Load(Model):
    """A workload in equal blocks; what a pipeline's stages send each other are activations."""

    part = "probe.workloads"

    bytes: Bytes
    forward_s: NonNegative
    backward_s: NonNegative
    activation_bytes: Bytes = 4


class Options(Model):
    """Strategies on workloads; computation sleeps (a GPU's needs no core either) or multiplies (ranks compete)."""

    strategies: Strategies
    workloads: Annotated[list[Load], Field(min_length=1)]
    computation: Literal["sleep", "multiply"]
    blocks: Count  # of a workload
    turns: Count  # of each strategy; the median counts
    seconds: Positive  # about how long a run is, in simulated time: from it follow the steps
    least_steps: Count  # or more
    sizes: Sizes  # of the messages that the network is fitted to
    rounds: Count  # of each


def ranks(config: RunConfig) -> int:
    """As many as the strategy that needs most; the others leave the rest waiting."""
    return most_ranks(config)


def check(config: RunConfig) -> None:
    """InputError for strategies that so many workers cannot use."""
    needs_several(config)
    for one in config.probe.strategies.values():
        strategies.load(one.name).check(one.options, RunFacts(config.workers, epochs=1))


def workloads(probe: Options) -> list[Workload]:
    """The workloads asked for."""
    return [
        Workload(one.bytes, probe.blocks, one.forward_s, one.backward_s, one.activation_bytes)
        for one in probe.workloads
    ]


def twin(strategy: Strategy) -> Strategy:
    """What stands for a strategy in virtual time; InputError where there is nothing."""
    if getattr(strategy.options, "algorithm", None) == "auto":
        raise InputError(
            f"probe.strategies: {strategy.name} with algorithm=auto is measured at start: name what it takes, "
            "native or ring_pipelined"
        )
    stand_in = type(strategy).twin(strategy.options)
    if stand_in is None:
        raise InputError(f"probe.strategies: {strategy.name} with these options has no twin in virtual time")
    name, options = stand_in
    twin_class = strategies.load(name)
    return twin_class(twin_class.parse(options))


MESSAGES, NATIVE, BLOCKING = "messages", "native", "blocking"


def network_of(strategy: Strategy) -> str:
    """The network that its twin is on: as messages of ours see it, or as an allreduce of the library does."""
    if getattr(twin(strategy).options, "algorithm", None) != "native":
        return MESSAGES
    return BLOCKING if strategy.blocking else NATIVE


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    """One rank's part. Where a rank has none it waits in `exchange`, which leaves its core to the others."""
    probe, p = config.probe, config.workers
    variants = chosen(probe.strategies)
    todo = workloads(probe)
    groups = group_by_ranks(fabric, variants.values(), p)
    probes.start(fabric, len(todo) * len(variants) * probe.turns)
    bench = Bench(config, variants, groups)
    work = COMPUTATIONS[probe.computation](fabric)
    rows, done = [], 0
    networks = bench.networks()
    fabric.exchange(None)
    for workload in todo:
        measured = bench.calibrate(workload, work)
        for variant, strategy in variants.items():
            simulated = bench.simulate(strategy, not_none(measured), not_none(networks)) if fabric.rank == 0 else None
            simulated = fabric.exchange(simulated)[0]
            steps = steps_for(probe, simulated["observed_s"]["median"])
            turns = []
            for _ in range(probe.turns):
                turns.append(bench.observe(strategy, workload, work, steps))
                fabric.exchange(None)
                probes.progress(fabric, done := done + 1)
            if fabric.rank == 0:
                rows.append(row(variant, strategy, not_none(measured), summarise(turns, steps), simulated))
    result: dict[str, Any] = {}
    if fabric.rank == 0:
        result = {"computation": probe.computation, "networks": _as_result(not_none(networks)), "rows": rows}
    return probes.Finding(result, metrics(rows), line(rows))


def steps_for(probe: Options, step_s: float) -> int:
    """Steps of about `probe.seconds`."""
    return max(probe.least_steps, min(MOST_STEPS, math.ceil(probe.seconds / step_s)))


class Bench:
    """What one rank does of each part; None, or nothing observed, where it has none."""

    def __init__(self, config: RunConfig, variants: dict[str, Strategy], groups: dict[int, Fabric | None]):
        self.probe, self.p, self.variants, self.groups = config.probe, config.workers, variants, groups
        self.largest = not_none(groups[max(groups)])  # of all ranks
        self.codecs = sorted({getattr(s.options, "codec", "none") for s in variants.values()} - {"none"})
        sparse = [s.options for s in variants.values() if hasattr(s.options, "selection")]
        self.selections = {options.selection: options.density for options in sparse}

    def networks(self) -> dict[str, network.Fitted] | None:
        """The networks that twins of the strategies are on (`network_of`), and always that of messages."""
        group, rounds, given = self.groups[self.p], self.probe.rounds, self.probe.sizes
        if group is None:
            return None
        found = {MESSAGES: network.neighbours(group, given, rounds)}
        for name in sorted({network_of(strategy) for strategy in self.variants.values()} - {MESSAGES}):
            found[name] = network.native(group, given, rounds, name == BLOCKING)
        return found

    def calibrate(self, workload: Workload, work: Any) -> Measured | None:
        group = self.groups[self.p]
        measured = calibrate(group, workload, work, self.codecs, self.selections, self.probe.turns) if group else None
        self.largest.exchange(None)
        return measured

    def simulate(self, strategy: Strategy, measured: Measured, networks: dict[str, network.Fitted]) -> dict[str, Any]:
        name = network_of(strategy)
        fitted, costs = networks[name], measured.costs
        if name != MESSAGES:  # the library's summation is in beta
            costs = replace(costs, seconds_per_byte={**costs.seconds_per_byte, "reduce": 0.0})
        return simulate(twin(strategy), self.p, measured, fitted.network, costs, WARMUP, self.probe.least_steps)

    def observe(self, strategy: Strategy, workload: Workload, work: Any, steps: int) -> list[dict[str, Any]]:
        group = self.groups[strategy.ranks(strategy.options, self.p)]
        if group is None:
            return []
        fresh = type(strategy)(strategy.options)
        return observe(group, fresh, worker(group, self.p, workload, work), WARMUP, steps)


def row(
    variant: str, strategy: Strategy, measured: Measured, seen: dict[str, Any], simulated: dict[str, Any]
) -> dict[str, Any]:
    """One variant at one size."""
    stand_in = twin(strategy)
    return {
        "variant": variant,
        "strategy": strategy.name,
        "options": vars(strategy.options),
        "twin": stand_in.name,
        "bytes": measured.workload.nbytes,
        **seen,
        "simulated_s": simulated["observed_s"]["median"],
        "simulated_phases": simulated["phases"],
        "computation_s": measured.compute.l_up + measured.compute.l_comp,
        "calibration": measured.as_result(),
    }


def error(one: dict[str, Any]) -> float:
    """Simulated over measured, less 1."""
    return one["simulated_s"] / one["observed_s"]["median"] - 1


def metrics(rows: list[dict[str, Any]]) -> dict[str, float]:
    found = {}
    for one in rows:
        found[f"observed_s/{one['variant']}/{one['bytes']}"] = one["observed_s"]["median"]
        found[f"simulated_s/{one['variant']}/{one['bytes']}"] = one["simulated_s"]
    return found


def line(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    errors = sorted(abs(error(one)) for one in rows)
    worst = max(rows, key=lambda one: abs(error(one)))
    middle = errors[len(errors) // 2]
    return (
        f"{len(rows)} step times, simulated off by {middle:.1%} in the median, at most by {error(worst):+.1%} "
        f"({worst['variant']}, {worst['bytes']} bytes)"
    )


def _as_result(networks: dict[str, network.Fitted]) -> dict[str, Any]:
    return {name: fitted.as_result() for name, fitted in networks.items()}
