"""Computes the golden rows."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from repro import data, models, strategies
from repro.algorithms import imbalance
from repro.core.errors import InputError
from repro.experiment.optimizer import Optimizer
from repro.experiment.versions import read_lock
from repro.launch.rerun import config_of
from repro.records import catalogue, provenance, reference
from repro.records.record import Record
from repro.strategies.base import RunFacts
from repro.testing import real, small
from repro.training.device_times import BlockSeconds, block_flops
from tests.support.normalised import with_statistics

FILE = Path(__file__).with_name("rows.json")
BLOCKS, STEPS, MOST_WORKERS = 6, 6, 16  # of a small run
MOST_FLOPS = 1e9  # of a forward pass that is computed
# relative, on another class of hardware or torch; six steps at a learning rate of 3.2 multiply rounding by ten thousand
CLOSE, TRAINED = 1e-5, {"losses": 1e-3, "norms": 1e-3}


class Row(NamedTuple):
    """what: the part and its options, as text. parts: the versions with which the numbers were computed. numbers:
    floats are compared with a tolerance, all else exactly. bits: SHA-256 of tensors, compared on the same hardware and
    torch.
    """

    what: str
    parts: dict[str, int]
    numbers: dict[str, Any]
    bits: str = ""


def machine() -> list[str]:
    """On what bits are the same: class of hardware, and torch."""
    return [provenance.hardware("", "cpu")["class"], torch.__version__]


def compute() -> dict[str, Row]:
    """All rows of the committed runs, by `what`, on one thread as ranks of a simulation."""
    torch.set_num_threads(1)
    records = [record for paper in catalogue.papers(None) for record in reference.read(paper)]
    rows = [*strategy_rows(records), *optimizer_rows(records), *imbalance_rows(records), *model_rows(records)]
    return {row.what: row for row in (*rows, *dataset_rows(records))}


def row(what: str, parts: Iterable[str], numbers: dict[str, Any], tensors: Iterable[torch.Tensor] = ()) -> Row:
    bits = hashlib.sha256()
    tensors = list(tensors)
    for tensor in tensors:
        bits.update(tensor.detach().contiguous().numpy().tobytes())
    return Row(what, {part: read_lock()[part].version for part in parts}, numbers, bits.hexdigest() if tensors else "")


def distinct(records: Iterable[Record], part: str) -> Iterator[tuple[str, dict[str, Any], int]]:
    """(name, options, fewest workers) of a part, each combination once, of the committed runs."""
    seen: dict[str, int] = {}
    for record in records:
        plain = record.identity.plain()
        text = json.dumps(plain.get(part) or {}, sort_keys=True)
        seen[text] = min(seen.get(text, plain["workers"]), plain["workers"])
    for text, workers in sorted(seen.items()):
        options = json.loads(text)
        yield options.pop("name", "sgd"), options, workers


def fitting(name: str, options: Mapping[str, Any], workers: int) -> int:
    """Three workers, or as many as the committed run has where the options need them (stages of a pipeline)."""
    strategy = strategies.load_strategy(name)
    try:
        strategy.check(strategy.parse(options), RunFacts(workers=3, epochs=1))
    except InputError:
        return min(workers, MOST_WORKERS)
    return 3


def small_run(
    name: str, options: Mapping[str, Any], workers: int = 3, optimizer: Optimizer = small.SGD
) -> small.SmallRun | None:
    """A run of a strategy with its options; with those of the kit where they do not fit a small model; None if neither
    does."""
    seconds = BlockSeconds([1e-3] * BLOCKS, [2e-3] * BLOCKS)
    how: dict[str, Any] = {
        "workers": workers,
        "steps": STEPS,
        "optimizer": optimizer,
        "build_model": lambda: with_statistics(BLOCKS),
    }
    how |= {"batch": 2, "iterations_per_epoch": small.SAMPLES // 2 // workers, "blocks": lambda rank: seconds}
    for choice in (options, {**options, **strategies.load_strategy(name).conformance}):
        with contextlib.suppress(InputError):
            return small.run(name, dict(choice), **how)
    return None


def numbers_of(run: small.SmallRun) -> dict[str, Any]:
    norms = [float(weights.double().norm()) for weights in run.weights]
    return {"seconds": run.seconds, "bytes_sent": run.bytes_sent, "losses": run.losses, "norms": norms}


def strategy_rows(records: Iterable[Record]) -> Iterator[Row]:
    for name, options, workers in distinct(records, "strategy"):
        if real.needed_library(name) is None and (run := small_run(name, options, fitting(name, options, workers))):
            what = f"strategy/{name} {json.dumps(options, sort_keys=True)}"
            yield row(what, (f"strategy/{name}", "fabric/virtual"), numbers_of(run), run.weights)


def optimizer_rows(records: Iterable[Record]) -> Iterator[Row]:
    for name, options, _ in distinct(records, "optimizer"):
        run = small_run("dsync", {}, optimizer=Optimizer(name=name, **options))
        assert run
        what = f"optimizer/{name} {json.dumps(options, sort_keys=True)}"
        yield row(what, ("strategy/dsync", "fabric/virtual"), numbers_of(run), run.weights)


def imbalance_rows(records: Iterable[Record]) -> Iterator[Row]:
    delayed = {
        (json.dumps(plain, sort_keys=True), record.identity.workers): record
        for record in records
        if (plain := record.identity.plain()["imbalance"])["name"] != imbalance.NONE
    }
    for (text, workers), record in delayed.items():
        config = config_of(record).model_copy(update={"seed": 0})
        if delays := imbalance.imbalance_for(config):
            what = f"imbalance/{config.imbalance.name} {text}, {workers} workers"
            steps = [delays.delays(iteration) for iteration in range(3)]
            yield row(what, (f"imbalance/{config.imbalance.name}",), {"delays": steps, "longest": delays.longest})


def model_rows(records: Iterable[Record]) -> Iterator[Row]:
    """Operations and parameters of each model on its data's shape, and the output of those that compute fast."""
    trained = {
        (json.dumps(record.identity.plain()["model"], sort_keys=True), record.identity.dataset.name): record
        for record in records
        if record.trained
    }
    for (text, dataset), record in trained.items():
        config = config_of(record)
        shape = data.load_shapes(config.dataset.name, None, **_without_standin(config.dataset.options))
        built = (config.model.name, tuple(shape.input_shape), shape.classes, 0)
        flops = block_flops(models.build_model(*built, "meta", **config.model.options), tuple(shape.input_shape), 1)
        model = models.build_model(*built, "cpu" if sum(flops) < MOST_FLOPS else "meta", **config.model.options)
        numbers: dict[str, Any] = {"flops": flops, "parameters": sum(p.numel() for p in model.parameters())}
        outputs = []
        if sum(flops) < MOST_FLOPS and shape.kind in ("images", "features"):
            x = torch.randn(2, *shape.input_shape, generator=torch.Generator().manual_seed(0))
            outputs = [model.eval()(x).detach()]
            numbers["norm"] = float(outputs[0].double().norm())
        what = f"model/{config.model.name} {text} on {dataset} {list(shape.input_shape)}"
        yield row(what, (f"model/{config.model.name}",), numbers, outputs)


