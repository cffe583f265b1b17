"""How the runs differ from section 5.1, as far as the summaries tell."""

from __future__ import annotations

from repro.reports.groups import Group, optimizer
from repro.reports.pipedream.experiments import FIG8, MEMORY, SHOWN, TABLE, TABLE_1, TIMELINES
from repro.reports.pipedream.published import Published
from repro.reports.pipedream.results import Results
from repro.reports.probes import ProbeGroup
from repro.reports.provenance import _machine as machine

ILLUSTRATIONS = (TIMELINES.name, FIG8.name, MEMORY.name)


def run_deviations(found: Results, paper: Published) -> list[tuple[str, str]]:
    """(how runs differ from the paper, which runs do), each difference once."""
    lines: dict[str, list[str]] = {}
    groups: list[tuple[str, Group]] = [
        (name, group) for name, kinds in found.training.items() if name not in ILLUSTRATIONS for group in kinds.values()
    ]
    groups += [(name, g) for name, kinds in found.places.items() for some in kinds.values() for g in some]
    for name, group in groups:
        for line in of_group(group):
            lines.setdefault(line, []).append(f"{SHOWN[name]}, {group.kind}")
    if rows := found.sweeps.get(TABLE_1):
        for line in of_rows(rows, paper):
            lines.setdefault(line, []).append(f"{SHOWN[TABLE_1]}, simulated")
    return [(line, "; ".join(dict.fromkeys(where))) for line, where in lines.items()]


def of_group(group: Group) -> list[str]:
    """The differences of a group of training runs from VGG16 on ILSVRC12."""
    one, data = group.first, group.first["dataset"]
    found = []
    if data["standin"]:
        found.append(f"Data: {data['name']} stands in; accuracies are not compared.")
    else:
        size = f", {data['train']:,} training examples" if data.get("train") is not None else ""
        found.append(f"Data: {data['name']}{size}; the paper ILSVRC12 and MSVD.")
    count = one["model"].get("parameters")
    found.append(f"Model: {one['model']['name']}" + (f", {count:,} parameters." if count else "."))
    if group.timing_only:
        found.append("Time only: nothing was computed.")
    else:
        given = {key: value for key, value in optimizer(one).items() if isinstance(value, int | float | str)}
        shown = ", ".join(f"{k} {v:g}" if isinstance(v, int | float) else f"{k} {v}" for k, v in given.items())
        found.append(f"Epochs: {one['epochs']:g} (scale {one.get('scale', 'unknown')}), {shown}; the paper trains to "
                     "the advertised accuracy, momentum 0.9 and an initial learning rate of 0.01.")  # fmt: skip
    batches = sorted({cell["batch"] / cell["workers"] for cell in group.used()})
    found.append(f"Minibatch of a machine: {' or '.join(f'{b:g}' for b in batches)}; the paper 32 (S2VT 80).")
    if missing := [name for name in group.settings if name not in group.covered()]:
        found.append(f"Not run: {', '.join(missing)}.")
    if group.kind == "simulated":
        found.append(f"Time is modelled by the testbed {one['testbed']}; the gradients are really computed.")
        return found
    hardware, ranks = one["hardware"], max(cell.get("ranks", cell["workers"]) for cell in group.used())
    network = hardware.get("network") or "network unknown"
    found.append(f"Hardware: {machine(one)}, {network} (testbed {one['testbed']}).")
    if hardware.get("cores") and not hardware.get("gpu") and ranks > hardware["cores"]:
        found.append(f"{ranks} ranks share {hardware['cores']} cores: computation and communication compete for them.")
    return found


def of_rows(group: ProbeGroup, paper: Published) -> list[str]:
    """The differences of Table 1's rows: sizes of models and minibatches."""
    found = ["Time is modelled by the testbeds (parameters below); nothing is computed, so accuracies are not reached."]
    models = {row.name: row.model for row in TABLE}
    counts: dict[tuple[str, int], None] = {}
    for cell in group.cells:
        if (count := cell["model"].get("parameters")) is not None:
            counts.setdefault((models[cell["experiment"]], count))
        printed = paper.maybe("Models", models[cell["experiment"]], "all", "minibatch of a machine")
        own = cell["batch"] / cell["workers"]
        if printed and own != float(printed):
            found.append(f"Minibatch of a machine: {own:g} of {models[cell['experiment']]}; the paper {printed}.")
    for model, count in counts:
        printed = paper.maybe("Models", model, "all", "size")
        if printed:
            size = f"{count:,} parameters, {4e-6 * count:.0f} MB"
            found.append(f"Model: {model} has {size}; the paper says {printed} MB.")
    return list(dict.fromkeys(found))
