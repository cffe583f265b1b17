"""The metrics of evaluations: the data sets for which each is defined, and whether lower is better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from repro.core.errors import InputError, unknown_name
from repro.records.run_columns import SHARES

TOP = 5  # of metric top5


@dataclass(frozen=True)
class Metric:
    """A metric.

    label     the displayed name
    tasks     and `kinds` of the data sets for which it is defined (`repro.data.base`; None: every kind)
    module    the module with `score(model, split, device)`, loaded by name, so that only runs with this metric depend
              on that code; None: it is computed together with the loss
    """

    label: str
    lower_is_better: bool = False
    tasks: tuple[str, ...] = ("classification", "text")
    kinds: tuple[str, ...] | None = None
    module: str | None = None

    def of(self, task: str, kind: str) -> bool:
        """Whether it is defined for a data set of this task and kind."""
        return task in self.tasks and (self.kinds is None or kind in self.kinds)


METRICS = {
    "top1": Metric("accuracy"),  # share of samples whose most likely class is the right one
    "top5": Metric("top-5 accuracy"),  # share whose right class is among the five most likely; for more than 5 classes
    "perplexity": Metric("perplexity", lower_is_better=True, tasks=("text",)),  # e to the mean cross-entropy of a word
    # decoded captions, compared with all human captions
    "meteor": Metric(
        "METEOR without synonyms",
        tasks=("text",),
        kinds=("captioned clips",),
        module="repro.training.evaluation.meteor",
    ),
    "mse": Metric("mean squared error", lower_is_better=True, tasks=("regression",)),
}


def lower_is_better(name: str) -> bool:
    return METRICS[name].lower_is_better


def reaches_target(name: str, score: float, target: float) -> bool:
    """Whether a score is equal to a target or better."""
    return score <= target if lower_is_better(name) else score >= target


def metric_modules(task: str, kind: str) -> dict[str, str]:
    """name -> module, of a data set's metrics that have a module of their own."""
    return {name: metric.module for name, metric in METRICS.items() if metric.module and metric.of(task, kind)}


def check_metric(name: str, dataset: str, targets: Sequence[float] = ()) -> None:
    """InputError for an unknown metric, for one that is not defined for the data set of this name, and for a target
    that it cannot reach."""
    from repro import data

    if name not in METRICS:
        raise unknown_name("metric", str(name), METRICS)
    metric, task, kind = METRICS[name], data.task_of(dataset), data.input_kind(dataset)
    if not metric.of(task, kind):
        fitting = ", ".join(other for other, metric in METRICS.items() if metric.of(task, kind))
        what = f"{kind}, a regression" if task == "regression" else kind
        raise InputError(
            f"metric={name}: is defined for {' and '.join(metric.kinds or metric.tasks)}, and data set '{dataset}' has "
            f"{what}; metrics for it: {fitting}"
        )
    if name in SHARES and (beyond := [target for target in targets if not 0 <= target <= 1]):
        raise InputError(f"targets={beyond[0]:g}: {name} is a share; must be 0 to 1")


def check_classes(name: str, classes: int) -> None:
    """InputError for top5 of five classes or fewer, where it is always 1."""
    if name == "top5" and classes <= TOP:
        raise InputError(f"metric=top5: needs more than {TOP} classes, and the data set has {classes}; use metric=top1")
