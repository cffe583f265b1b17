"""Program `validation`: measured step times of strategies against those of their virtual twins.

See docs/design.md, Validation and controls. A run has p workers on a testbed with limited links. It measures the
network and each workload's computation separately, simulates every strategy from these numbers alone, and then times
it; nothing is fitted to these times. A strategy of a library (DDP, Horovod) has a twin on this project's fabric
(`Strategy.twin`), which runs on a network fitted to the library's allreduce.
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
from repro.probes import ResultPart
from repro.probes.shared import fabric_model
from repro.probes.shared.computation import Computation
from repro.probes.shared.fabric_model import Point
from repro.probes.shared.options import Bytes, Sizes, Strategies, create_strategies, most_ranks, needs_several
from repro.probes.shared.steps import Steps, make_subgroups, observe_steps, summarise_steps
from repro.probes.shared.synthetic import Multiply, Sleep, Workload, synthetic_worker
from repro.probes.shared.twin import Measured, calibrate_twin, simulate_twin
from repro.strategies.base import RunFacts, Strategy

COMPUTATIONS = {"sleep": Sleep, "multiply": Multiply}
WARMUP = 2  # uncounted steps, which fill pipelines and open connections
MOST_STEPS = 60


class Load(Model):
    """A workload of equal blocks."""

    part = "probe.workloads"

    bytes: Bytes  # of the gradient
    forward_s: NonNegative
    backward_s: NonNegative
    activation_bytes: Bytes = 4  # sent between the stages of a pipeline


class Options(Model):
    """Every strategy runs on every workload."""

    strategies: Strategies
    workloads: Annotated[list[Load], Field(min_length=1)]
    computation: Literal["sleep", "multiply"]  # sleep: as with a GPU; multiply: ranks compete for cores
    blocks: Count  # of a workload
    turns: Count  # of each strategy; the median counts
    seconds: Positive  # simulated time of a turn, which determines its steps
    least_steps: Count  # of a turn
    sizes: Sizes  # of the messages that the network is fitted to
    rounds: Count  # of each size


class SizeLatency(ResultPart):
    bytes: int
    alpha_s: float


class FittedNetwork(ResultPart):
    """beta: the slope of long messages; alpha_by_size: remaining time of each size; alpha_s: that of the shortest."""

    alpha_s: float
    beta_s_per_byte: float
    alpha_by_size: list[SizeLatency]
    points: list[Point]
    quantum_bytes: int | None = None  # of older records


class Calibration(Computation):
    """seconds_per_byte: of a rank's own work. interference: extra seconds of computation per second of concurrent
    communication."""

    seconds_per_byte: dict[str, float]
    interference: float


class SimulatedVariant(Steps):
    """A variant's observed step on a workload, and the step simulated from the calibration alone (s)."""

    variant: str
    strategy: str
    options: dict[str, Any]
    twin: str
    bytes: int
    simulated_s: float
    simulated_phases: dict[str, float]
    computation_s: float
    calibration: Calibration


class Result(ResultPart):
    """networks: messages, native, blocking."""

    computation: str
    networks: dict[str, FittedNetwork]
    rows: list[SimulatedVariant]


ranks = most_ranks


def check(config: RunConfig) -> None:
    needs_several(config)
    for choice in config.probe.strategies.values():
        strategies.load_strategy(choice.name).check(choice.options, RunFacts(config.workers, epochs=1))


def make_twin(strategy: Strategy) -> Strategy:
    """The strategy that represents this one in virtual time; InputError if there is none."""
    if getattr(strategy.options, "algorithm", None) == "auto":
        raise InputError(
            f"probe.strategies: {strategy.name} with algorithm=auto measures algorithms at start; name one of them, "
            "native or ring_pipelined"
        )
    stand_in = type(strategy).twin(strategy.options)
    if stand_in is None:
        raise InputError(f"probe.strategies: {strategy.name} with these options has no twin in virtual time")
    name, options = stand_in
    twin_class = strategies.load_strategy(name)
    return twin_class(twin_class.parse(options))


MESSAGES, NATIVE, BLOCKING = "messages", "native", "blocking"


