"""Which results the PipeDream page shows, and which speak to a claim."""

from __future__ import annotations

from repro.answers.tables.groups import Experiment, planned, widened
from repro.answers.tables.probes import AnyGroup, ProbeGroup, sweep
from repro.answers.tables.results import Read, Results
from repro.experiment.config import own_file
from repro.experiment.papers import entries
from repro.reports.pipedream import derived, derived_schedules, derived_training  # noqa: F401  they register
from repro.reports.pipedream.stages import PIPEDREAM

PAPER = "pipedream"
# A row of Table 1, or a throughput that section 5.2 gives in the text alone, is an experiment of its own: one of which
# the paper prints numbers -> the row as the paper calls it.
ROWS = {
    entry.experiment: quoted[0]["row"]
    for entry in entries(PAPER)
    if (quoted := own_file(f"{PAPER}/{entry.experiment}").get("quoted"))
}
TABLE_1, FIG1, AT_ENDS, ACCURACY = "table1", "fig1", "inputs", "accuracy-vgg16"
# In what variants of one experiment may differ: one machine alone, other numbers of machines with their batches, and
# data as long as they need.
SCALES = ("workers", "batch", "train", "test", "checksum", "epochs", "eval_every", "device")
TRAINED = (*SCALES, "optimizer")
FIG8 = Experiment(PAPER, "fig8", {PIPEDREAM: ("pipedream", {})}, varies=SCALES)  # two files, each with its cuts
WITH = {"fig8-measured": FIG8.name}  # results of an experiment that stand with another's
TRAINING = (
    planned(PAPER, "timelines", varies=SCALES),
    FIG8,
    *(planned(PAPER, name, varies=TRAINED) for name in (ACCURACY, "semantics", "semantics-alexnet")),
    Experiment(PAPER, "memory", {}, varies=(*TRAINED, "model", "parameters")),
    *(planned(PAPER, f"measured-{name}", varies=TRAINED) for name in ("vgg", "alexnet")),
)
PROBES = {"fig5": "layer_sizes", "configurations": "configurations", "what-if": "configurations"}  # -> its program


def gather(read: Read) -> Results:
    """The groups that the page shows, and all others; claims on a row of Table 1 are judged by its own runs."""
    summaries = [run | {"experiment": WITH.get(run["experiment"], run["experiment"])} for run in read.trained]
    found = Results()
    found.show(TABLE_1, *sweep([run for run in summaries if run["experiment"] in ROWS]))
    found.show(FIG1, *sweep([run for run in summaries if run["experiment"] == FIG1]))
    if at_ends := [run for runs in read.ends.values() for run in runs]:
        found.shown[AT_ENDS, "simulated"] = ProbeGroup((), tuple(at_ends))
    plain = [run for run in summaries if run["experiment"] not in (*ROWS, FIG1)]
    found.train([widened(experiment, plain) for experiment in TRAINING], plain)
    found.probe(PROBES, read.probed)
    for kind, table1 in found.of(TABLE_1).items():
        for row in ROWS:
            if mine := tuple(run for run in table1.used() if run["experiment"] == row):
                found.judged[row, kind] = ProbeGroup((), mine)
    simulated, trained = found.find(TABLE_1, "simulated"), found.find(ACCURACY, "simulated")
    runs = simulated.used() if simulated else []
    if trained and runs:  # epochs of the accuracy runs and times of epochs of Table 1's
        found.judged[ACCURACY, "simulated"] = ProbeGroup((), (*trained.used(), *runs))
    return found


def rows_of(found: Results, kind: str = "simulated") -> dict[str, AnyGroup]:
    """Row of Table 1 -> its runs of a kind."""
    return {row: found.judged[row, kind] for row in ROWS if (row, kind) in found.judged}
