"""Which summaries belong together: a figure or table never mixes machines, data sets, lengths, testbeds or options."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from repro.errors import InputError
from repro.results import PHASES, SCHEMA, read_summary, results_root

KINDS = ("measured", "simulated")
Summary = dict[str, Any]

# What the reports read of every summary (the schema stands in `repro.results`).
REQUIRED = (
    "paper",
    "experiment",
    "setting",
    "strategy",
    "options",
    "kind",
    "testbed",
    "fabric",
    "launcher",
    "workers",
    "seed",
    "breakdown",
    "batch",
    "epochs",
    "iterations",
    "metric",
    "dataset",
    "model",
    "optimizer",
    "curve",
    "final",
    "targets",
    "step",
    "phases",
    "communication",
    "bytes_sent",
    "hardware",
    "provenance",
)
MAPPINGS = (
    "dataset",
    "model",
    "optimizer",
    "final",
    "targets",
    "step",
    "phases",
    "communication",
    "hardware",
    "provenance",
)
INNER = {
    "dataset": ("name", "standin"),
    "model": ("name",),
    "step": ("mean_s",),
    "final": ("train_s",),
    "phases": PHASES,
    "communication": ("total_s", "exposed_s", "overlapped_s"),
    "hardware": ("class",),
}


@dataclass(frozen=True)
class Experiment:
    """One experiment of a paper as its page shows it: the settings in the paper's order and what defines each."""

    paper: str
    name: str
    settings: Mapping[str, tuple[str, Mapping[str, Any]]]  # setting -> (strategy, options that it must have)


@dataclass(frozen=True)
class Group:
    """Summaries that may stand in one figure: of one experiment, kind, hardware class, data set, length, testbed."""

    key: tuple
    cells: tuple[Summary, ...]
    settings: tuple[str, ...]
    _runs: dict = field(default_factory=dict, repr=False, compare=False)

    @property
    def kind(self) -> str:
        return self.cells[0]["kind"]

    @property
    def first(self) -> Summary:
        return self.cells[0]

    @property
    def metric(self) -> str:
        return self.first["metric"]

    @property
    def standin(self) -> bool:
        return bool(self.first["dataset"]["standin"])

    @property
    def latest(self) -> str:
        return max(moment(cell["provenance"].get("finished_at")) for cell in self.cells)

    def runs(self, setting: str) -> dict[int, Summary]:
        """seed -> the latest throughput cell of a setting."""
        return self._of(setting, breakdown=False)

    def phase_runs(self, setting: str) -> dict[int, Summary]:
        """seed -> the cell whose phases count: breakdown cells where there are any, else the throughput cells."""
        return self._of(setting, breakdown=True) or self.runs(setting)

    def covered(self) -> list[str]:
        """Settings with a throughput cell, in the experiment's order."""
        return [name for name in self.settings if self.runs(name)]

    def seeds(self) -> list[int]:
        return sorted({seed for name in self.settings for seed in self.runs(name)})

    def used(self) -> list[Summary]:
        """Every cell that a figure or table of this group reads."""
        cells = [c for s in self.settings for pick in (self.runs, self.phase_runs) for c in pick(s).values()]
        return list({id(cell): cell for cell in cells}.values())

    def _of(self, setting: str, breakdown: bool) -> dict[int, Summary]:
        if (setting, breakdown) not in self._runs:
            found: dict[int, Summary] = {}
            for cell in sorted(self.cells, key=lambda c: moment(c["provenance"].get("finished_at"))):
                if cell["setting"] == setting and bool(cell["breakdown"]) == breakdown:
                    found[cell["seed"]] = cell
            self._runs[setting, breakdown] = dict(sorted(found.items()))
        return self._runs[setting, breakdown]


def length(group: Group) -> str:
    """`5 epochs`"""
    epochs = group.first["epochs"]
    return f"{epochs:g} epoch{'s' if epochs != 1 else ''}"


def moment(value: Any) -> str:
    """A point in time as text that sorts: ISO text as it is, seconds since 1970 as ISO in UTC, nothing as ''."""
    if value is None:
        return ""
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return str(value)


def load(paper: str, root: Path | None = None) -> list[Summary]:
    """Every finished cell's summary of a paper in path order, checked to have what the reports read."""
    found = []
    for path in sorted((root or results_root()).glob(f"{paper}/*/*/summary.json")):
        summary = read_summary(path.parent)
        problem = _problem(summary)
        if problem:
            raise InputError(f"{path}: not a readable summary ({problem}); remove the file to run the cell again")
        if summary.get("status", "finished") == "finished":
            found.append(summary)
    return found


