"""Damaged files of a run that was killed half-way: it steps back or refuses in a line, and has the same end."""

from __future__ import annotations

import hashlib
import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from repro.common.known import known
from repro.faults.trial import Lost, Trial

GENERATION = re.compile(r"iteration(\d+)\.rank(\d+)\.pt")
PLANTED = "executed"  # the file that code hidden in a checkpoint would make


def generations(folder: Path, rank: int | None = None) -> list[Path]:
    """The checkpoints of a run (of one rank), oldest first."""
    found = [(int(m[1]), int(m[2]), path) for path in folder.rglob("*.pt") if (m := GENERATION.fullmatch(path.name))]
    return [path for _, of, path in sorted(found) if rank is None or of == rank]


def iteration(path: Path) -> int:
    """Of a checkpoint."""
    return int(known(GENERATION.fullmatch(path.name))[1])


def _newest(folder: Path, dice: random.Random) -> Path:
    """The last checkpoint of some rank."""
    ranks = sorted({int(known(GENERATION.fullmatch(path.name))[2]) for path in generations(folder)})
    return generations(folder, dice.choice(ranks))[-1]


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
    for each in generations(folder, int(known(GENERATION.fullmatch(path.name))[2])):
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


def striking(damage: Callable[[Path, random.Random], Path]) -> Callable[[Trial], None]:
    """The fault that does this damage to a killed run, before the command is given again."""

    def fault(trial: Trial) -> None:
        trial.take_up_killed()
        folder = trial.run_folder()
        path = damage(folder, trial.dice)
        said = trial.ended(trial.start(), 2)
        if (folder / PLANTED).exists():
            raise Lost(f"code in {path.name} was executed")
        if trial.struck:  # refused: then the line says which file, and without what it spoilt the run starts anew
            if path.name not in said:
                raise Lost(f"refused without naming {path.name}: {said[-1000:]}")
            shutil.rmtree(folder)
        trial.struck = True

    return fault


FAULTS: dict[str, Callable[[Trial], None]] = {
    "newest checkpoint truncated": striking(truncated),
    "newest checkpoint empty": striking(emptied),
    "newest checkpoint, one bit flipped": striking(flipped),
    "newest checkpoint missing": striking(missing),
    "its manifest, one bit flipped": striking(manifest_flipped),
    "all checkpoints of a rank damaged": striking(all_of_a_rank),
    "checkpoint that executes code": striking(planted),
    "event log cut at a line": striking(log_cut),
    "event log torn in a line": striking(log_torn),
    "event log with NUL bytes": striking(log_zeroed),
    "event log missing": striking(log_missing),
    "summary torn": striking(summary_torn),
    "configuration torn": striking(config_torn),
}
