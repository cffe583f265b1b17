"""The experiments that the iBatch page shows, in its order: what they are, their files and their settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repro.reports import factors
from repro.reports.batched_pulls import DEFAULT, IBATCH, LAYERWISE, NETWORKS
from repro.reports.groups import Experiment

PAPER = "ibatch"
Setting = tuple[str, Mapping[str, Any]]
ANY: Setting = ("", {})
STRATEGIES = {DEFAULT: "ps_default", LAYERWISE: "ps_layerwise", IBATCH: "ibatch"}

# --- simulated clusters: cells of several networks, sizes and settings in one figure, a testbed each
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
# In what the settings of a measured experiment differ: the numbers of workers with their batches and data.
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


_ON = ", implied testbed"
SHOWN = {
    FIG3: "Figures 3 and 4, case study",
    FIG3 + IMPLIED: f"Figures 3 and 4, case study{_ON}",
    FIG5: "Figures 5 and 7, scaling",
    FIG5 + IMPLIED: f"Figures 5 and 7, scaling{_ON}",
    FIG6: "Figure 6, scaling with gradient dropping",
    FIG6 + IMPLIED: f"Figure 6, scaling with gradient dropping{_ON}",
    RANDOM: "Greedy and exact, random profiles",
    **{experiment.name: f"Measured here, {WHAT[experiment.name]}" for experiment in PLACES},
    BEYOND: "Beyond the paper: pushes, placement, exact",
    BEYOND + IMPLIED: f"Beyond the paper: pushes, placement, exact{_ON}",
    SYNC.name: "Beyond the paper: BSP, SSP, ASP",
}
