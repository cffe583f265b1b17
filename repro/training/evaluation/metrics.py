"""What a run is scored by at every evaluation: the metrics, on which data each makes sense, and which way is better."""

from __future__ import annotations

from dataclasses import dataclass

from repro.core.errors import InputError, unknown

TOP = 5  # top5: the right class is among the five most likely


@dataclass(frozen=True)
class Metric:
    """label     for people
    tasks     and `kinds` of the data sets that it is for (`repro.data.base`; None: every kind)
    module    with its `score(model, split, device)`, loaded by name, so that only runs that are scored by it depend on
              that code; None: what comes with the loss
    """

    label: str
    lower_is_better: bool = False
    tasks: tuple[str, ...] = ("classification", "text")
    kinds: tuple[str, ...] | None = None
    module: str | None = None

    def of(self, task: str, kind: str) -> bool:
        """Whether it is one of a data set's."""
        return task in self.tasks and (self.kinds is None or kind in self.kinds)


METRICS = {
    "top1": Metric("accuracy"),  # share of the test set whose most likely class is the right one
    "top5": Metric("top-5 accuracy"),  # share whose right class is among the five most likely; of more than 5 classes
    "perplexity": Metric("perplexity", lower_is_better=True, tasks=("text",)),  # e to the mean cross-entropy of a word
    # captions that the network decodes, against all that people wrote
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


def reaches(name: str, score: float, target: float) -> bool:
    """Whether a score is as good as a target, or better."""
    return score <= target if lower_is_better(name) else score >= target


def modules(task: str, kind: str) -> dict[str, str]:
    """The metrics of a data set that have a module of their own: name -> that module."""
    return {name: metric.module for name, metric in METRICS.items() if metric.module and metric.of(task, kind)}


def check(name: str, dataset: str) -> None:
    """InputError for an unknown metric, and for one that a data set (by name) has no use for."""
    from repro import data

    if name not in METRICS:
        raise unknown("metric", str(name), METRICS)
    metric, task, kind = METRICS[name], data.task(dataset), data.kind(dataset)
    if not metric.of(task, kind):
        fitting = ", ".join(other for other, metric in METRICS.items() if metric.of(task, kind))
        what = f"{kind}, a regression" if task == "regression" else kind
        raise InputError(
            f"metric={name}: of {' and '.join(metric.kinds or metric.tasks)}, and data set '{dataset}' has "
            f"{what}; metrics for it: {fitting}"
        )


def check_classes(name: str, classes: int) -> None:
    """InputError for top5 of so few classes that it is always right."""
    if name == "top5" and classes <= TOP:
        raise InputError(
            f"metric=top5: the data set has {classes} classes, and more than {TOP} are needed; metrics for it: top1"
        )
