"""Damages files of a killed run: it must use an older checkpoint or refuse in one line, and have the same result."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from repro.testing.faults import checkpoints
from repro.testing.faults.trial import Lost, Trial

LOG = "events.jsonl"
PLANTED = "executed"  # the file that code hidden in a checkpoint would create


def _newest(folder: Path, dice: random.Random) -> Path:
    """The newest checkpoint of a random rank."""
    ranks = sorted({checkpoints.rank(path) for path in checkpoints.all_in(folder)})
    return checkpoints.of_rank(folder, dice.choice(ranks))[-1]


def _cut(path: Path, dice: random.Random) -> Path:
    data = path.read_bytes()
    path.write_bytes(data[: dice.randrange(1, len(data))])
    return path


def _flip(path: Path, dice: random.Random) -> Path:
    data = bytearray(path.read_bytes())
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    path.write_bytes(data)
    return path


def _remove(path: Path) -> Path:
    path.unlink()
    return path


def truncated(folder: Path, dice: random.Random) -> Path:
    """Truncate a rank's newest checkpoint."""
    return _cut(_newest(folder, dice), dice)


def emptied(folder: Path, dice: random.Random) -> Path:
    """Empty a rank's newest checkpoint."""
    path = _newest(folder, dice)
    path.write_bytes(b"")
    return path


def flipped(folder: Path, dice: random.Random) -> Path:
    """Flip a bit of a rank's newest checkpoint."""
    return _flip(_newest(folder, dice), dice)


def missing(folder: Path, dice: random.Random) -> Path:
    """Delete a rank's newest checkpoint."""
    return _remove(_newest(folder, dice))


def manifest_flipped(folder: Path, dice: random.Random) -> Path:
    """Flip a bit in the manifest of a rank's newest checkpoint."""
    return _flip(_newest(folder, dice).with_suffix(".json"), dice)


def all_of_a_rank(folder: Path, dice: random.Random) -> Path:
    """Flip a bit in every checkpoint of a rank, so that none is usable."""
    path = _newest(folder, dice)
    for each in checkpoints.of_rank(folder, checkpoints.rank(path)):
        _flip(each, dice)
    return path


class _Bomb:
    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self) -> tuple:
        return Path.touch, (self.mark,)


def planted(folder: Path, dice: random.Random) -> Path:
    """Hide code in a rank's newest checkpoint, which runs if it is unpickled; the manifest matches."""
    import torch

    path = _newest(folder, dice)
    torch.save(torch.load(path, weights_only=True) | {"planted": _Bomb(folder / PLANTED)}, path)
    manifest = path.with_suffix(".json")
    holds = {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | holds) + "\n")
    return path


def log_cut(folder: Path, dice: random.Random) -> Path:
    """Cut the event log after a random line, before the events on which the newest checkpoint rests."""
    path = folder / LOG
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: dice.randrange(1, max(2, len(lines) // 2))]))
    return path


def log_zeroed(folder: Path, dice: random.Random) -> Path:
    """Write NUL bytes into the event log, as some file systems leave them after a power cut."""
    path = folder / LOG
    data = bytearray(path.read_bytes())
    start = dice.randrange(len(data) // 2)
    data[start : start + 64] = bytes(64)
    path.write_bytes(data)
    return path


def summary_torn(folder: Path, dice: random.Random) -> Path:
    """Add a truncated summary to an unfinished run."""
    path = folder / "summary.json"
    path.write_text('{"schema": 1, "status": "fin')
    return path


def striking(damage: Callable[[Path, random.Random], Path], goes_on: bool = True) -> Callable[[Trial], None]:
    """The fault that damages a killed run before the command is repeated. goes_on: whether the run must resume from a
    checkpoint."""

    def fault(trial: Trial) -> None:
        trial.take_up_killed()
        folder = trial.run_folder()
        path = damage(folder, trial.dice)
        spoilt = checkpoints.iteration(path.with_suffix(".pt")) if path.parent != folder else None
        least = trial.resumable(without=spoilt) if goes_on else None
        messages = trial.ended(trial.start(), 2)
        if (folder / PLANTED).exists():
            raise Lost(f"code in {path.name} was executed")
        if trial.struck:  # refused: the message must name the file; without the run's folder the command starts again
            if path.name not in messages:
                raise Lost(f"refused without naming {path.name}: {messages[-1000:]}")
            shutil.rmtree(folder)
        else:
            trial.goes_on(messages, least)
        trial.struck = True

    return fault


FAULTS: dict[str, Callable[[Trial], None]] = {
    "newest checkpoint truncated": striking(truncated),
    "newest checkpoint empty": striking(emptied),
    "newest checkpoint, one bit flipped": striking(flipped),
    "newest checkpoint missing": striking(missing),
    "its manifest, one bit flipped": striking(manifest_flipped),
    "all checkpoints of a rank damaged": striking(all_of_a_rank, goes_on=False),
    "checkpoint that executes code": striking(planted),
    "event log cut at a line": striking(log_cut, goes_on=False),
    "event log torn in a line": striking(lambda folder, dice: _cut(folder / LOG, dice), goes_on=False),
    "event log with NUL bytes": striking(log_zeroed, goes_on=False),
    "event log missing": striking(lambda folder, dice: _remove(folder / LOG), goes_on=False),
    "summary torn": striking(summary_torn),
    "configuration torn": striking(lambda folder, dice: _cut(folder / "config.yaml", dice)),
}