def network_of(strategy: Strategy) -> str:
    """The network that its twin runs on: fitted to messages of this fabric, or to a library's allreduce."""
    if getattr(make_twin(strategy).options, "algorithm", None) != "native":
        return MESSAGES
    return BLOCKING if strategy.blocking else NATIVE


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    probe, p = config.probe, config.workers
    variants = create_strategies(probe.strategies)
    groups = make_subgroups(fabric, [p, *(strategy.ranks(strategy.options, p) for strategy in variants.values())])
    probes.announce_iterations(len(probe.workloads) * len(variants) * probe.turns, fabric.rank)
    bench = Bench(config, variants, groups)
    work = COMPUTATIONS[probe.computation](fabric)
    rows, done = [], 0
    networks = bench.networks()
    fabric.exchange(None)  # a rank outside the group waits here without keeping its core busy
    for load in probe.workloads:
        workload = Workload(load.bytes, probe.blocks, load.forward_s, load.backward_s, load.activation_bytes)
        measured = bench.calibrate(workload, work)
        for variant, strategy in variants.items():
            simulated = bench.simulate(strategy, not_none(measured), not_none(networks)) if fabric.rank == 0 else None
            simulated = fabric.exchange(simulated)[0]
            steps = steps_for(probe, simulated["observed_s"]["median"])
            turns = []
            for _ in range(probe.turns):
                turns.append(bench.observe(strategy, workload, work, steps))
                fabric.exchange(None)
                probes.report_progress(done := done + 1, fabric.rank)
            if fabric.rank == 0:
                rows.append(
                    variant_row(variant, strategy, not_none(measured), summarise_steps(turns, steps), simulated)
                )
    if fabric.rank:  # rank 0 reports
        return probes.Finding({}, {}, "")
    fitted = {name: network.as_result() for name, network in not_none(networks).items()}
    metrics = {}
    for row in rows:
        metrics[f"observed_s/{row['variant']}/{row['bytes']}"] = row["observed_s"]["median"]
        metrics[f"simulated_s/{row['variant']}/{row['bytes']}"] = row["simulated_s"]
    result = {"computation": probe.computation, "networks": fitted, "rows": rows}
    return probes.Finding(result, metrics, summary_line(rows))


def steps_for(probe: Options, step_s: float) -> int:
    """Steps that take about `probe.seconds`."""
    return max(probe.least_steps, min(MOST_STEPS, math.ceil(probe.seconds / step_s)))


class Bench:
    """One rank's part of the measurements: None, or no observations, where it does not take part."""

    def __init__(self, config: RunConfig, variants: dict[str, Strategy], groups: dict[int, Fabric | None]):
        self.probe, self.p, self.variants, self.groups = config.probe, config.workers, variants, groups
        self.everyone = not_none(groups[max(groups)])
        self.codecs = sorted({getattr(s.options, "codec", "none") for s in variants.values()} - {"none"})
        sparse = [s.options for s in variants.values() if hasattr(s.options, "selection")]
        self.selections = {options.selection: options.density for options in sparse}

    def networks(self) -> dict[str, fabric_model.Fitted] | None:
        """The networks that the twins run on (`network_of`), and always that of messages."""
        group, rounds, sizes = self.groups[self.p], self.probe.rounds, self.probe.sizes
        if group is None:
            return None
        networks = {MESSAGES: fabric_model.fit_neighbours(group, sizes, rounds)}
        for name in sorted({network_of(strategy) for strategy in self.variants.values()} - {MESSAGES}):
            networks[name] = fabric_model.fit_native(group, sizes, rounds, name == BLOCKING)
        return networks

    def calibrate(self, workload: Workload, work: Any) -> Measured | None:
        group = self.groups[self.p]
        measured = (
            calibrate_twin(group, workload, work, self.codecs, self.selections, self.probe.turns) if group else None
        )
        self.everyone.exchange(None)
        return measured

    def simulate(
        self, strategy: Strategy, measured: Measured, networks: dict[str, fabric_model.Fitted]
    ) -> dict[str, Any]:
        name = network_of(strategy)
        fitted, costs = networks[name], measured.costs
        if name != MESSAGES:  # beta includes the library's summation
            costs = replace(costs, seconds_per_byte={**costs.seconds_per_byte, "reduce": 0.0})
        return simulate_twin(
            make_twin(strategy), self.p, measured, fitted.network, costs, WARMUP, self.probe.least_steps
        )

    def observe(self, strategy: Strategy, workload: Workload, work: Any, steps: int) -> list[dict[str, Any]]:
        group = self.groups[strategy.ranks(strategy.options, self.p)]
        if group is None:
            return []
        fresh = type(strategy)(strategy.options)
        return observe_steps(group, fresh, synthetic_worker(group, self.p, workload, work), WARMUP, steps)


def variant_row(
    variant: str, strategy: Strategy, measured: Measured, observed: dict[str, Any], simulated: dict[str, Any]
) -> dict[str, Any]:
    return {
        "variant": variant,
        "strategy": strategy.name,
        "options": vars(strategy.options),
        "twin": make_twin(strategy).name,
        "bytes": measured.workload.nbytes,
        **observed,
        "simulated_s": simulated["observed_s"]["median"],
        "simulated_phases": simulated["phases"],
        "computation_s": measured.compute.total,
        "calibration": measured.as_result(),
    }


def summary_line(rows: list[dict[str, Any]]) -> str:
    errors = [(row["simulated_s"] / row["observed_s"]["median"] - 1, row) for row in rows]
    errors.sort(key=lambda entry: abs(entry[0]))
    (middle, _), (largest, worst) = errors[len(errors) // 2], errors[-1]
    return (
        f"{len(rows)} step times, simulated off by {abs(middle):.1%} in the median, at most by {largest:+.1%} "
        f"({worst['variant']}, {worst['bytes']} bytes)"
    )
