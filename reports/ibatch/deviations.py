"""How the runs differ from the paper's evaluation setup, as far as the summaries tell."""

from __future__ import annotations

from repro.reports.batched_pulls import NETWORKS, network, pipeline
from repro.reports.groups import Group, optimizer
from repro.reports.ibatch.experiments import SHOWN, SYNC
from repro.reports.ibatch.published import Published
from repro.reports.ibatch.results import Results
from repro.reports.probes import ProbeGroup
from repro.reports.provenance import _machine as machine

HARDWARE = "8 HP BL460c G6 blades, 10 Gbit/s, up to 72 virtual machines"


def run_deviations(found: Results, paper: Published) -> list[tuple[str, str]]:
    """(how runs differ from the paper, which runs do), each difference once."""
    lines: dict[str, list[str]] = {}
    for name, group in found.sweeps.items():
        for line in of_cluster(group, paper):
            lines.setdefault(line, []).append(f"{SHOWN[name]}, simulated")
    trained = [(name, g) for name, kinds in found.places.items() for some in kinds.values() for g in some]
    trained += [(SYNC.name, group) for group in found.sync.values()]
    for name, group in trained:
        for line in of_training(group):
            lines.setdefault(line, []).append(f"{SHOWN[name]}, {group.kind}")
    return [(line, "; ".join(dict.fromkeys(where))) for line, where in lines.items()]


def of_cluster(group: ProbeGroup, paper: Published) -> list[str]:
    """The differences of simulated clusters: counts, minibatches, data, places, rates of dropping."""
    testbeds = sorted({cell["testbed"] for cell in group.cells})
    found = [f"Hardware: modelled ({', '.join(testbeds)}, parameters below); the paper: {HARDWARE}."]
    for ending, name in NETWORKS.items():
        counts = {cell["model"].get("parameters") for cell in group.cells if network(cell) == ending} - {None}
        for count in sorted(counts):
            printed = paper.parameters(name)
            if abs(count / printed - 1) > 0.01:
                found.append(f"Model: {name} has {count:,} parameters; the paper says {1e-6 * printed:g} million.")
    batches = sorted({cell["batch"] / cell["workers"] for cell in group.cells})
    found.append(f"Minibatch of a node: {' or '.join(f'{b:g}' for b in batches)}; the paper gives none.")
    data = sorted({cell["dataset"]["name"] for cell in group.cells})
    found.append(f"Data: {', '.join(data)}; nothing is computed, only shapes and classes count.")
    iterations = sorted({cell["iterations"] for cell in group.cells})
    found.append(f"Iterations a run: {' or '.join(map(str, iterations))}; the paper says none.")
    if drops := sorted({pipeline(cell).get("drop") or 0.0 for cell in group.cells} - {0.0}):
        found.append(f"Gradients dropped: {' or '.join(f'{100 * d:g} %' for d in drops)}; the paper gives no rate.")
    return found


def of_training(group: Group) -> list[str]:
    """The differences of runs that train."""
    one, data = group.first, group.first["dataset"]
    found = []
    if data["standin"]:
        found.append(f"Data: {data['name']} stands in; accuracies are not compared.")
    else:
        found.append(f"Data: {data['name']}; the paper ILSVRC12 and ImageNet22K.")
    count = one["model"].get("parameters")
    found.append(f"Model: {one['model']['name']}" + (f", {count:,} parameters." if count else "."))
    given = {key: value for key, value in optimizer(one).items() if isinstance(value, int | float | str)}
    shown = ", ".join(f"{k} {v:g}" if isinstance(v, int | float) else f"{k} {v}" for k, v in given.items())
    found.append(f"Epochs: {one['epochs']:g} (scale {one.get('scale', 'unknown')}), {shown}; the paper gives none.")
    batches = sorted({cell["batch"] / cell["workers"] for cell in group.used()})
    found.append(f"Minibatch of a node: {' or '.join(f'{b:g}' for b in batches)}; the paper gives none.")
    if missing := [name for name in group.settings if name not in group.covered()]:
        found.append(f"Not run: {', '.join(missing)}.")
    if group.kind == "simulated":
        found.append(f"Time is modelled by the testbed {one['testbed']}; the gradients are really computed.")
        return found
    hardware, ranks = one["hardware"], max(cell.get("ranks", cell["workers"]) for cell in group.used())
    unknown = "network unknown"
    found.append(f"Hardware: {machine(one)}, {hardware.get('network') or unknown} (testbed {one['testbed']}); the "
                 f"paper: {HARDWARE}.")  # fmt: skip
    if hardware.get("cores") and not hardware.get("gpu") and ranks > hardware["cores"]:
        found.append(f"{ranks} ranks share {hardware['cores']} cores: pulls and computation compete for them.")
    return found
