"""The experiments that the iBatch page shows, in its order: what they are, their files and their variants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repro.reports import factors
from repro.reports.batched_pulls import DEFAULT, IBATCH, LAYERWISE, NETWORKS
from repro.reports.groups import Experiment
from repro.reports.order import shown

PAPER = "ibatch"
Variant = tuple[str, Mapping[str, Any]]
ANY: Variant = ("", {})
STRATEGIES = {DEFAULT: "ps_default", LAYERWISE: "ps_layerwise", IBATCH: "ibatch"}

# --- simulated clusters: runs of several networks, sizes and variants in one figure, a testbed each
FIG3, FIG5, FIG6, BEYOND = "fig3", "fig5", "fig6", "beyond"
IMPLIED = "-implied"  # after a name: on the testbed whose computation follows from one of the paper's results
CLUSTERS = (FIG3, FIG5, FIG6, BEYOND)
SWEEPS = {f"{name}{of}": (name, bool(of)) for name in CLUSTERS for of in ("", IMPLIED)}
SIZES = (6, 12, 24, 30, 48, 72)
MEDIUM, LARGEST = 30, 72
OF_FIG6 = ("inception", "vgg19")
OF_FIG7 = ("Inception-V3", "VGG19")
# --- training
SYNC = Experiment(PAPER, "sync", {name: (IBATCH, {}) for name in ("bsp", "ssp-1", "ssp-3", "asp")},
                  kinds=("simulated",))  # fmt: skip
# In what the variants of a measured experiment differ: the numbers of workers with their batches and data.
SCALES = ("workers", "batch", "train", "test", "checksum")
MEASURED = "measured"  # the figure of both
_HERE = {label: (STRATEGIES[of["method"]], {}) for label, of in factors.known(PAPER, MEASURED).items()}
MEASURED_VGG = Experiment(PAPER, "measured-vgg", _HERE, kinds=("measured",), varies=SCALES)
MEASURED_GOOGLENET = Experiment(PAPER, "measured-googlenet", _HERE, kinds=("measured",), varies=SCALES)
PLACES = (MEASURED_VGG, MEASURED_GOOGLENET)
WHAT = {MEASURED_VGG.name: "VGG-style network", MEASURED_GOOGLENET.name: "GoogLeNet-style network"}

# --- a probe: experiment -> program
RANDOM = "random-profiles"
PROBES = {RANDOM: "batching"}
WITH = {"gap": RANDOM}  # the figure that its file names

FILES = {
    FIG5: tuple(f"{FIG5}-{ending}" for ending in NETWORKS),
    FIG6: tuple(f"{FIG6}-{ending}" for ending in OF_FIG6),
}


def files(name: str) -> tuple[str, ...]:
    """The files of an experiment."""
    plain = name.removesuffix(IMPLIED)
    return FILES.get(plain, (plain,))


SHOWN = {
    name + of: f"{what}, implied testbed" if of else what
    for name, what in shown(PAPER, FILES).items()
    for of in (("", IMPLIED) if name in CLUSTERS else ("",))
}
