"""`repro queue`: run what a GPU should do next, for some minutes, and pack the results."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.cli.options import add_device
from repro.core.errors import InputError, ReproError, cannot_access
from repro.core.terminal import one_line

if TYPE_CHECKING:
    from repro.launch.queue import Entry

RESERVE_S = 30.0  # of the minutes: to end the last entry, and to pack
CHECK_S = 10  # CPU seconds at most to find that the overrides suit no entry
ARCHIVE = "queue.zip"


def add_commands(commands: Any) -> None:
    text = "run what a GPU should do next, for some minutes: skip, resume, stop in time, pack"
    queue = commands.add_parser("queue", help=text)
    queue.add_argument("overrides", nargs="*", default=[], help="key=value for every entry")
    queue.add_argument("--minutes", type=parse_minutes, default=9.0, help="time in all (default: 9)")
    queue.add_argument("--out", type=Path, metavar="DIR", help="folder of the archives (default: results/packed)")
    queue.add_argument("--file", type=Path, help="another queue (default: paper_configs/gpu_queue.yaml)")
    queue.add_argument("--list", action="store_true", help="print the entries instead")
    add_device(queue)
    queue.set_defaults(command=cmd_queue, device="cuda")


def parse_minutes(text: str) -> float:
    """The argparse type of --minutes."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= 24 * 60:
        raise argparse.ArgumentTypeError(f"{text}: must be a number of minutes, above 0 and up to {24 * 60}")
    return number


def cmd_queue(args: argparse.Namespace) -> int:
    from repro.core.paths import PACKED, results_root
    from repro.core.without_pytorch import check_early
    from repro.experiment.overrides import check_override, parts_of
    from repro.launch import queue

    began = time.monotonic()
    entries = queue.read_queue(args.file or queue.FILE)
    for override in args.overrides:
        check_override(override, parts_of({}))
    if args.list:
        for number, entry in enumerate(entries, start=1):
            print(describe_entry(number, entry))
        return 0
    overrides = [f"device={args.device}", *args.overrides]
    check_early(lambda: queue.check_overrides(entries, overrides), limit_s=CHECK_S)
    check_committed()
    out = args.out or results_root() / PACKED
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_access("write", out, error) from None
    whole = 60 * args.minutes
    until = began + whole - min(RESERVE_S, whole / 3)
    return 1 if work_through(entries, overrides, until, out) else 0


def work_through(entries: Sequence[Entry], overrides: Sequence[str], until: float, out: Path) -> list[str]:
    """Run the entries in order until `until` (of `time.monotonic`); returns the names of those that failed."""
    from repro.launch import queue

    failed = []
    for number, entry in enumerate(entries, start=1):
        now = time.monotonic()
        if until - now < queue.LEAST_S:
            print(f"queue: no time for entries {number} to {len(entries)}", flush=True)
            break
        if entry.at_once and until - now < 60 * entry.minutes:
            print(f"queue: {entry.name} left out: it takes {entry.minutes:g} minutes at once", flush=True)
            continue
        print(f"queue: {describe_entry(number, entry)}; {(until - now) / 60:.1f} minutes left", flush=True)
        try:
            status = queue.carry_out(entry, overrides, min(until, now + 60 * entry.budget), lambda: pack_workspace(out))
        finally:  # whatever ends it
            pack_workspace(out)
        ended = "stopped; it goes on next time" if status is None else f"ended with status {status}"
        print(f"queue: {entry.name} {'done' if status == 0 else ended}", flush=True)
        if status:
            failed.append(entry.name)
    return failed


def pack_workspace(out: Path) -> None:
    """Pack all runs of the workspace; a run that cannot be packed does not keep the others from being tried again."""
    from repro.cli.publishing import ALL, write_archives

    try:
        lines, files = write_archives(ALL, [], out / ARCHIVE)
        print(f"queue: {lines[-1]} in {', '.join(map(str, files))}", flush=True)
    except (ReproError, OSError) as error:
        print(f"queue: not packed: {one_line(str(error))}", flush=True)


def describe_entry(number: int, entry: Entry) -> str:
    decides = f", decides {', '.join(entry.decides)}" if entry.decides else ""
    return f"{number}. {entry.name}: repro run {entry.run} ({entry.minutes:g} minutes of an H100{decides})"


def check_committed() -> None:
    """InputError for code that was changed since its commit: nothing that it computes could be published."""
    from repro.records.provenance import provenance

    made = provenance()
    if made["dirty"] is not False:
        state = "has uncommitted changes" if made["dirty"] else "is of no known commit"
        raise InputError(
            f"queue: the code {state}, so its results could not be published; commit it, or bundle it anew"
        )
