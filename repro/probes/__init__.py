"""Programs that measure something without training towards an accuracy; a module each, named by `program:`.

Others register theirs through the entry-point group `repro.probes` (NAME = "module").

    Options                             its entries of the configuration's `probe`, a model of `repro.core.fields`
    Result                              optional: what it finds, such a model; a record is checked against it
    ranks(config) -> int                optional: how many ranks a run needs; without it as many as workers
    NUMERICS = True                     optional: it computes as `numerics` says; without it these are refused
    check(config) -> None               optional: InputError for a configuration that it cannot use, before ranks start
    run(fabric, config, folder)         one rank's part, ending with `finish`

Where a probe's computation is slept, its options and its result have `computation: sleep`: `repro.records.kinds`.

What several of them share is in `repro/probes/shared/`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.core.processes import say
from repro.experiment.schema import RunConfig

if TYPE_CHECKING:
    from repro.fabric.base import Fabric


def start(fabric: Fabric, iterations: int) -> None:
    """Tell the parent, which draws the progress, that the run begins; `iterations`: steps that `progress` counts."""
    if fabric.rank == 0:
        say("start", iterations=iterations, resumed=0)


def progress(fabric: Fabric, iteration: int) -> None:
    """Tell the parent how far the probe is; often enough that it does not take the ranks for dead."""
    if fabric.rank == 0:
        say("step", iteration=iteration)


def finish(
    fabric: Fabric,
    config: RunConfig,
    folder: Path,
    facts: dict[str, Any],
    result: dict[str, Any],
    metrics: dict[str, float],
    line: str,
) -> None:
    """Rank 0 writes the summary; every rank waits for it and closes the fabric.

    facts: what only the ranks know, as in a training summary (fabric, ranks, model, dataset ...). The event log says no
    more than that the run ran here: a summary without one is somebody else's, and does not count as done.
    """
    from repro.rank.summary import of_probe
    from repro.records import store
    from repro.records.events import EventLog

    if fabric.rank == 0:
        events = EventLog(folder / "events.jsonl")
        events.append("run_start", key=config.key, iteration=0)
        events.append("run_end")
        events.flush()
        found = {"found": result, "metrics": metrics, "line": line}
        store.write(folder, of_probe(folder, config, facts, found))
    fabric.exchange(None)
    fabric.close()
