"""How the runs differ from section 5.1, as far as the summaries tell."""

from __future__ import annotations

from repro.reports.deviations import Stated, each_once, of_training
from repro.reports.groups import Group
from repro.reports.pipedream.experiments import FIG8, MEMORY, SHOWN, TABLE, TABLE_1, TIMELINES
from repro.reports.pipedream.published import Published
from repro.reports.pipedream.results import Results
from repro.reports.probes import ProbeGroup

ILLUSTRATIONS = (TIMELINES.name, FIG8.name, MEMORY.name)


STATED = Stated(
    data="ILSVRC12 and MSVD", minibatch="32 (S2VT 80)", node="machine",
    epochs="trains to the advertised accuracy, momentum 0.9 and an initial learning rate of 0.01",
)  # fmt: skip


def run_deviations(found: Results, paper: Published) -> list[tuple[str, str]]:
    """(how runs differ from the paper, which runs do), each difference once."""
    groups: list[tuple[str, Group]] = [
        (name, group) for name, kinds in found.training.items() if name not in ILLUSTRATIONS for group in kinds.values()
    ]
    groups += [(name, g) for name, kinds in found.places.items() for some in kinds.values() for g in some]
    told = [
        (line, f"{SHOWN[name]}, {group.kind}") for name, group in groups for line in of_training(group, STATED, True)
    ]
    table1 = of_rows(rows, paper) if (rows := found.sweeps.get(TABLE_1)) else []
    return each_once([*told, *((line, f"{SHOWN[TABLE_1]}, simulated") for line in table1)])


def of_rows(group: ProbeGroup, paper: Published) -> list[str]:
    """The differences of Table 1's rows: sizes of models and minibatches."""
    found = ["Time is modelled by the testbeds (parameters below); nothing is computed, so accuracies are not reached."]
    models = {row.name: row.model for row in TABLE}
    counts: dict[tuple[str, int], None] = {}
    for run in group.summaries:
        if (count := run["model"].get("parameters")) is not None:
            counts.setdefault((models[run["experiment"]], count))
        printed = paper.maybe("Models", models[run["experiment"]], "all", "minibatch of a machine")
        own = run["batch"] / run["workers"]
        if printed and own != float(printed):
            found.append(f"Minibatch of a machine: {own:g} of {models[run['experiment']]}; the paper {printed}.")
    for model, count in counts:
        printed = paper.maybe("Models", model, "all", "size")
        if printed:
            size = f"{count:,} parameters, {4e-6 * count:.0f} MB"
            found.append(f"Model: {model} has {size}; the paper says {printed} MB.")
    return list(dict.fromkeys(found))
