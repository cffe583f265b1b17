"""Program `timing`: predicted against observed step times of strategies (Pipe-SGD 3.1, equations (2), (4) to (7)).

It measures the fabric (alpha, beta, gamma, S, codecs) and the computation separately, and predicts from these alone;
then it runs steps of every strategy (ps_sync, dsync or pipe_sgd). In virtual time predictions agree to rounding, which
is a test. They need not agree where ranks share cores and memory: communication slows computation down there, while the
model assumes separate resources.
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
from repro.probes import ResultPart
from repro.probes.shared import equations
from repro.probes.shared.computation import Computation, ComputeBenchmark
from repro.probes.shared.fabric_model import Microbenchmark, Point
from repro.probes.shared.options import Sizes, Strategies, create_strategies, most_ranks, needs_several
from repro.probes.shared.steps import Steps, make_subgroups, observe_steps, summarise_steps
from repro.rank.factory import build_worker, check_ranks
from repro.strategies.base import Strategy
from repro.training.buckets import balanced_buckets, block_sizes

SHARED = "ranks share this machine's cores and memory: computation and communication slow each other down"


class Options(Model):
    strategies: Strategies
    turns: Count  # of microbenchmarks and strategies, so that other load slows both
    warmup: Whole  # uncounted steps of a turn
    steps: Count  # counted steps of a turn
    rounds: Count  # of the microbenchmarks, in a turn
    sizes: Sizes  # of the messages that they send


class Fit(ResultPart):
    """The fit of equation (5): seconds, and seconds per byte; relative_error: the largest of all points."""

    alpha_s: float
    beta_s_per_byte: float
    gamma_s_per_byte: float
    sync_s: float
    relative_error: float
    points: list[Point]


class Variant(Steps):
    """Predicted and observed step of a variant (s). printed_s: by the equation as printed, if there is one; efficiency:
    scaling efficiency, equation (7)."""

    variant: str
    strategy: str
    options: dict[str, Any]
    predicted_s: float
    equation: str
    printed_s: float | None
    terms: dict[str, float]
    efficiency_predicted: float
    efficiency_observed: float


class Result(ResultPart):
    """codecs: name -> encode_s_per_byte, decode_s_per_byte. segments_bytes: number of buckets -> bytes of each."""

    gradient_bytes: int
    fit: Fit
    codecs: dict[str, dict[str, float]]
    compute: Computation
    segments_bytes: dict[str, list[int]]
    note: str | None
    variants: list[Variant]


ranks = most_ranks


def check(config: RunConfig) -> None:
    needs_several(config)
    for strategy in config.probe.strategies.values():
        equations.check_predictable(strategy.name, strategy.options)


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    probe, p = config.probe, config.workers
    variants = create_strategies(probe.strategies)
    dataset = data.dataset_for(config)
    groups = make_subgroups(fabric, [p, *(strategy.ranks(strategy.options, p) for strategy in variants.values())])
    probes.announce_iterations(probe.turns * (len(variants) + 1), fabric.rank)
    bench = Benchmarks(workers, config, dataset, variants) if (workers := groups[p]) else None
    turns: dict[str, list] = {variant: [] for variant in variants}
    done = 0
    for _ in range(probe.turns):
        if bench:
            bench.turn()
        fabric.exchange(None)  # a rank outside the group waits here without keeping its core busy
        probes.report_progress(done := done + 1, fabric.rank)
        for variant, strategy in create_strategies(probe.strategies).items():
            if group := groups[strategy.ranks(strategy.options, p)]:
                check_ranks(group, strategy, config)
                worker = build_worker(group, config, dataset)
                turns[variant].append(observe_steps(group, strategy, worker, probe.warmup, probe.steps))
            fabric.exchange(None)
            probes.report_progress(done := done + 1, fabric.rank)
    if fabric.rank:  # rank 0 reports
        return probes.Finding({}, {}, "", config.model.name, 0, dataset)
    basis = not_none(bench).basis()
    rows = [
        variant_row(variant, probe.strategies[variant], strategy, summarise_steps(turns[variant], probe.steps), basis)
        for variant, strategy in variants.items()
    ]
    metrics = {}
    for row in rows:
        metrics[f"observed_s/{row['variant']}"] = row["observed_s"]["median"]
        metrics[f"predicted_s/{row['variant']}"] = row["predicted_s"]
    errors = {row["variant"]: row["predicted_s"] / row["observed_s"]["median"] - 1 for row in rows}
    worst = max(errors, key=lambda variant: abs(errors[variant]))
    line = f"{len(rows)} variants, predicted step times off by at most {errors[worst]:+.1%} ({worst})"
    parameters = basis.gradient_bytes // FLOAT32
    return probes.Finding(assemble_result(config, basis, rows), metrics, line, config.model.name, parameters, dataset)


class Benchmarks:
    """The measurements that predictions use; only workers take part."""

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


def variant_row(
    variant: str, plugin: Plugin, strategy: Strategy, observed: dict[str, Any], basis: equations.Basis
) -> dict[str, Any]:
    prediction = equations.PREDICTIONS[strategy.name](strategy.options, basis)
    return {
        "variant": variant,
        "strategy": strategy.name,
        "options": plugin.plain_options(),
        **observed,
        "predicted_s": prediction.seconds,
        "equation": prediction.equation,
        "printed_s": prediction.printed,
        "terms": prediction.terms,
        "efficiency_predicted": equations.step_efficiency(basis.compute, prediction.seconds),
        "efficiency_observed": equations.step_efficiency(basis.compute, observed["observed_s"]["median"]),
    }


def assemble_result(config: RunConfig, basis: equations.Basis, rows: list[dict[str, Any]]) -> dict[str, Any]:
    fit, codecs = basis.fabric.as_result()
    return {
        "gradient_bytes": basis.gradient_bytes,
        "fit": fit,
        "codecs": codecs,
        "compute": basis.compute.as_result(),
        "segments_bytes": {str(L): list(sizes) for L, sizes in basis.buckets.items()},
        "note": None if config.simulated else SHARED,
        "variants": rows,
    }
