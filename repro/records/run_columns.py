"""The columns of the table `runs`, each declared once: its name, where its value comes from, what it means.

Times are in seconds of the run's training clock; those of an iteration are means over worker ranks. A run that lacks a
value has None. A column that depends on the other runs of a table, such as the label that separates them, is in
`repro.records.tables`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from statistics import fmean
from typing import Any, NamedTuple

from repro.core.wilson import wilson_bound
from repro.records.busy import shared_by_ranks
from repro.records.configured import ABOUT_ENTRIES, Configured
from repro.records.record import Found, TrainResult

Source = str | Callable[[Found], Any]  # a path in the run's record, or a function of the run
SCALAR = (str, float, int, type(None))  # types of a column's values
# configured values but for plugins, which have columns of their own, and what a label is made with
PLUGINS = [name for name, field in Configured.model_fields.items() if field.annotation is Any]
ENTRIES = [name for name in Configured.model_fields if name not in (*PLUGINS, "paper", "variant", *ABOUT_ENTRIES)]
OF_TRAINING = ("epochs", "eval_every", "metric", "accumulate")  # configured values that a probe does not use
SHARES = ("top1", "top5")  # metrics that are a share of the test set
RANKS, LOSS, TARGET = "per_rank.", "loss.", "to_"
ABSENT: Any = object()  # in the place of a value: a run has no such column


class Column(NamedTuple):
    """A column. The name of a `Group` is a prefix, and its source a mapping with a column for each entry."""

    name: str
    source: Source
    meaning: str


class Group(Column):
    pass


class Recorded(Group):
    """A group of which a run may lack entries that another has."""


# --- sources that are no path


def _trained(run: Found) -> TrainResult | None:
    return run.training if run.identity.trains else None


def _configured(run: Found) -> dict[str, Any]:
    values = {name: getattr(run.identity, name) for name in ENTRIES}
    values = {name: value for name, value in values.items() if isinstance(value, SCALAR)}
    return values if run.identity.trains else values | dict.fromkeys(OF_TRAINING)


def _model_size(scale: float) -> Callable[[Found], float | None]:
    return lambda run: scale * run.parameters if run.parameters else None


def _rate(amount: Callable[[Found], float]) -> Callable[[Found], float | None]:
    return lambda run: result.step.rate(amount(run)) if (result := _trained(run)) else None


def _final(run: Found) -> float | None:
    result = _trained(run)
    return result.final.get(run.identity.metric) if result else None


def _final_end(sign: float) -> Callable[[Found], float | None]:
    def end(run: Found) -> float | None:
        final, examples = _final(run), run.dataset.more.get("test") if run.dataset else None
        if not examples or final is None or run.identity.metric not in SHARES:
            return None
        return wilson_bound(final, examples, sign)

    return end


def _stalled(run: Found) -> float | None:
    if (result := _trained(run)) is None or not result.step.mean_s:
        return None
    return (result.phases["communicate"] + result.phases["wait"]) / result.step.mean_s


def _sample_bytes(run: Found) -> float | None:
    if (result := _trained(run)) is None or result.bytes_sent is None:
        return None
    return result.bytes_sent * (run.record.ranks or run.identity.workers) / run.identity.batch


def _targets(run: Found) -> dict[str, float]:
    result, columns = _trained(run), {}
    computed = _final(run) is not None  # runs of which only time is modelled have no accuracy
    for target, at in result.targets.items() if result else ():
        never = math.inf if computed else math.nan
        columns[f"{target}_s"] = at.train_s if at else never
        columns[f"{target}_iterations"] = never if at is None else math.nan if at.iteration is None else at.iteration
    return columns


def _losses(run: Found) -> dict[str, float]:
    curve = result.curve if (result := _trained(run)) else ()
    losses = [loss for point in curve if (loss := point.get("loss")) is not None]
    fallen = losses[0] - losses[-1] if losses else 0
    return {"last": losses[-1], "fallen": fallen if fallen > 0 else math.nan} if losses else {}


def _means_over_ranks(run: Found) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for rank in result.per_rank if (result := _trained(run)) else ():
        for name, value in scalar_entries(rank):
            if isinstance(value, int | float):
                values.setdefault(name, []).append(value)
    return {name: fmean(numbers) for name, numbers in values.items()}


# --- the columns

ABOUT_RUN = (
    Column("origin", lambda run: run.origin, "workspace (yours) or reference (committed)"),
    Column("paper", "identity.paper", ""),
    Column("run", "name", "<experiment>/<run>, by which the other tables refer to a run"),
    Column("variant", lambda run: run.label, "label (`repro.records.variants`)"),
    Column("variant_name", "identity.variant", "name in the experiment, which runs with other options may share"),
    Group("", _configured, "configured values (`repro.records.configured`)"),
    Column("key", "key", "the run's key"),
    Column("kind", "kind", "kind of number: measured, emulated, simulated"),
    Column("strategy", "identity.strategy.name", ""),
    Column("model", lambda run: run.model_name, ""),
    Column("dataset", "result.dataset.name", ""),
    Column("standin", "result.dataset.standin", "whether the data set was a stand-in"),
    Column("imbalance", "identity.imbalance.name", ""),
    Column("precision", "identity.numerics.precision", ""),
    Column("testbed", "identity.testbed.name", ""),
    Column("launcher", "identity.testbed.launcher", ""),
    Column("fabric", "fabric", ""),
    Column("ranks", "ranks", "processes: workers and servers"),
    Column("hardware", "hardware.class_", "class of the hardware"),
    Column("cores", "hardware.cores", "cores of the machine"),
    Column("cpu_taken_share", "cpu_taken_share", "share of the ranks' cores that others took"),
    Column("warnings", "warning_text", "why the numbers may be wrong, by what the run noticed itself"),
    Column("shared", lambda run: shared_by_ranks(run) or None, "what the ranks share: 4 ranks share 2 cores"),
    Column("commit", "provenance.commit", ""),
    Column("finished_at", "provenance.finished_at", "ISO format"),
)  # fmt: skip
FOUND = (  # what another result changes
    Column("iterations", "result.iterations", ""),
    Column("step_s", "result.step.mean_s", "s an iteration"),
    Column("train_s", "result.final.train_s", "s of training"),
    Column("iteration_s", "result.step.mean_s", "step_s by its name of before 2026-11-28"),
    Column("iterations_per_s", _rate(lambda run: 1), "of all ranks together"),
    Column("samples_per_s", _rate(lambda run: run.identity.batch), "of all ranks together"),
    Column("final", _final, "the metric at the end"),
    Column("final_low", _final_end(-1), "final minus its standard error as a share of the test set (Wilson)"),
    Column("final_high", _final_end(1), "final plus that"),
    Column("test_loss", "result.final.test_loss", ""),
    Column("communication_s", "result.communication.total_s", "s an iteration"),
    Column("exposed_s", "result.communication.exposed_s", "s of communication on the main thread"),
    Column("hidden_s", "result.communication.overlapped_s", "s of communication hidden behind computation"),
    Column("stalled", _stalled, "share of a step in which a rank waits for communication or other ranks"),
    Column("bytes_sent", "result.bytes_sent", "bytes per rank and iteration"),
    Column("sample_bytes", _sample_bytes, "bytes that all ranks send per sample"),
    Column("parameters", lambda run: run.parameters, "of the model"),
    Column("parameters_m", _model_size(1e-6), "millions of parameters"),
    Column("model_mb", _model_size(4e-6), "10^6 bytes, at 4 bytes per parameter"),
    Column("peak_mb", "result.memory.peak_mb", "largest memory of a rank, 10^6 bytes"),
    Column("peak_of", "result.memory.of", "which memory: gpu or resident"),
    Column("free_arithmetic", "result.free_arithmetic", "whether compression is modelled to take no time"),
    Recorded(TARGET, _targets, "s and iterations to a target: to_0.97_s; infinity if not reached"),
    Group("factors.", "identity.factors", "factors of the experiment"),
    Group("options.", "identity.strategy.options", "of the strategy"),
    Recorded("phases.", "result.phases", "s an iteration on the main thread; their sum is the step"),
    Recorded("step.", "result.step", "s of iterations on rank 0"),
    Recorded("final.", "result.final", "all scores at the end"),
    Recorded("counters.", "result.counters", "counts by the strategy"),
    Group("allreduce.", "result.allreduce", "the choice of `auto`"),
    Recorded("pipeline.", "result.pipeline", "stages and schedule"),
    Recorded(LOSS, _losses, "last: training loss, a mean since the last stop; fallen: by how much since the first"),
    Recorded(RANKS, _means_over_ranks, "means over the ranks that report an entry"),
    Group("wall.", "wall", "s by the clock on the wall, of rank 0, by activity"),
    Recorded("result.", "result.found", "single values that a probe found"),
)  # fmt: skip
COLUMNS: tuple[Column, ...] = (*ABOUT_RUN, *FOUND)
RECORDED = tuple(column.name for column in COLUMNS if isinstance(column, Recorded))  # prefixes
OF_RESULT = [column for column in FOUND if callable(column.source) or column.source.startswith("result.")]


def run_row(run: Found) -> dict[str, Any]:
    """A run's row of the table `runs`: a value for each column, and one for each entry of the groups."""
    return _row(run, COLUMNS)


