"""Program `validation`: measured step times of strategies against those of their virtual twins (DESIGN section 7).

A cell is p workers on a testbed whose links are limited. First the network and each workload's computation are
measured, each by itself; then every strategy is simulated from these numbers alone; then it is run. Nothing is fitted
to the runs. A strategy of a library (DDP, Horovod) has a twin written on our fabric (`Strategy.twin`), which runs on a
network fitted to the library's own allreduce.

    probe.strategies   setting -> {name, options ...}
    probe.workloads    list of {bytes, forward_s, backward_s}: of the gradient, seconds asked of the passes; and
                       activation_bytes, of what goes from block to block, for pipelines (left out: 4)
    probe.blocks       equal blocks of each model
    probe.computation  sleep (a GPU's computation needs no core either) or multiply (ranks that share cores compete)
    probe.turns        how often each strategy is run; its median counts
    probe.seconds      about how long a run is, in simulated time: from it follow the steps, `least_steps` or more
    probe.sizes        bytes of the messages that the network is fitted to, `rounds` of each
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from repro import probes, strategies
from repro.common.errors import InputError, unknown
from repro.fabric.base import Fabric
from repro.probes import _network
from repro.probes._common import chosen, facts, number, sizes, whole
from repro.probes._observe import observe, summarise
from repro.probes._synthetic import Multiply, Sleep, Workload, worker
from repro.probes._twin import Measured, calibrate, simulate
from repro.strategies.base import Strategy

COMPUTATIONS = {"sleep": Sleep, "multiply": Multiply}
WARMUP = 2  # steps before those that count: pipelines are full, connections open
MOST_STEPS = 60


def ranks(config: dict[str, Any]) -> int:
    """As many as the strategy that needs most; the others leave the rest waiting."""
    return max(strategy.ranks(strategy.options, config["workers"]) for strategy in chosen(config["probe"]).values())


def check(config: dict[str, Any]) -> None:
    """InputError for parameters that cannot be used."""
    probe = config["probe"]
    if config["workers"] < 2:
        raise InputError(f"workers={config['workers']}: program validation needs 2 or more, who communicate")
    for name in ("turns", "blocks", "least_steps", "rounds"):
        whole(probe, name)
    number(probe, "seconds")
    sizes(probe, "sizes", least=2)
    if probe.get("computation") not in COMPUTATIONS:
        raise unknown("probe.computation", str(probe.get("computation")), COMPUTATIONS)
    workloads(probe)
    for strategy in chosen(probe).values():
        type(strategy).check(strategy.options, {"epochs": 1, "workers": config["workers"]})


def workloads(probe: dict[str, Any]) -> list[Workload]:
    """The workloads asked for; InputError where one cannot be."""
    given = probe.get("workloads")
    if not isinstance(given, list) or not given or not all(isinstance(one, dict) for one in given):
        raise InputError("probe.workloads: must be a list of {bytes, forward_s, backward_s}")
    found = []
    for one in given:
        passes = [number(one, name, inclusive=True) for name in ("forward_s", "backward_s")]
        activation = whole(one, "activation_bytes", least=4) if "activation_bytes" in one else 4
        found.append(Workload(whole(one, "bytes", least=4), probe["blocks"], *passes, activation))
    return found


def twin(strategy: Strategy) -> Strategy:
    """What stands for a strategy in virtual time; InputError where there is nothing."""
    stand_in = type(strategy).twin(strategy.options)
    if stand_in is None:
        raise InputError(f"probe.strategies: {strategy.name} with these options has no twin in virtual time")
    name, options = stand_in
    twin_class = strategies.load(name)
    return twin_class(twin_class.parse(options))


def uses_native(strategy: Strategy) -> bool:
    return getattr(strategy.options, "algorithm", None) == "auto"


def run(fabric: Fabric, config: dict[str, Any], folder: Path) -> None:
    """One rank's part. Where a rank has none it waits in `exchange`, which leaves its core to the others."""
    probe, p = config["probe"], config["workers"]
    settings = chosen(probe)
    todo = workloads(probe)
    needs = {p} | {strategy.ranks(strategy.options, p) for strategy in settings.values()}
    groups = {n: fabric if n == fabric.size else fabric.subgroup(range(n)) for n in sorted(needs)}
    probes.start(fabric, len(todo) * len(settings) * probe["turns"])
    cell = Cell(config, settings, groups)
    work = COMPUTATIONS[probe["computation"]](fabric)
    rows, done = [], 0
    networks = cell.networks()
    fabric.exchange(None)
    for workload in todo:
        measured = cell.calibrate(workload, work)
        for setting, strategy in settings.items():
            simulated = cell.simulate(strategy, measured, networks) if fabric.rank == 0 else None
            simulated = fabric.exchange(simulated)[0]
            steps = steps_for(probe, simulated["observed_s"]["median"])
            turns = []
            for _ in range(probe["turns"]):
                turns.append(cell.observe(strategy, workload, work, steps))
                fabric.exchange(None)
                probes.progress(fabric, done := done + 1)
            if fabric.rank == 0:
                rows.append(row(setting, strategy, measured, summarise(turns, steps), simulated))
    result: dict[str, Any] = {}
    if fabric.rank == 0:
        result = {"computation": probe["computation"], "networks": _as_result(networks), "rows": rows}
    said = facts(fabric, None, 0, None)
    probes.finish(fabric, config, folder, said, result, metrics(rows), line(rows))


