"""The experiments that the gTop-k page shows, in its order: variants, their options, and what the paper states."""

from __future__ import annotations

from repro.reports.groups import Experiment, planned
from repro.reports.order import shown

PAPER = "gtopk"
BASE = "Dense"

FIG5_VGG16 = planned(PAPER, "fig5-vgg16")
FIG5_RESNET20 = planned(PAPER, "fig5-resnet20")
FIG6_ALEXNET = planned(PAPER, "fig6-alexnet", kinds=("measured",))
FIG6_RESNET50 = planned(PAPER, "fig6-resnet50", kinds=("measured",))
FIG7_LSTM = planned(PAPER, "fig7-lstm", kinds=("measured",))
FIG12_VGG16 = planned(PAPER, "fig12-vgg16", kinds=("simulated",))
FIG12_RESNET20 = planned(PAPER, "fig12-resnet20", kinds=("simulated",))
CONSERVATION = planned(PAPER, "conservation", kinds=("simulated",))
BEYOND = planned(PAPER, "beyond", kinds=("simulated",))


def baseline(experiment: Experiment) -> str:
    """What an experiment's variants are compared with."""
    return BASE if BASE in experiment.variants else "gTop-k"


# Experiment -> the model as the paper writes it.
CONVERGENCE = {
    FIG5_VGG16.name: "VGG-16", FIG5_RESNET20.name: "ResNet-20", FIG6_ALEXNET.name: "AlexNet",
    FIG6_RESNET50.name: "ResNet-50", FIG7_LSTM.name: "LSTM-PTB", FIG12_VGG16.name: "VGG-16",
    FIG12_RESNET20.name: "ResNet-20", CONSERVATION.name: "ResNet-20", BEYOND.name: "ResNet-20",
}  # fmt: skip
TRAINING = (FIG5_VGG16, FIG5_RESNET20, FIG6_ALEXNET, FIG6_RESNET50, FIG7_LSTM, FIG12_VGG16, FIG12_RESNET20,
            CONSERVATION, BEYOND)  # fmt: skip

# Experiments whose runs differ in model, world size or message and stand in one figure: name -> the program.
FIG8, FIG9, FIG10, FIG10_MEASURED, FIG11 = "fig8", "fig9", "fig10", "fig10-measured", "fig11"
SWEEPS = {FIG8: "p2p", FIG9: "sparse_collectives", FIG10: "train", FIG10_MEASURED: "validation", FIG11: "selection"}
SWEEP_KINDS = {
    FIG8: ("measured", "simulated"), FIG9: ("measured", "simulated"), FIG10: ("simulated",),
    FIG10_MEASURED: ("measured",), FIG11: ("measured",),
}  # fmt: skip
# What to run for an experiment whose files have other names, by kind.
FILES = {
    FIG9: {"simulated": ("fig9",), "measured": ("fig9-measured",)},
    FIG10: {"simulated": ("fig10-vgg16", "fig10-resnet20", "fig10-alexnet", "fig10-resnet50")},
}


def files(name: str, kind: str = "") -> tuple[str, ...]:
    """The files of an experiment, of one kind or of all."""
    known = FILES.get(name, {})
    if kind:
        return known.get(kind, (name,))
    return tuple(file for some in known.values() for file in some) or (name,)


# Where a claim is judged if an experiment was measured on several testbeds: the paper's network is 1 Gbit/s.
PREFERRED = "shaped/1g"

# Trainable parameters of the models here; the paper states none (Figure 9 takes 100 MB for ResNet-50).
PARAMETERS = {"VGG-16": 14_728_266, "ResNet-20": 269_722, "AlexNet": 60_965_224, "ResNet-50": 25_557_032}
DENSITY = 0.001  # Figures 9 and 10
WORLDS = (1, 2, 4, 8, 16, 32)

# The claims that the paper is known for: which of them survive stands at the top of the page.
HEADLINES = (
    "over-dense-least", "over-dense-most", "over-dense-average", "over-topk-least", "over-topk-most",
    "over-topk-average", "resnet20-efficiency", "resnet50-efficiency", "vgg16-low-density-loss",
    "vgg16-low-density-top1", "resnet20-low-density-loss", "resnet20-low-density-top1", "resnet20-loss", "vgg16-loss",
)  # fmt: skip

SHOWN = shown(PAPER, {name: files(name) for name in FILES})