def result_row(run: Found) -> dict[str, Any]:
    """The part of a run's row that its seed and its result decide."""
    return {"seed": run.identity.seed} | _row(run, OF_RESULT)


def result_value(run: Found, name: str) -> Any:
    """`result_row(run)[name]`, without the other columns; ABSENT if it has no such column."""
    if name == "seed":
        return run.identity.seed
    for column in _columns_with(name):
        value = _value(run, column.source)
        if not isinstance(column, Group):
            return value
        entries = dict(value or {})
        if isinstance(found := entries.get(name.removeprefix(column.name), ABSENT), SCALAR):
            return found
        if (nested := dict(scalar_entries(entries, column.name))) and name in nested:
            return nested[name]
    return ABSENT


@cache
def _columns_with(name: str) -> Sequence[Column]:
    """The columns of a result that may have the name, first the one that counts."""
    return [
        column
        for column in reversed(OF_RESULT)
        if (name.startswith(column.name) if isinstance(column, Group) else name == column.name)
    ]


def _row(run: Found, columns: Sequence[Column]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for column in columns:
        value = _value(run, column.source)
        if isinstance(column, Group):
            row.update(scalar_entries(dict(value or {}), column.name))
        else:
            row[column.name] = value
    return row


def scalar_entries(entries: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """The scalar entries of a mapping and its nested mappings, by path; without lists."""
    for name, value in entries.items():
        if isinstance(value, dict):
            yield from scalar_entries(value, f"{above}{name}.")
        elif isinstance(value, SCALAR):
            yield f"{above}{name}", value


def _value(run: Found, source: Source) -> Any:
    if callable(source):
        return source(run)
    value: Any = run.record
    for name in _names(source):
        value = value.get(name) if isinstance(value, dict) else getattr(value, name, None)
    return value


@cache
def _names(path: str) -> Sequence[str]:
    return path.split(".")
