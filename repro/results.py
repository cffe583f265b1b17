"""The results folder: where a cell lies, what its files hold, and how they are written so that nothing is half there.

`results/<paper>/<experiment>/<cell>/` holds

- `config.yaml`    the resolved configuration, written before the run starts
- `events.jsonl`   what happened, one JSON object a line (`repro.events`); the truth, append-only, not committed
- `summary.json`   computed from the events when the cell is finished; committed for the runs that the reports cite
- `checkpoints/`   while the run is not finished

A summary is a dictionary with these keys (seconds unless said otherwise; per-iteration numbers are means over the
worker ranks):

    schema, status ("finished"), key, cell, program ("train"), paper, experiment, setting, strategy, options,
    kind ("measured" | "simulated"), testbed, fabric, launcher, workers, ranks, seed, scale, threads_per_rank,
    breakdown, batch (global), epochs, eval_every (epochs), iterations, iterations_per_epoch, metric,
    dataset    {name, standin (bool), checksum, train, test}
    model      {name, parameters}
    optimizer  {lr, momentum, weight_decay, schedule, milestones, decay}
    curve      [{iteration, epoch, train_s, loss (mean training loss since the last stop), test_loss, <metric>}, ...]
    final      {<metric>, test_loss, train_s}
    targets    {"0.97": {train_s, epoch, iteration} or null where not reached, ...}
    step       {mean_s, median_s, min_s, max_s}           of one iteration on rank 0; mean_s = train_s / iterations
    phases     {forward, backward, compress, communicate, wait, update, data, other}   per iteration; they sum to it
    server_phases  the same for server ranks, or null
    communication  {total_s, exposed_s, overlapped_s}     per iteration: all; main line; hidden by computation
                   (hidden during forward, backward, compress, update, data; what falls on `other` is in neither)
    bytes_sent     per iteration, mean over all ranks
    weights_sha256 of the final weights
    trace      [{rank, line ("main" or a task's name), name, start, end}, ...]   a few steady-state iterations
    hardware   {class, cpu, cores, memory_gb, gpu, network}
    testbed_model  the virtual testbed's parameters with their sources, or null
    -- below: differs from run to run --
    provenance {commit, dirty, versions {...}, started_at, finished_at, command}
    wall       {train_s, training_s, evaluation_s, checkpoint_s, synchronisation_s, logging_s, total_s, resumes}

The summary of a probe (`program` is not "train") identifies its cell with the same keys, without those of training:

    result     what the probe found; its module in `repro/probes/` says what is in it
    metrics    {name: number}: the few that MLflow shows
    line       one line for people
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from repro.errors import InputError
from repro.paths import results_root

SCHEMA = 1
VOLATILE = ("provenance", "wall")
PHASES = ("forward", "backward", "compress", "communicate", "wait", "update", "data", "other")


def cell_dir(paper: str, experiment: str, cell: str, root: Path | None = None) -> Path:
    """The folder of one cell (not created)."""
    return (root or results_root()) / paper / experiment / cell


def write_atomically(path: Path, text: str) -> None:
    """Write to a temporary file beside `path`, then rename: readers see the old text or the new, never a part."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def write_summary(folder: Path, summary: dict[str, Any]) -> None:
    write_atomically(folder / "summary.json", json.dumps(summary, indent=1, sort_keys=True, allow_nan=False) + "\n")


def read_summary(folder: Path) -> dict[str, Any] | None:
    """The summary of a finished cell, or None; an unreadable file is an InputError naming it."""
    path = folder / "summary.json"
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable summary ({error}); remove the file to run the cell again") from None


def summaries(paper: str | None = None, experiment: str | None = None, root: Path | None = None) -> Iterator[dict]:
    """Every finished cell's summary, in path order."""
    pattern = f"{paper or '*'}/{experiment or '*'}/*/summary.json"
    for path in sorted((root or results_root()).glob(pattern)):
        if summary := read_summary(path.parent):
            yield summary
