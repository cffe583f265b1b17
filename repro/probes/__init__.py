"""Programs that measure without training; a module each, named by `program:`.

Others register theirs through the entry-point group `repro.probes` (NAME = "module").

    Options                             its entries of the configuration's `probe`, a model of `repro.core.fields`
    Result                              what it finds, a pydantic model; records are checked. Those of the probes here
                                        are in `repro/records/probe_results/`, which imports no PyTorch
    ranks(config) -> int                optional: how many ranks a run needs; without it as many as workers
    NUMERICS = True                     optional: it computes as `numerics` says; without it these are refused
    check(config) -> None               optional: InputError for a configuration that it cannot use, before ranks start
    run(fabric, config, folder)         one rank's part; returns a `Finding`, of which rank 0's is recorded

Where a probe's computation is slept, its options and its result have `computation: sleep`: `repro.records.kinds`.

What several of them share is in `repro/probes/shared/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from repro.core.processes import say

if TYPE_CHECKING:
    from repro.data.base import Dataset
    from repro.fabric.base import Fabric


@dataclass(frozen=True)
class Finding:
    """result: entries of the probe's `Result`. metrics: the few numbers that MLflow shows. line: the result for people.

    model, parameters, dataset: those that the probe used, if it used one.
    """

    result: dict[str, Any]
    metrics: dict[str, float]
    line: str
    model: str | None = None
    parameters: int = 0
    dataset: Dataset | None = None

    def facts(self, fabric: Fabric) -> dict[str, Any]:
        """What only the ranks know, as in a training summary."""
        found: dict[str, Any] = {
            "fabric": fabric.name,
            "ranks": fabric.size,
            "model": {"name": self.model, "parameters": self.parameters},
        }
        if self.dataset is not None:
            found["dataset"] = self.dataset.facts()
        return found


def start(fabric: Fabric, iterations: int) -> None:
    """Tell the parent, which draws the progress, that the run begins; `iterations`: steps that `progress` counts."""
    if fabric.rank == 0:
        say("start", iterations=iterations, resumed=0)


def progress(fabric: Fabric, iteration: int) -> None:
    """Tell the parent how far the probe is; often enough that it does not take the ranks for dead."""
    if fabric.rank == 0:
        say("step", iteration=iteration)
