"""What the eager-SGD page shows: its experiments, in its order, with the variants that their files give them; and the
paper's own numbers (reference/eagersgd.csv), looked up by place, row, variant and quantity."""

from __future__ import annotations

from repro.answers.pages.reference import quoted
from repro.answers.tables import factors
from repro.answers.tables.groups import Experiment, widened
from repro.answers.tables.results import Read, Results
from repro.reports.eagersgd import derived  # noqa: F401  adds to the functions that claims name

PAPER = "eagersgd"
DEEP500, HOROVOD = "Synch-SGD (Deep500)", "Synch-SGD (Horovod)"
SOLO, MAJORITY = "eager-SGD (solo)", "eager-SGD (majority)"

# In what an experiment's variants may differ where one worker alone stands beside the others: its modelled device may
# be another, and its data as long as it needs.
SCALES = ("workers", "batch", "train", "test", "checksum", "epochs", "eval_every", "device")


def _experiment(name: str, varies: tuple[str, ...] = ()) -> Experiment:
    """Horovod is itself where it is measured and its twin where it is simulated, so any strategy may be it."""
    variants = factors.variants(PAPER, name)
    named = {label: ("" if HOROVOD in label else strategy, of) for label, (strategy, of) in variants.items()}
    return Experiment(PAPER, name, named, varies=varies)


FIG10, FIG10_PADDED = _experiment("fig10", SCALES), _experiment("fig10-padded", SCALES)
FIG10_RATIO, FIG10_SYNC = _experiment("fig10-padded-ratio", SCALES), _experiment("fig10-sync")
FIG11, FIG11_SYNC = _experiment("fig11", SCALES), _experiment("fig11-sync")
FIG12, FIG13, FIG13_SCALING = _experiment("fig12"), _experiment("fig13"), _experiment("fig13-scaling", SCALES)
QUORUM, BEYOND = _experiment("quorum"), _experiment("beyond")
TRAINING = (FIG10, FIG10_PADDED, FIG10_RATIO, FIG10_SYNC, FIG11, FIG11_SYNC, FIG12, FIG13, FIG13_SCALING, QUORUM,
            BEYOND)  # fmt: skip

# Probes: experiment -> program.
FIG2_LENGTHS, FIG2, FIG3, FIG4, FIG9 = "fig2-lengths", "fig2-runtimes", "fig3-runtimes", "fig4-runtimes", "fig9"
PROBES = {FIG2_LENGTHS: "lengths", FIG2: "runtimes", FIG3: "runtimes", FIG4: "runtimes", FIG9: "partial_collectives"}
WITH = {"fig9-measured": FIG9}  # results of an experiment that stand with another's

# Experiment of Table 1's model at full size -> the task as Table 1 writes it.
TASKS = {FIG10.name: "Hyperplane regression", FIG12.name: "Cifar-10", FIG11.name: "ImageNet",
         FIG13_SCALING.name: "UCF101"}  # fmt: skip


def gather(runs: Read) -> Results:
    """The groups that the page shows, strategies of one's own beside the paper's, and all others."""
    found = Results()
    found.train([widened(one, runs.trained) for one in TRAINING], runs.trained)
    found.probe(PROBES, [s | {"experiment": WITH.get(s["experiment"], s["experiment"])} for s in runs.probed])
    return found


SPEEDUP = "speed-up over "  # a quantity; what it is over comes after it


def of_table1(task: str, quantity: str) -> int:
    """A number of the paper's Table 1."""
    return int(quoted(PAPER).text("Table 1", task, "all", quantity))
