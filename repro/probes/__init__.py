"""Programs that measure without training, one module each; `program: NAME` in a configuration selects one.

Other packages register theirs through the entry-point group `repro.probes` (NAME = "module"). A module contains:

    Options                             the schema of the `probe` entries, a model of `repro.core.fields`
    Result                              the schema of its result, a pydantic model that records are checked against when
                                        they are written, or read from an archive
    ranks(config) -> int                optional: the number of ranks to start; by default the number of workers
    NUMERICS = True                     optional: the probe supports the `numerics` entries; by default they are refused
    check(config) -> None               optional: raises InputError for an unusable configuration, before ranks start
    run(fabric, config, folder)         measures, on every rank; returns a `Finding`, and rank 0's is recorded
    run_alone(config)                   in the place of `run`: measures on one rank, without communication

A probe whose computation may be slept has an entry `computation: sleep` in its options and its result
(`repro.records.kinds`). `repro/probes/shared/` contains code that several probes use. A probe of the project also needs
an experiment (`paper_configs/experiment`, `program: NAME`) and its version in `repro/experiment/versions.lock`
(`make versions`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from repro.core.processes import print_event

if TYPE_CHECKING:
    from repro.data.base import Dataset
    from repro.fabric.base import Fabric


class ResultPart(BaseModel):
    """A part of a result; times are in seconds and sizes in bytes, unless a field says otherwise."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


@dataclass(frozen=True)
class Finding:
    """result: the entries of the probe's `Result`. metrics: numbers that MLflow shows. line: a one-line summary.

    model, parameters, dataset: those that the probe used, if any.
    """

    result: dict[str, Any]
    metrics: dict[str, float]
    line: str
    model: str | None = None
    parameters: int = 0
    dataset: Dataset | None = None

    def facts(self, fabric: Fabric) -> dict[str, Any]:
        """The entries of a summary that only the ranks know, as in a training summary."""
        facts: dict[str, Any] = {
            "fabric": fabric.name,
            "ranks": fabric.size,
            "model": {"name": self.model, "parameters": self.parameters},
        }
        return facts | ({"dataset": self.dataset.facts()} if self.dataset is not None else {})


def announce_iterations(iterations: int, rank: int = 0) -> None:
    """Tell the parent process, which draws the progress bar, that the run begins and how many steps it counts."""
    if rank == 0:
        print_event("start", iterations=iterations, resumed=0)


def report_progress(iteration: int, rank: int = 0) -> None:
    """Report progress to the parent process; call it often, or the parent takes the ranks for dead."""
    if rank == 0:
        print_event("step", iteration=iteration)
