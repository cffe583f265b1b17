"""Program `timing`: predicted against observed step times of strategies (Pipe-SGD 3.1, equations (2), (4) to (7)).

A run is a model on p workers of a testbed. It measures the fabric (alpha, beta, gamma, S, codecs) and the computation,
each by itself; then runs every strategy (ps_sync, dsync or pipe_sgd) for some steps. Predictions use nothing of the
latter. In virtual time they agree to rounding, which is a test; on a machine whose ranks share its cores and memory
they need not: communication takes cores from computation there, against the model's premise of separate resources.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from repro import data, probes
from repro.algorithms.timing.collective_forms import FLOAT32
from repro.core.fields import Count, Model, Whole
from repro.core.not_none import not_none
from repro.data.base import Dataset
from repro.experiment.plugins import Plugin
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.probes.shared import equations
from repro.probes.shared.computation import ComputeBenchmark
from repro.probes.shared.fabric_model import Microbenchmark
from repro.probes.shared.options import Sizes, Strategies, chosen, most_ranks, needs_several
from repro.probes.shared.steps import groups as group_by_ranks
from repro.probes.shared.steps import observe, summarise
from repro.rank.factory import build_worker, check_ranks
from repro.strategies.base import Strategy
from repro.training.buckets import balanced_buckets, block_sizes

SHARED = "ranks share this machine's cores and memory: computation and communication slow each other down"


class Options(Model):
    """Steps of each strategy in turns, and microbenchmarks of what its equation has in it."""

    strategies: Strategies
    turns: Count  # of everything, so that a busy minute hits both sides
    warmup: Whole  # steps of a turn that do not count
    steps: Count  # that do
    rounds: Count  # of the microbenchmarks
    sizes: Sizes  # of the messages that they send


def ranks(config: RunConfig) -> int:
    """As many as the strategy that needs most; the others leave the rest waiting."""
    return most_ranks(config)


def check(config: RunConfig) -> None:
    """InputError for strategies without an equation."""
    needs_several(config)
    for strategy in config.probe.strategies.values():
        equations.check(strategy.name, strategy.options)


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    """One rank's part. Where a rank has none it waits in `exchange`, which leaves its core to the others."""
    probe, p = config.probe, config.workers
    variants = chosen(probe.strategies)
    dataset = data.of(config)
    groups = group_by_ranks(fabric, variants.values(), p)
    probes.start(fabric, probe.turns * (len(variants) + 1))
    bench = Benchmarks(workers, config, dataset, variants) if (workers := groups[p]) else None
    seen: dict[str, list] = {variant: [] for variant in variants}
    done = 0
    for _ in range(probe.turns):
        if bench:
            bench.turn()
        fabric.exchange(None)
        probes.progress(fabric, done := done + 1)
        for variant, strategy in chosen(probe.strategies).items():
            if group := groups[strategy.ranks(strategy.options, p)]:
                check_ranks(group, strategy, config)
                worker = build_worker(group, config, dataset)
                seen[variant].append(observe(group, strategy, worker, probe.warmup, probe.steps))
            fabric.exchange(None)
            probes.progress(fabric, done := done + 1)
    result: dict[str, Any] = {"variants": []}
    if fabric.rank == 0:
        basis = not_none(bench).basis()
        observed = {variant: summarise(turns, probe.steps) for variant, turns in seen.items()}
        rows = [row(name, probe.strategies[name], variants[name], observed[name], basis) for name in variants]
        result = assemble(config, basis, rows)
    parameters = bench.gradient_bytes // FLOAT32 if bench else 0
    rows = result["variants"]
    return probes.Finding(result, metrics(rows), line(rows), config.model.name, parameters, dataset)


class Benchmarks:
    """Everything that predictions come from, measured by the workers alone."""

    def __init__(self, fabric: Fabric, config: RunConfig, dataset: Dataset, variants: dict[str, Strategy]):
        self.probe = config.probe
        worker = build_worker(fabric, config, dataset)
        blocks = worker.model_shard.blocks
        for strategy in variants.values():
            type(strategy).check_model(strategy.options, block_sizes(blocks))
        counts = sorted({1} | {getattr(strategy.options, "segments", 1) for strategy in variants.values()})
        codecs = sorted({getattr(strategy.options, "codec", "none") for strategy in variants.values()} - {"none"})
        self.gradient_bytes = FLOAT32 * worker.model_shard.size
        self.buckets = {L: [FLOAT32 * (b.end - b.start) for b in balanced_buckets(blocks, L)[::-1]] for L in counts}
        self.network = Microbenchmark(fabric, self.gradient_bytes, self.probe.sizes, codecs, worker.model_shard.device)
        self.compute = ComputeBenchmark(fabric, worker, counts)

    def turn(self) -> None:
        self.network.turn(self.probe.rounds)
        self.compute.turn(self.probe.warmup, self.probe.steps)

    def basis(self) -> equations.Basis:
        return equations.Basis(self.network.fabric.size, self.buckets, self.network.model(), self.compute.result())


def row(
    variant: str, given: Plugin, strategy: Strategy, seen: dict[str, Any], basis: equations.Basis
) -> dict[str, Any]:
    """One variant of the result."""
    prediction = equations.predict(strategy.name, strategy.options, basis)
    return {
        "variant": variant,
        "strategy": strategy.name,
        "options": given.plain_options(),
        **seen,
        "predicted_s": prediction.seconds,
        "equation": prediction.equation,
        "printed_s": prediction.printed,
        "terms": prediction.terms,
        "efficiency_predicted": equations.efficiency(basis.compute, prediction.seconds),
        "efficiency_observed": equations.efficiency(basis.compute, seen["observed_s"]["median"]),
    }


def assemble(config: RunConfig, basis: equations.Basis, rows: list[dict[str, Any]]) -> dict[str, Any]:
    fit, codecs = basis.fabric.as_result()
    return {
        "gradient_bytes": basis.gradient_bytes,
        "fit": fit,
        "codecs": codecs,
        "compute": basis.compute.as_result(),
        "segments_bytes": {str(L): list(given) for L, given in basis.buckets.items()},
        "note": None if config.simulated else SHARED,
        "variants": rows,
    }


def error(row: dict[str, Any]) -> float:
    """Predicted over observed, less 1."""
    return row["predicted_s"] / row["observed_s"]["median"] - 1


def metrics(rows: list[dict[str, Any]]) -> dict[str, float]:
    found = {}
    for one in rows:
        found[f"observed_s/{one['variant']}"] = one["observed_s"]["median"]
        found[f"predicted_s/{one['variant']}"] = one["predicted_s"]
    return found


def line(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    worst = max(rows, key=lambda one: abs(error(one)))
    return f"{len(rows)} variants, predicted step times off by at most {error(worst):+.1%} ({worst['variant']})"
