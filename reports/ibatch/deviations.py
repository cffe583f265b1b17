"""How the runs differ from the paper's evaluation setup, as far as the summaries tell."""

from __future__ import annotations

from repro.reports.batched_pulls import NETWORKS, network, pipeline
from repro.reports.deviations import Stated, each_once, of_training
from repro.reports.ibatch.experiments import SHOWN, SYNC
from repro.reports.ibatch.published import Published
from repro.reports.ibatch.results import Results
from repro.reports.probes import ProbeGroup

HARDWARE = "8 HP BL460c G6 blades, 10 Gbit/s, up to 72 virtual machines"


STATED = Stated(
    data="ILSVRC12 and ImageNet22K", epochs="gives none", minibatch="gives none", node="node", hardware=HARDWARE,
    rivals="pulls and computation",
)  # fmt: skip


def run_deviations(found: Results, paper: Published) -> list[tuple[str, str]]:
    """(how runs differ from the paper, which runs do), each difference once."""
    clusters = [
        (line, f"{SHOWN[name]}, simulated") for name, group in found.sweeps.items() for line in of_cluster(group, paper)
    ]
    trained = [(name, g) for name, kinds in found.places.items() for some in kinds.values() for g in some]
    trained += [(SYNC.name, group) for group in found.sync.values()]
    told = [(line, f"{SHOWN[name]}, {group.kind}") for name, group in trained for line in of_training(group, STATED)]
    return each_once([*clusters, *told])


def of_cluster(group: ProbeGroup, paper: Published) -> list[str]:
    """The differences of simulated clusters: counts, minibatches, data, places, rates of dropping."""
    testbeds = sorted({run["testbed"] for run in group.summaries})
    found = [f"Hardware: modelled ({', '.join(testbeds)}, parameters below); the paper: {HARDWARE}."]
    for ending, name in NETWORKS.items():
        counts = {run["model"].get("parameters") for run in group.summaries if network(run) == ending} - {None}
        for count in sorted(counts):
            printed = paper.parameters(name)
            if abs(count / printed - 1) > 0.01:
                found.append(f"Model: {name} has {count:,} parameters; the paper says {1e-6 * printed:g} million.")
    batches = sorted({run["batch"] / run["workers"] for run in group.summaries})
    found.append(f"Minibatch of a node: {' or '.join(f'{b:g}' for b in batches)}; the paper gives none.")
    data = sorted({run["dataset"]["name"] for run in group.summaries})
    found.append(f"Data: {', '.join(data)}; nothing is computed, only shapes and classes count.")
    iterations = sorted({run["iterations"] for run in group.summaries})
    found.append(f"Iterations a run: {' or '.join(map(str, iterations))}; the paper says none.")
    if drops := sorted({pipeline(run).get("drop") or 0.0 for run in group.summaries} - {0.0}):
        found.append(f"Gradients dropped: {' or '.join(f'{100 * d:g} %' for d in drops)}; the paper gives no rate.")
    return found
