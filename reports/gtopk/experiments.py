"""The experiments that the gTop-k page shows: variants and their options, and what the paper states."""

from __future__ import annotations

from repro.reports.groups import planned

PAPER = "gtopk"

FIG5_VGG16 = planned(PAPER, "fig5-vgg16")
FIG5_RESNET20 = planned(PAPER, "fig5-resnet20")
FIG7_LSTM = planned(PAPER, "fig7-lstm", kinds=("measured",))
CONSERVATION = planned(PAPER, "conservation", kinds=("simulated",))
TRAINING = (
    FIG5_VGG16,
    FIG5_RESNET20,
    planned(PAPER, "fig6-alexnet", kinds=("measured",)),
    planned(PAPER, "fig6-resnet50", kinds=("measured",)),
    FIG7_LSTM,
    planned(PAPER, "fig12-vgg16", kinds=("simulated",)),
    planned(PAPER, "fig12-resnet20", kinds=("simulated",)),
    CONSERVATION,
    planned(PAPER, "beyond", kinds=("simulated",)),
)

# Experiments whose runs differ in model, world size or message and stand in one figure: name -> the program.
FIG8, FIG9, FIG10, FIG10_LINKS, FIG11 = "fig8", "fig9", "fig10", "fig10-measured", "fig11"
SWEEPS = {FIG8: "p2p", FIG9: "sparse_collectives", FIG10: "train", FIG10_LINKS: "validation", FIG11: "selection"}
PREFERRED = "shaped/1g"  # where a claim is judged if a sweep was measured on several testbeds: the paper's network

# Trainable parameters of the models here; the paper states none (Figure 9 takes 100 MB for ResNet-50).
PARAMETERS = {"VGG-16": 14_728_266, "ResNet-20": 269_722, "AlexNet": 60_965_224, "ResNet-50": 25_557_032}
DENSITY = 0.001  # Figures 9 and 10
WORLDS = (1, 2, 4, 8, 16, 32)
MOST = WORLDS[-1]  # workers of Table VII