def _problem(summary: Any) -> str | None:
    if not isinstance(summary, dict):
        return "not an object"
    if summary.get("schema", SCHEMA) != SCHEMA:
        return f"schema {summary['schema']}, this version reads {SCHEMA}"
    if missing := [key for key in REQUIRED if key not in summary]:
        return f"missing: {', '.join(missing)}"
    for key in MAPPINGS:
        if not isinstance(summary[key], dict):
            return f"{key} is not an object"
    for key, names in INNER.items():
        if missing := [name for name in names if name not in summary[key]]:
            return f"missing in {key}: {', '.join(missing)}"
    if summary["metric"] not in summary["final"]:
        return f"missing in final: {summary['metric']}"
    if summary["kind"] not in KINDS:
        return f"kind '{summary['kind']}', not {' or '.join(KINDS)}"
    return None


def key_of(summary: Summary) -> tuple:
    """What must be equal within a group. Simulated time is modelled: the testbed's parameters replace hardware."""
    simulated = summary["kind"] == "simulated"
    model = summary.get("testbed_model")
    place = json.dumps(model, sort_keys=True) if simulated else summary["hardware"]["class"]
    optimizer = json.dumps(summary["optimizer"], sort_keys=True)
    return (
        summary["kind"],
        place,
        summary["dataset"]["name"],
        summary["epochs"],
        summary["batch"],
        summary["testbed"],
        summary["launcher"],
        summary.get("threads_per_rank", 1),
        summary.get("eval_every", 0.25),
        summary["workers"],
        summary["model"]["name"],
        optimizer,
    )


def belongs(summary: Summary, experiment: Experiment) -> bool:
    """Is this cell one of the experiment's settings as the paper has them (not, say, Pipe-SGD with K = 3)?

    Cells that only model time (a testbed with `arithmetic: none`) have no accuracy and stand in no figure.
    """
    if summary["setting"] not in experiment.settings or summary["final"][summary["metric"]] is None:
        return False
    strategy, options = experiment.settings[summary["setting"]]
    return summary["strategy"] == strategy and all(
        summary["options"].get(name, value) == value for name, value in options.items()
    )


def groups(summaries: Sequence[Summary], settings: Sequence[str]) -> list[Group]:
    """The summaries by `key_of`, in a fixed order."""
    found: dict[tuple, list[Summary]] = {}
    for summary in summaries:
        found.setdefault(key_of(summary), []).append(summary)
    return [Group(key, tuple(found[key]), tuple(settings)) for key in sorted(found, key=repr)]


def choose(summaries: Sequence[Summary], experiment: Experiment) -> tuple[dict[str, Group], list[Group]]:
    """(kind -> the group that its figures show, all other groups).

    For each kind: most settings covered; then, simulated, a testbed of a paper before one with round numbers; then the
    group that finished last. Cells whose options are not the experiment's are never in a figure.
    """
    mine = [s for s in summaries if s["experiment"] == experiment.name and belongs(s, experiment)]
    taken = {id(summary) for summary in mine}
    rest = [s for s in summaries if id(s) not in taken]
    found = groups(mine, tuple(experiment.settings))
    chosen: dict[str, Group] = {}
    for kind in KINDS:
        of_kind = [group for group in found if group.kind == kind and group.covered()]
        if of_kind:
            chosen[kind] = max(
                of_kind,
                key=lambda g: (
                    len(g.covered()),
                    kind == "simulated" and g.first["testbed"].startswith("paper/"),
                    g.latest,
                ),
            )
    others = [group for group in found if group not in chosen.values()]
    for name in sorted({s["experiment"] for s in rest}):
        of_name = [s for s in rest if s["experiment"] == name]
        others += groups(of_name, sorted({s["setting"] for s in of_name}))
    return chosen, others


def experiment_group(summaries: Sequence[Summary], experiment: str, kind: str) -> Group | None:
    """For claims of another experiment than the page's: its group with most settings, then the latest; or None."""
    mine = [s for s in summaries if s["experiment"] == experiment and s["kind"] == kind]
    found = [g for g in groups(mine, sorted({s["setting"] for s in mine})) if g.covered()]
    return max(found, key=lambda g: (len(g.covered()), g.latest), default=None)
