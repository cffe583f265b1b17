"""The experiments that the eager-SGD page shows, in its order: variants, their strategies, and what they rebuild."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repro.reports.groups import Experiment
from repro.reports.order import shown

PAPER = "eagersgd"
DEEP500, HOROVOD = "Synch-SGD (Deep500)", "Synch-SGD (Horovod)"
SOLO, MAJORITY = "eager-SGD (solo)", "eager-SGD (majority)"
BASES = (HOROVOD, DEEP500)  # what speed-ups are given over

Variant = tuple[str, Mapping[str, Any]]
_PLAIN: Mapping[str, Any] = {"codec": "none"}
_EAGER: Mapping[str, Any] = {**_PLAIN, "density": None, "late": "accumulate"}
KNOWN: Mapping[str, Variant] = {
    DEEP500: ("wfbp", _PLAIN),
    SOLO: ("eager_solo", _EAGER),
    MAJORITY: ("eager_majority", _EAGER),
}
# In what an experiment's variants may differ: one worker alone (whose modelled device may be another), other batches,
# and data as long as they need.
SCALES = ("workers", "batch", "train", "test", "checksum", "epochs", "eval_every", "device")


def _delayed(delays: tuple[int, ...], names: tuple[str, ...]) -> dict[str, Variant]:
    """The variants with each injected delay (milliseconds) in their name."""
    return {f"{name} {ms} ms": _variant(name) for ms in delays for name in names}


def _variant(name: str) -> Variant:
    return KNOWN.get(name, ("", {}))  # Horovod measured is Horovod, simulated its twin: any strategy


_MODELLED = ("simulated",)
FIG10_DELAYS, FIG11_DELAYS = (200, 300, 400), (300, 460)
FIG10 = Experiment(PAPER, "fig10", {
    **_delayed(FIG10_DELAYS, (DEEP500, SOLO)), **_delayed((200,), (MAJORITY,)),
}, varies=SCALES)  # fmt: skip
FIG10_PADDED = Experiment(PAPER, "fig10-padded", FIG10.variants, varies=SCALES)
FIG10_RATIO = Experiment(PAPER, "fig10-padded-ratio", FIG10.variants, varies=SCALES)
FIG10_SYNC = Experiment(PAPER, "fig10-sync", {name: _variant(name) for name in (DEEP500, SOLO)}, varies=SCALES)
UNSYNCHRONISED = f"{SOLO}, no synchronisation"
FIG11 = Experiment(PAPER, "fig11", {
    **_delayed(FIG11_DELAYS, (DEEP500, HOROVOD, SOLO)), UNSYNCHRONISED: ("eager_solo", {**_EAGER, "sync_epochs": None}),
}, kinds=_MODELLED, varies=SCALES)  # fmt: skip
FIG11_SYNC = Experiment(PAPER, "fig11-sync", {name: _variant(name) for name in (DEEP500, SOLO)}, kinds=_MODELLED)
FIG12 = Experiment(PAPER, "fig12", {name: _variant(name) for name in (DEEP500, SOLO, MAJORITY)}, kinds=_MODELLED)
FIG13 = Experiment(
    PAPER, "fig13", {name: _variant(name) for name in (HOROVOD, DEEP500, SOLO, MAJORITY)}, kinds=_MODELLED
)
FIG13_SCALING = Experiment(PAPER, "fig13-scaling", FIG13.variants, kinds=_MODELLED, varies=SCALES)
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
# Every variant that an experiment of these has is shown, whatever it is called.
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

SHOWN = shown(PAPER, {name: files(name) for name in FILES})
