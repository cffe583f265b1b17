"""How the runs of Figures 10 to 13 differ from Table 1 and section 6, as far as the summaries tell."""

from __future__ import annotations

from collections.abc import Mapping

from repro.reports.deviations import each_once, measured, not_run, optimized
from repro.reports.eagersgd.experiments import MODELS, SHOWN, TASKS
from repro.reports.eagersgd.published import Published
from repro.reports.groups import Group

DATA = {"Hyperplane regression": "the hyperplane", "Cifar-10": "CIFAR-10", "ImageNet": "ImageNet", "UCF101": "UCF101"}


def run_deviations(training: Mapping[str, Mapping[str, Group]], paper: Published) -> list[tuple[str, str]]:
    """(how runs differ from the paper, which runs do), each difference once."""
    return each_once(
        (line, f"{SHOWN[name]}, {kind}")
        for name, groups in training.items()
        if name in TASKS
        for kind, group in groups.items()
        for line in of_group(group, TASKS[name], paper, name in MODELS)
    )


def of_group(group: Group, task: str, paper: Published, same_model: bool) -> list[str]:
    """The differences of one experiment and kind. same_model: it is meant to be Table 1's."""
    several = [run for run in group.used() if run["workers"] > 1] or group.used()
    one, data = several[0], several[0]["dataset"]
    stated = {key: paper.table1(task, key) for key in ("training samples", "batch size", "epochs", "processes")}
    found = []
    if data["standin"]:
        found.append(f"Data: {data['name']} stands in for {DATA[task]}; accuracies are not compared.")
    if data.get("train") is not None and data["train"] != stated["training samples"]:
        found.append(
            f"Data: {data['train']:,} training examples of {data['name']}; the paper {stated['training samples']:,}."
        )
    if one["epochs"] != stated["epochs"]:
        found.append(f"Epochs: {one['epochs']:g} (scale {one.get('scale', 'unknown')}); the paper {stated['epochs']}.")
    for name, key in (("workers", "processes"), ("batch", "batch size")):
        values = sorted({run[name] for run in several})
        if values != [stated[key]]:
            shown = " or ".join(f"{value:,}" for value in values)
            found.append(f"{'Ranks' if name == 'workers' else 'Global batch'}: {shown}; the paper {stated[key]:,}.")
    count, printed = one["model"].get("parameters"), paper.table1(task, "parameters")
    if count is not None and count != printed:
        what = "" if same_model else f" ({one['model']['name']} stands in)"
        found.append(f"Model: {count:,} parameters{what}; the paper {printed:,}.")
    if not group.timing_only:
        found.append(f"Optimizer: {optimized(one)}; the paper gives none of these.")
        counts = sorted({len(group.runs(name)) for name in group.covered()})
        some = " to ".join(str(n) for n in dict.fromkeys((counts[0], counts[-1])))
        found.append(f"Seeds: {some} a variant; the paper trains three (ResNet-50) or four times (UCF101).")
    return [*found, *not_run(group), *_place(group, paper)]


def _place(group: Group, paper: Published) -> list[str]:
    one = group.first
    if group.kind == "simulated":
        what = "nothing is computed" if group.timing_only else "the gradients are really computed"
        return [f"Time is modelled by the testbed {one['testbed']} (parameters below); {what}."]
    return measured(group, paper.text("Hardware", "all", "all", "machine"))