def steps_for(probe: dict[str, Any], step_s: float) -> int:
    """Steps of about `probe.seconds`."""
    return max(probe["least_steps"], min(MOST_STEPS, math.ceil(probe["seconds"] / step_s)))


class Cell:
    """What one rank does of each part; None where it has none."""

    def __init__(self, config: dict[str, Any], settings: dict[str, Strategy], groups: dict[int, Fabric | None]):
        self.probe, self.p, self.settings, self.groups = config["probe"], config["workers"], settings, groups
        self.codecs = sorted({getattr(s.options, "codec", "none") for s in settings.values()} - {"none"})
        sparse = [s.options for s in settings.values() if hasattr(s.options, "selection")]
        self.selections = {options.selection: options.density for options in sparse}

    def networks(self) -> dict[str, _network.Fitted] | None:
        """The network as messages of ours see it, and as the library's own allreduce does, where a strategy uses it."""
        group, largest = self.groups[self.p], self.groups[max(self.groups)]
        rounds, given = self.probe["rounds"], self.probe["sizes"]
        found = {"messages": _network.neighbours(group, given, rounds)} if group else None
        # by all ranks that there are: two workers and a server are three
        beta = largest.exchange(found and found["messages"].network.beta)[0]
        quantum = _network.sharing(largest, given, rounds, beta)
        if found is None:
            return None
        fitted = found["messages"]
        found["messages"] = replace(fitted, network=replace(fitted.network, quantum=quantum))
        if any(uses_native(twin(strategy)) for strategy in self.settings.values()):
            found["native"] = _network.native(group, given, rounds)
        return found

    def calibrate(self, workload: Workload, work: Any) -> Measured | None:
        group = self.groups[self.p]
        measured = (
            calibrate(group, workload, work, self.codecs, self.selections, self.probe["turns"]) if group else None
        )
        self.groups[max(self.groups)].exchange(None)
        return measured

    def simulate(self, strategy: Strategy, measured: Measured, networks: dict[str, _network.Fitted]) -> dict[str, Any]:
        stand_in = twin(strategy)
        native = uses_native(stand_in)
        fitted, costs = networks["native" if native else "messages"], measured.costs
        if native:  # its summation is in beta
            costs = replace(costs, seconds_per_byte={**costs.seconds_per_byte, "reduce": 0.0})
        return simulate(stand_in, self.p, measured, fitted.network, costs, WARMUP, self.probe["least_steps"])

    def observe(self, strategy: Strategy, workload: Workload, work: Any, steps: int) -> list[dict[str, Any]] | None:
        group = self.groups[strategy.ranks(strategy.options, self.p)]
        if group is None:
            return None
        fresh = type(strategy)(strategy.options)
        return observe(group, fresh, worker(group, self.p, workload, work), WARMUP, steps)


def row(
    setting: str, strategy: Strategy, measured: Measured, seen: dict[str, Any], simulated: dict[str, Any]
) -> dict[str, Any]:
    """One setting at one size."""
    stand_in = twin(strategy)
    return {
        "setting": setting,
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
        found[f"observed_s/{one['setting']}/{one['bytes']}"] = one["observed_s"]["median"]
        found[f"simulated_s/{one['setting']}/{one['bytes']}"] = one["simulated_s"]
    return found


def line(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    errors = sorted(abs(error(one)) for one in rows)
    worst = max(rows, key=lambda one: abs(error(one)))
    middle = errors[len(errors) // 2]
    return (
        f"{len(rows)} step times, simulated off by {middle:.1%} in the median, at most by {error(worst):+.1%} "
        f"({worst['setting']}, {worst['bytes']} bytes)"
    )


def _as_result(networks: dict[str, _network.Fitted]) -> dict[str, Any]:
    return {name: fitted.as_result() for name, fitted in networks.items()}
