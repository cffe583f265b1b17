"""README's table of the workloads that papers train to an accuracy: what the committed records say of each.

An experiment's file names its `workload` and the number that the paper prints; the rest is of its finished runs in the
reference, and of those of paper `gpu` with its network. `repro verify` compares, `repro verify --write` writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from repro.common.fields import Model, Text, checked
from repro.experiment import config
from repro.experiment.files import own_file
from repro.experiment.quoted import number, printed

BEGIN, END = "<!-- workloads: repro verify --write -->", "<!-- end -->"
HEAD = ("workload", "target", "data at hand", "GPU", "target reached", "run in MLflow", "command")
NEVER = "GPU: never run"
SCALES = ("quick", "full", "paper")


class Workload(Model):
    """A file's `workload`: its name, where the paper prints the accuracy, and what follows `repro` to train it."""

    part = "workload"

    name: Text
    place: Text
    row: Text
    quantity: Text
    setting: Text = "all"
    command: Text


def table(reference: Path) -> str:
    """The table in Markdown; InputError for a workload that points to no printed number."""
    rows = [
        _row(reference, experiment) for experiment in config.experiment_names() if own_file(experiment).get("workload")
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in [HEAD, ("---",) * len(HEAD), *sorted(rows, key=str)])


def different(page: Path, reference: Path) -> bool:
    """Whether the page's table is not today's."""
    text = page.read_text(encoding="utf-8")
    return _with(text, table(reference)) != text


def write(page: Path, reference: Path) -> None:
    page.write_text(_with(page.read_text(encoding="utf-8"), table(reference)), encoding="utf-8")


def _with(text: str, table: str) -> str:
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}"


def _row(reference: Path, experiment: str) -> tuple[str, ...]:
    from repro.tracking.format import experiment_name

    workload = checked(Workload, own_file(experiment)["workload"])
    paper = experiment.split("/")[0]
    value, unit, source = printed(paper, workload.place, workload.row, workload.quantity, workload.setting)
    target = number(value, unit)
    model = config.compose(experiment)["model"]["name"]
    runs = best(_trained(reference, experiment, model), workload.setting)
    shown = f"{target:g} ({workload.place if workload.place.startswith(('Figure', 'Table')) else source})"
    if not runs:
        return workload.name, shown, "none", NEVER, "-", "-", f"`repro {workload.command}`"
    first = runs[0]
    gpus = {run["hardware"].get("gpu") for run in runs} - {None}
    data = first["dataset"]["name"] + (" (stand-in)" if first["dataset"]["standin"] else "")
    place = experiment_name(first)
    return (
        workload.name,
        shown,
        data,
        ", ".join(sorted(gpus)) or NEVER,
        reached(runs, target),
        place,
        f"`repro {workload.command}`",
    )


def reached(runs: list[Mapping[str, Any]], target: float) -> str:
    """What the runs, of one variant, came to; a stand-in's accuracy is no answer."""
    first = runs[0]
    if first["dataset"]["standin"]:
        return "not judged"
    score = fmean(run["final"][run["metric"]] for run in runs)
    answer = "yes" if score >= target else "no"
    return f"{answer}: {score:.4f}, {len(runs)} seed{'s' * (len(runs) > 1)}, scale {first['scale']}"


def best(runs: Iterable[Mapping[str, Any]], setting: str) -> list[Mapping[str, Any]]:
    """The runs of one variant, testbed and scale that say most: of real data, on a GPU, the larger scale, the variant
    that the paper's number is of."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for run in runs:
        key = (
            *(not run["dataset"]["standin"], run["hardware"].get("gpu") is not None),
            *(SCALES.index(run["scale"]) if run["scale"] in SCALES else -1, run["setting"] == setting),
            *(run["kind"] == "measured", run["experiment"], run["setting"], run["testbed"]),
        )
        groups.setdefault(key, []).append(run)
    return groups[max(groups)] if groups else []


def _trained(reference: Path, experiment: str, model: str) -> list[Mapping[str, Any]]:
    """Finished runs with an accuracy, of the experiment, and of that network in paper `gpu`."""
    from repro.reports import loading

    paper, _, own = experiment.partition("/")
    found = [run for run in loading.read(paper, reference) if run["experiment"] == own]
    found += [
        run for run in loading.read("gpu", reference) if run["kind"] == "measured" and run["model"]["name"] == model
    ]
    return [run for run in found if loading.trains(run) and isinstance(run["final"].get(run["metric"]), float)]
