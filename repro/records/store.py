"""The results folder: where a run lies, what its files hold, and how a summary is read and written.

`results/<paper>/<experiment>/<run>/` holds

- `config.yaml`    the resolved configuration, written before the run starts
- `events.jsonl`   what happened, one JSON object a line (`repro.records.events`); the truth, append-only, not committed
- `summary.json`   computed from the events when the run is finished; a run that diverged has none
- `checkpoints/`   while the run is not finished

What is published of them is in `results/reference/` (`repro.records.reference`).

A summary is a dictionary with these keys (seconds unless said otherwise; per-iteration numbers are means over the
worker ranks):

    schema, status ("finished"), key, run (its name), program ("train"), paper, experiment, variant (the
    label that the factors had), factors {method, workers, ... of the experiment's grid: value}, strategy, options,
    kind (one of four: `repro.records.kinds`), testbed, fabric, launcher, workers, ranks, seed, scale, threads_per_rank,
    breakdown, batch (global), epochs, eval_every (epochs), iterations, iterations_per_epoch, metric,
    accumulate (microbatches of a worker's minibatch), imbalance {name, and its options}, min_compute_s (or null),
    dataset    {name, standin (bool), checksum, train, test (samples; of text words to predict), classes, input_shape}
    model      {name, parameters, and its options}
    memory     {of ("gpu": torch's tensors there, in training; "process": all that was resident of the rank's process),
               peak_bytes [a rank each]}; null where ranks are simulated, none in older summaries
    optimizer  {name, lr, momentum, weight_decay, alpha, eps, schedule, milestones, decay, every, over, power, warmup,
               clip_norm} (in older summaries without name, alpha, eps and every: SGD; without over and power)
    numerics   {precision, channels_last, cudnn_benchmark, compile, deterministic}; none without arithmetic, and in
               older summaries, which are fp32
    curve      [{iteration, epoch, train_s, loss (mean training loss since the last stop), test_loss, <metric>}, ...]
               with top5, train_top1, train_top5 where they were evaluated
    final      {<metric>, test_loss, train_s}             and these too
    targets    {"0.97": {train_s, epoch, iteration} or null where not reached, ...}
    step       {mean_s, median_s, min_s, max_s}           of one iteration on rank 0; mean_s = train_s / iterations
    phases     {forward, backward, compress, communicate, wait, update, data, imbalance (injected delays), other}
               per iteration; they sum to it
    server_phases  the same for server ranks, or null
    communication  {total_s, exposed_s, overlapped_s}     per iteration: all; main line; hidden by computation
                   (hidden during forward, backward, compress, update, data; what falls on `other` is in neither)
    bytes_sent     per iteration, mean over all ranks
    staleness      [{"0": n, "1": n, ...}, ...]   a rank each: how many gradients came into an update so many updates
                   (of a partial collective: rounds) after their own; [] where the strategy says nothing of it
    pipeline       of strategies that cut the model: {config ("2-1-1": replicas of each stage), cuts (first block of
                   each stage but the first), noam, schedule, semantics, source (of the configuration), stages
                   [{first, last (blocks), replicas, blocks (names), seconds (by the partitioner, or null)}, ...]};
                   null of others
    per_rank       of the same [{stage, replica, weights_bytes, stash_bytes (most older versions of them at once),
                   activation_bytes (what autograd kept of a forward pass, times the most in flight), in_flight,
                   buffer_bytes (for messages), predicted {weights_bytes, stash_bytes, activation_bytes}}, ...];
                   [] of others
    counters       what the strategy counted (`Strategy.counters`), totals over ranks and iterations, by name
    allreduce      of runs with an allreduce `auto`: {auto (what it was), above_bytes (of the ring, or null), why,
                   measured [{bytes, native_s, ring_s}, ...]}
    weights_sha256 of the final weights
    trace      [{rank, line ("main" or a task's name), name, start, end}, ...]   a few steady-state iterations; with
               `minibatch` where an interval is of one
    hardware   {class, cpu, cores, memory_gb, gpu, network}
    testbed_model  the virtual testbed's parameters with their sources, or null
    -- below: differs from run to run --
    provenance {commit, dirty, versions {...}, started_at, finished_at, command}
    wall       {train_s, training_s, evaluation_s, checkpoint_s, synchronisation_s, logging_s, total_s, resumes}

The summary of a probe (`program` is not "train") identifies its run with the same keys, without those of training:

    result     what the probe found; its module in `repro/probes/` says what is in it
    metrics    {name: number}: the few that MLflow shows
    line       one line for people
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from repro.core import safe_files, strict_json
from repro.core.atomic import write_atomically
from repro.core.errors import InputError
from repro.core.paths import results_root
from repro.core.warnings import warn
from repro.records import kinds, migrate, summary_schema
from repro.records.summary_schema import SCHEMA as SCHEMA

VOLATILE = ("provenance", "wall")


def run_dir(paper: str, experiment: str, run: str, root: Path | None = None) -> Path:
    """The folder of one run (not created); InputError for names that are no plain ones."""
    names = {"paper": paper, "experiment": experiment, "run": run}
    return (root or results_root()).joinpath(*(safe_files.checked(what, name) for what, name in names.items()))


def write_summary(folder: Path, summary: dict[str, Any]) -> None:
    """Write the summary of a finished run, whose `kind` is the testbed's so far, and from here on the run's."""
    summary = summary | {"kind": kinds.of_summary(summary)}
    write_atomically(folder / "summary.json", json.dumps(summary, indent=1, sort_keys=True, allow_nan=False) + "\n")


def read_summary(folder: Path) -> dict[str, Any] | None:
    """The summary of a finished run, or None; InputError for a file without one (`repro.records.summary_schema`)."""
    path = folder / "summary.json"
    try:
        summary = migrate.summary(strict_json.parse(safe_files.read(path)))
        summary_schema.check(summary)
        return summary
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable summary ({error}); remove the file to repeat the run") from None


def usable_summary(folder: Path) -> dict[str, Any] | None:
    """The same where runs are shown, counted or repeated: of a file that is no summary a warning, and None."""
    try:
        return read_summary(folder)
    except InputError as error:
        warn(f"{error}; left out, as if the run were not finished")
        return None


def run_folders(root: Path, paper: str = "*", having: Sequence[str] = ("summary.json",)) -> list[Path]:
    """The folders of the runs below a results folder, in path order; having: the files of which a run has one."""
    return sorted({path.parent for name in having for path in root.glob(f"{paper}/*/*/{name}")})
