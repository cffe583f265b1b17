"""Made-up runs behind the page of Figure 4's row AlexNet: simulated at every end of an input, emulated, validated."""

from __future__ import annotations

from tests.reports.data.summaries import SYNTHETIC, make, timing_only
from tests.unit.probes.test_validation import summary as validated

STEPS = {"PS-Sync": 1.0, "D-Sync": 0.4, "D-Sync + T": 0.3, "D-Sync + Q": 0.25, "Pipe-SGD": 0.3, "Pipe-SGD + T": 0.2,
         "Pipe-SGD + Q": 0.15}  # fmt: skip
INPUTS = ("utilisation", "beta", "alpha", "gamma", "codecs")


def everything(seeds: int = 1) -> list[dict]:
    """One seed: nothing here depends on it."""
    assert set(STEPS) <= set(SYNTHETIC)
    of_figure = [simulated(variant, "fig4-alexnet") for variant in STEPS]
    ends = ["base", *(f"{name}, {end}" for name in INPUTS for end in ("low", "high"))]
    of_inputs = [simulated(variant, "fig4-alexnet-inputs", end) for variant in STEPS for end in ends]
    return [*of_figure, *of_inputs, emulated(), compared()]


def simulated(variant: str, experiment: str, end: str = "") -> dict:
    method, _, codec = variant.partition(" + ")
    factors = {"method": method, "codec": codec or "none"} | ({"input": end} if end else {})
    slow = {"beta, high": 1.2, "codecs, low": 0.9}.get(end, 1.0)
    return timing_only(make(variant, "simulated")) | {
        "experiment": experiment, "setting": f"{variant}; {end}" if end else variant, "factors": factors,
        "testbed": "paper/pipesgd-alexnet", "step": {"mean_s": slow * STEPS[variant]}, "cell": f"{variant}-{end}",
    }  # fmt: skip


def emulated() -> dict:
    rows = [
        {"setting": variant, "strategy": "dsync", "bytes": 400, "simulated_s": 100 * seconds,
         "observed_s": {"median": 100 * seconds, "min": 99 * seconds, "max": 101 * seconds}}
        for variant, seconds in STEPS.items()
    ]  # fmt: skip
    made = validated(0.0) | {"paper": "pipesgd", "experiment": "fig4-alexnet-emulated", "cell": "emulated"}
    return made | {"factors": {"slow_down": 100}, "result": made["result"] | {"rows": rows}}


def compared() -> dict:
    made = validated(0.0) | {"cell": "compared"}
    (row,) = made["result"]["rows"]
    other = row | {"setting": "PS-Sync", "strategy": "ps_sync", "simulated_s": 1.1 * row["simulated_s"]}
    return made | {"result": made["result"] | {"rows": [row, other]}}
