"""The experiments that the PipeDream page shows, in its order: variants, their strategies, and what they rebuild."""

from __future__ import annotations

from dataclasses import dataclass

from repro.reports.groups import Experiment, planned
from repro.reports.order import shown
from repro.reports.pipelines import (
    ALLREDUCE,
    BSP,
    GIVEN,
    MODEL,
    PIPEDREAM,
    ROWS,
    SINGLE,
    STRAIGHT,
    TABLE1,
    THROUGHPUT,
    cluster,
    machines,
)

PAPER = "pipedream"
# In what variants of one experiment may differ: one machine alone, other numbers of machines with their batches, and
# data as long as they need.
SCALES = ("workers", "batch", "train", "test", "checksum", "epochs", "eval_every", "device")
_MODELLED = ("simulated",)


@dataclass(frozen=True)
class Row:
    """A row of Table 1, or a throughput that section 5.2 gives in the text alone."""

    name: str  # its experiment
    model: str  # as the paper writes it

    @property
    def machines(self) -> int:
        return machines(self.name)

    @property
    def cluster(self) -> str:
        return cluster(self.name)

    @property
    def label(self) -> str:
        """As in reference/pipedream.csv: `VGG16, 8 (A)`."""
        return f"{self.model}, {self.machines} ({self.cluster})"

    @property
    def in_table(self) -> bool:
        return self.name in TABLE1


_MODELS = {"vgg16": "VGG16", "inception": "Inception-v3", "s2vt": "S2VT", "alexnet": "AlexNet", "resnet50": "ResNet-50"}
TABLE = tuple(Row(name, _MODELS[name.split("-")[1]]) for name in ROWS)
BY_NAME = {row.name: row for row in TABLE}
# Variants of a row in the order in which they are shown.
OF_A_ROW = (SINGLE, BSP, ALLREDUCE, PIPEDREAM, GIVEN, STRAIGHT, MODEL)
CLUSTERS = {"A": "Titan X, 25 Gbit/s", "B": "V100, 10 Gbit/s"}
# Figure 1: model as in variants -> as the paper writes it; device -> what it is.
FIG1_MODELS = {"vgg16": "VGG16", "alexnet": "AlexNet", "s2vt": "S2VT", "resnet50": "ResNet-50",
               "inception_v3": "Inception-v3"}  # fmt: skip
FIG1_DEVICES = {"k80": "K80 (Kepler)", "titanx": "Titan X (Pascal)", "v100": "V100 (Volta)"}

# --- sweeps: runs of several models, numbers of machines or testbeds in one table or figure
TABLE_1, FIG1 = "table1", "fig1"
SWEEPS = {TABLE_1: ROWS, FIG1: (FIG1,)}

# --- timelines, training
DATA_PARALLEL, REPLICATED = "data-parallel", "replicated"
TIMELINES = planned(PAPER, "timelines", kinds=_MODELLED, varies=SCALES)
FIG8 = Experiment(PAPER, "fig8", {PIPEDREAM: ("pipedream", {})}, varies=SCALES)  # two files, each with its cuts
_TRAINED = (*SCALES, "optimizer")
ACCURACY = planned(PAPER, "accuracy-vgg16", varies=_TRAINED)
SEMANTICS = planned(PAPER, "semantics", varies=_TRAINED)
SEMANTICS_ALEXNET = planned(PAPER, "semantics-alexnet", varies=_TRAINED)
MEMORY = Experiment(PAPER, "memory", {}, varies=(*_TRAINED, "model", "parameters"))
TRAINING = (TIMELINES, FIG8, ACCURACY, SEMANTICS, SEMANTICS_ALEXNET, MEMORY)

# --- measured here: every machine and network is shown, claims are judged by one of them
MEASURED_VGG = planned(PAPER, "measured-vgg", kinds=("measured",), varies=_TRAINED)
MEASURED_ALEXNET = planned(PAPER, "measured-alexnet", kinds=("measured",), varies=_TRAINED)
PLACES = (MEASURED_VGG, MEASURED_ALEXNET)

# --- probes: experiment -> program
FIG5, CONFIGURATIONS, WHAT_IF = "fig5", "configurations", "what-if"
PROBES = {FIG5: "layer_sizes", CONFIGURATIONS: "configurations", WHAT_IF: "configurations"}

# Results of an experiment that stand with another's, and what to run for one whose files have other names.
WITH = {"fig8-measured": FIG8.name}
FILES = {
    TABLE_1: {"simulated": ROWS},
    FIG1: {"simulated": ("fig1-k80", "fig1-titanx", "fig1-v100")},
    FIG8.name: {"simulated": ("fig8",), "measured": ("fig8-measured",)},
}


def files(name: str, kind: str = "") -> tuple[str, ...]:
    """The files of an experiment, of one kind or of all."""
    known = FILES.get(name, {})
    if kind:
        return known.get(kind, (name,))
    return tuple(file for some in known.values() for file in some) or (name,)


SHOWN = shown(PAPER, {name: files(name) for name in FILES})
THROUGHPUTS = tuple(BY_NAME[name] for name in THROUGHPUT)
