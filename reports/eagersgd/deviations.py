"""How the runs of Figures 10 to 13 differ from Table 1 and section 6, as far as the summaries tell."""

from __future__ import annotations

from collections.abc import Mapping

from repro.reports.eagersgd.experiments import MODELS, SHOWN, TASKS
from repro.reports.eagersgd.published import Published
from repro.reports.groups import Group, optimizer
from repro.reports.provenance import _machine as machine

DATA = {"Hyperplane regression": "the hyperplane", "Cifar-10": "CIFAR-10", "ImageNet": "ImageNet", "UCF101": "UCF101"}


def run_deviations(training: Mapping[str, Mapping[str, Group]], paper: Published) -> list[tuple[str, str]]:
    """(how runs differ from the paper, which runs do), each difference once."""
    found: dict[str, list[str]] = {}
    for name, groups in training.items():
        if name not in TASKS:
            continue
        for kind, group in groups.items():
            for line in of_group(group, TASKS[name], paper, name in MODELS):
                found.setdefault(line, []).append(f"{SHOWN[name]}, {kind}")
    return [(line, "; ".join(where)) for line, where in found.items()]


def of_group(group: Group, task: str, paper: Published, same_model: bool) -> list[str]:
    """The differences of one experiment and kind. same_model: it is meant to be Table 1's."""
    several = [cell for cell in group.used() if cell["workers"] > 1] or group.used()
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
        values = sorted({cell[name] for cell in several})
        if values != [stated[key]]:
            shown = " or ".join(f"{value:,}" for value in values)
            found.append(f"{'Ranks' if name == 'workers' else 'Global batch'}: {shown}; the paper {stated[key]:,}.")
    count, printed = one["model"].get("parameters"), paper.table1(task, "parameters")
    if count is not None and count != printed:
        what = "" if same_model else f" ({one['model']['name']} stands in)"
        found.append(f"Model: {count:,} parameters{what}; the paper {printed:,}.")
    if not group.timing_only:
        given = {key: value for key, value in optimizer(one).items() if isinstance(value, int | float | str)}
        shown = ", ".join(f"{k} {v:g}" if isinstance(v, int | float) else f"{k} {v}" for k, v in given.items())
        found.append(f"Optimizer: {shown}; the paper gives none of these.")
        counts = sorted({len(group.runs(name)) for name in group.covered()})
        some = " to ".join(str(n) for n in dict.fromkeys((counts[0], counts[-1])))
        found.append(f"Seeds: {some} a setting; the paper trains three (ResNet-50) or four times (UCF101).")
    if missing := [name for name in group.settings if name not in group.covered()]:
        found.append(f"Not run: {', '.join(missing)}.")
    return [*found, *_place(group, paper)]


def _place(group: Group, paper: Published) -> list[str]:
    one = group.first
    if group.kind == "simulated":
        what = "nothing is computed" if group.timing_only else "the gradients are really computed"
        return [f"Time is modelled by the testbed {one['testbed']} (parameters below); {what}."]
    hardware = one["hardware"]
    ranks = max(cell.get("ranks", cell["workers"]) for cell in group.used())
    network = f"{hardware.get('network') or 'network unknown'} (testbed {one['testbed']})"
    theirs = paper.text("Hardware", "all", "all", "machine")
    found = [f"Hardware: {machine(one)}, {network}; the paper: {theirs}."]
    if hardware.get("cores") and not hardware.get("gpu") and ranks > hardware["cores"]:
        found.append(f"{ranks} ranks share {hardware['cores']} cores: computation and communication compete for them.")
    return found