def dataset_rows(records: Iterable[Record]) -> Iterator[Row]:
    """The first minibatch of each data set's stand-in."""
    names = {record.identity.dataset.name for record in records}
    for name in sorted(names):
        dataset = data.load_dataset(name, None, "always")
        x, y = dataset.train.minibatches(4, 1, 0)[0]
        numbers = {"shape": list(x.shape), "norm": float(x.double().norm()), "labels": y.reshape(-1)[:64].tolist()}
        yield row(f"dataset/{name}", (f"dataset/{name}",), numbers, [x, y])


def _without_standin(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "standin"}


def different(stored: Row, now: Row, same_machine: bool) -> str:
    """What of a row is another number now; "" if nothing is."""
    if same_machine and stored.bits != now.bits:
        return "bits"
    for name in {**stored.numbers, **now.numbers}:
        if not close(stored.numbers.get(name), now.numbers.get(name), TRAINED.get(name, CLOSE)):
            return name
    return ""


def close(stored: Any, now: Any, tolerance: float) -> bool:
    if isinstance(stored, list) and isinstance(now, list | tuple):
        return len(stored) == len(now) and all(close(*pair, tolerance) for pair in zip(stored, now, strict=True))
    if isinstance(stored, float) and isinstance(now, int | float):
        return math.isclose(stored, now, rel_tol=tolerance, abs_tol=1e-9)
    return bool(stored == now)


def read() -> tuple[list[str], dict[str, Row]]:
    """(the machine that computed them, the stored rows by `what`)."""
    content = json.loads(FILE.read_text()) if FILE.is_file() else {"machine": machine(), "rows": []}
    return content["machine"], {entry["what"]: Row(**entry) for entry in content["rows"]}


def changed(now: Mapping[str, Row]) -> dict[str, str]:
    """what -> what of it changed, of the stored rows whose parts have the versions that they had; now: `compute`."""
    computed_on, stored = read()
    same_machine = computed_on == machine()
    return {
        what: difference
        for what, before in stored.items()
        if what in now
        and before.parts == now[what].parts
        and (difference := different(before, now[what], same_machine))
    }
