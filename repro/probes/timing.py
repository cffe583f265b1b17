"""Program `timing`: predicted against observed step times of strategies (Pipe-SGD 3.1, equations (2), (4) to (7)).

A cell is a model on p workers of a testbed. It measures the fabric (alpha, beta, gamma, S, codecs) and the computation,
each by itself; then runs every strategy of `probe.strategies` for some steps. Predictions use nothing of the latter. In
virtual time they agree to rounding, which is a test; on a machine whose ranks share its cores and memory they need not:
communication takes cores from computation there, against the model's premise of separate resources.

    probe.strategies   setting -> {name, options ...}: ps_sync, dsync, pipe_sgd
    probe.turns        how often everything is measured, all of it in turn, so that a busy minute hits both sides
    probe.steps        counted iterations of a strategy in a turn, after `warmup`
    probe.sizes        bytes of the ring's vectors; `rounds`: repetitions of each microbenchmark in a turn
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from repro import data, probes
from repro.common.errors import InputError
from repro.data.base import Dataset
from repro.experiment.files import strategy_options
from repro.fabric.base import Fabric
from repro.probes import _predict
from repro.probes._common import chosen, facts, sizes, whole
from repro.probes._compute import ComputeBenchmark
from repro.probes._fabric_model import Microbenchmark
from repro.probes._observe import observe, summarise
from repro.rank.factory import build_worker, check_ranks
from repro.strategies.base import Strategy
from repro.timing.closed_forms import FLOAT32
from repro.training.buckets import balanced_buckets, block_sizes

SHARED = "ranks share this machine's cores and memory: computation and communication slow each other down"


def ranks(config: dict[str, Any]) -> int:
    """As many as the strategy that needs most; the others leave the rest waiting."""
    return max(strategy.ranks(strategy.options, config["workers"]) for strategy in chosen(config["probe"]).values())


def check(config: dict[str, Any]) -> None:
    """InputError for parameters that cannot be used."""
    probe = config["probe"]
    if config["workers"] < 2:
        raise InputError(f"workers={config['workers']}: program timing needs 2 or more, who communicate")
    for name in ("turns", "steps", "rounds"):
        whole(probe, name)
    whole(probe, "warmup", least=0)
    sizes(probe, "sizes", least=2)
    for strategy in chosen(config["probe"]).values():
        _predict.check(strategy.name, strategy.options)


def run(fabric: Fabric, config: dict[str, Any], folder: Path) -> None:
    """One rank's part. Where a rank has none it waits in `exchange`, which leaves its core to the others."""
    probe, p = config["probe"], config["workers"]
    settings = chosen(probe)
    dataset = data.of(config)
    groups: dict[int, Fabric | None] = {fabric.size: fabric}  # ranks -> a fabric over the first so many of them
    for needed in sorted({p} | {strategy.ranks(strategy.options, p) for strategy in settings.values()}):
        if needed not in groups:
            groups[needed] = fabric.subgroup(range(needed))
    probes.start(fabric, probe["turns"] * (len(settings) + 1))
    bench = Benchmarks(groups[p], config, dataset, settings) if groups[p] else None
    seen: dict[str, list] = {setting: [] for setting in settings}
    done = 0
    for _ in range(probe["turns"]):
        if bench:
            bench.turn()
        fabric.exchange(None)
        probes.progress(fabric, done := done + 1)
        for setting, strategy in chosen(probe).items():
            if group := groups[strategy.ranks(strategy.options, p)]:
                check_ranks(group, strategy, config)
                worker = build_worker(group, config, dataset)
                seen[setting].append(observe(group, strategy, worker, probe["warmup"], probe["steps"]))
            fabric.exchange(None)
            probes.progress(fabric, done := done + 1)
    result: dict[str, Any] = {"settings": []}
    if fabric.rank == 0:
        basis = bench.basis()
        observed = {setting: summarise(turns, probe["steps"]) for setting, turns in seen.items()}
        rows = [row(name, probe["strategies"][name], settings[name], observed[name], basis) for name in settings]
        result = assemble(config, basis, rows)
    parameters = bench.gradient_bytes // FLOAT32 if bench else 0
    said = facts(fabric, config["model"]["name"], parameters, dataset)
    probes.finish(fabric, config, folder, said, result, metrics(result["settings"]), line(result["settings"]))


class Benchmarks:
    """Everything that predictions come from, measured by the workers alone."""

    def __init__(self, fabric: Fabric, config: dict[str, Any], dataset: Dataset, settings: dict[str, Strategy]):
        self.probe = config["probe"]
        worker = build_worker(fabric, config, dataset)
        blocks = worker.model_shard.blocks
        for strategy in settings.values():
            type(strategy).check_model(strategy.options, block_sizes(blocks))
        counts = sorted({1} | {getattr(strategy.options, "segments", 1) for strategy in settings.values()})
        codecs = sorted({getattr(strategy.options, "codec", "none") for strategy in settings.values()} - {"none"})
        self.gradient_bytes = FLOAT32 * worker.model_shard.size
        self.buckets = {L: [FLOAT32 * (b.end - b.start) for b in balanced_buckets(blocks, L)[::-1]] for L in counts}
        self.network = Microbenchmark(
            fabric, self.gradient_bytes, self.probe["sizes"], codecs, worker.model_shard.device
        )
        self.compute = ComputeBenchmark(fabric, worker, counts)

    def turn(self) -> None:
        self.network.turn(self.probe["rounds"])
        self.compute.turn(self.probe["warmup"], self.probe["steps"])

    def basis(self) -> _predict.Basis:
        return _predict.Basis(self.network.fabric.size, self.buckets, self.network.model(), self.compute.result())


def row(
    setting: str, given: dict[str, Any], strategy: Strategy, seen: dict[str, Any], basis: _predict.Basis
) -> dict[str, Any]:
    """One setting of the result."""
    prediction = _predict.predict(strategy.name, strategy.options, basis)
    return {
        "setting": setting,
        "strategy": strategy.name,
        "options": strategy_options({"strategy": given}),
        **seen,
        "predicted_s": prediction.seconds,
        "equation": prediction.equation,
        "printed_s": prediction.printed,
        "terms": prediction.terms,
        "efficiency_predicted": _predict.efficiency(basis.compute, prediction.seconds),
        "efficiency_observed": _predict.efficiency(basis.compute, seen["observed_s"]["median"]),
    }


def assemble(config: dict[str, Any], basis: _predict.Basis, rows: list[dict[str, Any]]) -> dict[str, Any]:
    fit, codecs = basis.fabric.as_result()
    return {
        "gradient_bytes": basis.gradient_bytes,
        "fit": fit,
        "codecs": codecs,
        "compute": basis.compute.as_result(),
        "segments_bytes": {str(L): list(given) for L, given in basis.buckets.items()},
        "note": SHARED if config["testbed"]["kind"] == "measured" else None,
        "settings": rows,
    }


def error(row: dict[str, Any]) -> float:
    """Predicted over observed, less 1."""
    return row["predicted_s"] / row["observed_s"]["median"] - 1


def metrics(rows: list[dict[str, Any]]) -> dict[str, float]:
    found = {}
    for one in rows:
        found[f"observed_s/{one['setting']}"] = one["observed_s"]["median"]
        found[f"predicted_s/{one['setting']}"] = one["predicted_s"]
    return found


def line(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    worst = max(rows, key=lambda one: abs(error(one)))
    return f"{len(rows)} settings, predicted step times off by at most {error(worst):+.1%} ({worst['setting']})"
