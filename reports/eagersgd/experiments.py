"""The experiments that the eager-SGD page shows, in its order: settings, their strategies, and what they rebuild."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repro.reports.groups import Experiment

PAPER = "eagersgd"
DEEP500, HOROVOD = "Synch-SGD (Deep500)", "Synch-SGD (Horovod)"
SOLO, MAJORITY = "eager-SGD (solo)", "eager-SGD (majority)"
BASES = (HOROVOD, DEEP500)  # what speed-ups are given over

Setting = tuple[str, Mapping[str, Any]]
_PLAIN: Mapping[str, Any] = {"codec": "none"}
_EAGER: Mapping[str, Any] = {**_PLAIN, "density": None, "late": "accumulate"}
KNOWN: Mapping[str, Setting] = {
    DEEP500: ("wfbp", _PLAIN),
    SOLO: ("eager_solo", _EAGER),
    MAJORITY: ("eager_majority", _EAGER),
}
# In what an experiment's settings may differ: one worker alone (whose modelled device may be another), other batches,
# and data as long as they need.
SCALES = ("workers", "batch", "train", "test", "checksum", "epochs", "eval_every", "device")


def _delayed(delays: tuple[int, ...], names: tuple[str, ...]) -> dict[str, Setting]:
    """The settings with each injected delay (milliseconds) in their name."""
    return {f"{name} {ms} ms": _setting(name) for ms in delays for name in names}


def _setting(name: str) -> Setting:
    return KNOWN.get(name, ("", {}))  # Horovod measured is Horovod, simulated its twin: any strategy


_MODELLED = ("simulated",)
FIG10_DELAYS, FIG11_DELAYS = (200, 300, 400), (300, 460)
FIG10 = Experiment(PAPER, "fig10", {
    **_delayed(FIG10_DELAYS, (DEEP500, SOLO)), **_delayed((200,), (MAJORITY,)),
}, varies=SCALES)  # fmt: skip
FIG10_PADDED = Experiment(PAPER, "fig10-padded", FIG10.settings, varies=SCALES)
FIG10_RATIO = Experiment(PAPER, "fig10-padded-ratio", FIG10.settings, varies=SCALES)
FIG10_SYNC = Experiment(PAPER, "fig10-sync", {name: _setting(name) for name in (DEEP500, SOLO)}, varies=SCALES)
UNSYNCHRONISED = f"{SOLO}, no synchronisation"
FIG11 = Experiment(PAPER, "fig11", {
    **_delayed(FIG11_DELAYS, (DEEP500, HOROVOD, SOLO)), UNSYNCHRONISED: ("eager_solo", {**_EAGER, "sync_epochs": None}),
}, kinds=_MODELLED, varies=SCALES)  # fmt: skip
FIG11_SYNC = Experiment(PAPER, "fig11-sync", {name: _setting(name) for name in (DEEP500, SOLO)}, kinds=_MODELLED)
FIG12 = Experiment(PAPER, "fig12", {name: _setting(name) for name in (DEEP500, SOLO, MAJORITY)}, kinds=_MODELLED)
FIG13 = Experiment(
    PAPER, "fig13", {name: _setting(name) for name in (HOROVOD, DEEP500, SOLO, MAJORITY)}, kinds=_MODELLED
)
FIG13_SCALING = Experiment(PAPER, "fig13-scaling", FIG13.settings, kinds=_MODELLED, varies=SCALES)
QUORUM = Experiment(PAPER, "quorum", {}, kinds=_MODELLED)
BEYOND = Experiment(PAPER, "beyond", {}, kinds=_MODELLED)
TRAINING = (
    FIG10,
    FIG10_PADDED,
    FIG10_RATIO,
    FIG10_SYNC,
    FIG11,
    FIG11_SYNC,
    FIG12,
    FIG13,
    FIG13_SCALING,
    QUORUM,
    BEYOND,
)
# Every setting that an experiment of these has is shown, whatever it is called.
OPEN = (FIG10_SYNC.name, FIG11_SYNC.name, FIG13_SCALING.name, QUORUM.name, BEYOND.name)

# Probes: experiment -> program.
FIG2_LENGTHS, FIG2, FIG3, FIG4, FIG9 = "fig2-lengths", "fig2-runtimes", "fig3-runtimes", "fig4-runtimes", "fig9"
PROBES = {FIG2_LENGTHS: "lengths", FIG2: "runtimes", FIG3: "runtimes", FIG4: "runtimes", FIG9: "partial_collectives"}
PROBE_KINDS = {FIG2: ("measured", "simulated"), FIG9: ("measured", "simulated")}  # the others: measured
# Results of an experiment that stand with another's.
WITH = {"fig9-measured": FIG9}
FILES = {FIG9: {"simulated": ("fig9",), "measured": ("fig9-measured",)}}


def files(name: str, kind: str = "") -> tuple[str, ...]:
    """The files of an experiment, of one kind or of all."""
    known = FILES.get(name, {})
    if kind:
        return known.get(kind, (name,))
    return tuple(file for some in known.values() for file in some) or (name,)


# Experiment -> the task as Table 1 writes it.
TASKS = {
    FIG10.name: "Hyperplane regression", FIG10_PADDED.name: "Hyperplane regression",
    FIG10_RATIO.name: "Hyperplane regression", FIG10_SYNC.name: "Hyperplane regression", FIG11.name: "ImageNet",
    FIG11_SYNC.name: "ImageNet", FIG12.name: "Cifar-10", FIG13.name: "UCF101", FIG13_SCALING.name: "UCF101",
}  # fmt: skip
# Those whose models are Table 1's, of which parameters are shown.
MODELS = (
    FIG10.name,
    FIG10_PADDED.name,
    FIG10_RATIO.name,
    FIG10_SYNC.name,
    FIG11.name,
    FIG12.name,
    FIG13.name,
    FIG13_SCALING.name,
)

SHOWN = {
    FIG2_LENGTHS: "Figure 2 (a), lengths of UCF101's videos",
    FIG2: "Figure 2 (b), runtimes of the LSTM on UCF101",
    FIG3: "Figure 3, runtimes of a Transformer",
    FIG4: "Figure 4, runtimes in the cloud",
    FIG9: "Figures 8 and 9, partial allreduce",
    FIG10.name: "Figure 10, hyperplane regression",
    FIG10_PADDED.name: "Figure 10, computation padded to the published throughput",
    FIG10_RATIO.name: "Figure 10, computation padded to the published speed-ups",
    FIG10_SYNC.name: "Section 5, what model synchronisation is worth",
    FIG11.name: "Figure 11, ResNet-50 on ImageNet, time",
    FIG11_SYNC.name: "Section 6.2.2, what model synchronisation is worth",
    FIG12.name: "Figure 12, ResNet-32 on CIFAR-10",
    FIG13.name: "Figure 13, LSTM on UCF101",
    FIG13_SCALING.name: "Section 6.3, scaling of the LSTM",
    QUORUM.name: "Quorum spectrum",
    BEYOND.name: "Beyond the paper",
}
