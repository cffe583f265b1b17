"""Damaged files of a run that was killed half-way: it steps back or refuses in a line, and has the same end."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from repro.testing.faults import checkpoints
from repro.testing.faults.trial import Lost, Trial

PLANTED = "executed"  # the file that code hidden in a checkpoint would make


def _newest(folder: Path, dice: random.Random) -> Path:
    """The last checkpoint of some rank."""
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


def truncated(folder: Path, dice: random.Random) -> Path:
    """The newest checkpoint of a rank, cut somewhere."""
    return _cut(_newest(folder, dice), dice)


def emptied(folder: Path, dice: random.Random) -> Path:
    """The newest checkpoint of a rank, of no length."""
    path = _newest(folder, dice)
    path.write_bytes(b"")
    return path


def flipped(folder: Path, dice: random.Random) -> Path:
    """The newest checkpoint of a rank with one bit changed."""
    return _flip(_newest(folder, dice), dice)


def missing(folder: Path, dice: random.Random) -> Path:
    """The newest checkpoint of a rank is gone."""
    path = _newest(folder, dice)
    path.unlink()
    return path


def manifest_flipped(folder: Path, dice: random.Random) -> Path:
    """The manifest of the newest checkpoint of a rank with one bit changed."""
    return _flip(_newest(folder, dice).with_suffix(".json"), dice)


def all_of_a_rank(folder: Path, dice: random.Random) -> Path:
    """Every checkpoint of a rank with one bit changed: there is none to step back to."""
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
    """The newest checkpoint of a rank, which executes code where it is read as a pickle; its manifest is true of it."""
    import torch

    path = _newest(folder, dice)
    torch.save(torch.load(path, weights_only=True) | {"planted": _Bomb(folder / PLANTED)}, path)
    manifest = path.with_suffix(".json")
    holds = {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | holds) + "\n")
    return path


def log_cut(folder: Path, dice: random.Random) -> Path:
    """The event log after a random whole line, before what the newest checkpoint stands on."""
    path = folder / "events.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: dice.randrange(1, max(2, len(lines) // 2))]))
    return path


def log_torn(folder: Path, dice: random.Random) -> Path:
    """The event log in the middle of a line."""
    return _cut(folder / "events.jsonl", dice)


def log_zeroed(folder: Path, dice: random.Random) -> Path:
    """NUL bytes in the event log, as some file systems leave them after a power cut."""
    path = folder / "events.jsonl"
    data = bytearray(path.read_bytes())
    start = dice.randrange(len(data) // 2)
    data[start : start + 64] = bytes(64)
    path.write_bytes(data)
    return path


def log_missing(folder: Path, dice: random.Random) -> Path:
    """No event log."""
    path = folder / "events.jsonl"
    path.unlink()
    return path


def summary_torn(folder: Path, dice: random.Random) -> Path:
    """Half a summary beside a run that is not finished."""
    path = folder / "summary.json"
    path.write_text('{"schema": 1, "status": "fin')
    return path


def config_torn(folder: Path, dice: random.Random) -> Path:
    """Half a configuration."""
    return _cut(folder / "config.yaml", dice)


def striking(damage: Callable[[Path, random.Random], Path], goes_on: bool = True) -> Callable[[Trial], None]:
    """The fault that does this damage to a killed run, before the command is given again. goes_on: whether a checkpoint
    is left that the run then has to go on from."""

    def fault(trial: Trial) -> None:
        trial.take_up_killed()
        folder = trial.run_folder()
        path = damage(folder, trial.dice)
        spoilt = checkpoints.iteration(path.with_suffix(".pt")) if path.parent != folder else None
        least = trial.resumable(without=spoilt) if goes_on else None
        said = trial.ended(trial.start(), 2)
        if (folder / PLANTED).exists():
            raise Lost(f"code in {path.name} was executed")
        if trial.struck:  # refused: then the line says which file, and without what it spoilt the run starts anew
            if path.name not in said:
                raise Lost(f"refused without naming {path.name}: {said[-1000:]}")
            shutil.rmtree(folder)
        else:
            trial.goes_on(said, least)
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
    "event log torn in a line": striking(log_torn, goes_on=False),
    "event log with NUL bytes": striking(log_zeroed, goes_on=False),
    "event log missing": striking(log_missing, goes_on=False),
    "summary torn": striking(summary_torn),
    "configuration torn": striking(config_torn),
}
