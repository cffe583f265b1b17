"""Faults that damage files of a killed run: it must use an older checkpoint or refuse with a one-line error."""

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
PLANTED = "executed"  # the file that the code in a `planted` checkpoint would create


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
    """Put code into a rank's newest checkpoint that unpickling would execute; the manifest matches."""
    import torch

    path = _newest(folder, dice)
    torch.save(torch.load(path, weights_only=True) | {"planted": _Bomb(folder / PLANTED)}, path)
    manifest = path.with_suffix(".json")
    content = {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | content) + "\n")
    return path


def log_cut(folder: Path, dice: random.Random) -> Path:
    """Cut the event log after a random line, before the events that the newest checkpoint relies on."""
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


def striking(damage: Callable[[Path, random.Random], Path], resumes: bool = True) -> Callable[[Trial], None]:
    """The fault that damages a killed run before the command is repeated. resumes: whether the run must resume from a
    checkpoint."""

    def fault(trial: Trial) -> None:
        trial.copy_killed()
        folder = trial.run_folder()
        path = damage(folder, trial.dice)
        damaged = checkpoints.iteration(path.with_suffix(".pt")) if path.parent != folder else None
        least = trial.resumable(without=damaged) if resumes else None
        messages = trial.wait(trial.start(), 2)
        if (folder / PLANTED).exists():
            raise Lost(f"code in {path.name} was executed")
        if trial.struck:  # refused: the message must name the file; without the run's folder the command starts again
            if path.name not in messages:
                raise Lost(f"refused without naming {path.name}: {messages[-1000:]}")
            shutil.rmtree(folder)
        else:
            trial.check_resumed(messages, least)
        trial.struck = True

    return fault


FAULTS: dict[str, Callable[[Trial], None]] = {
    "newest checkpoint truncated": striking(truncated),
    "newest checkpoint empty": striking(emptied),
    "newest checkpoint, one bit flipped": striking(flipped),
    "newest checkpoint missing": striking(missing),
    "its manifest, one bit flipped": striking(manifest_flipped),
    "all checkpoints of a rank damaged": striking(all_of_a_rank, resumes=False),
    "checkpoint that executes code": striking(planted),
    "event log cut at a line": striking(log_cut, resumes=False),
    "event log torn in a line": striking(lambda folder, dice: _cut(folder / LOG, dice), resumes=False),
    "event log with NUL bytes": striking(log_zeroed, resumes=False),
    "event log missing": striking(lambda folder, dice: _remove(folder / LOG), resumes=False),
    "summary torn": striking(summary_torn),
    "configuration torn": striking(lambda folder, dice: _cut(folder / "config.yaml", dice)),
}
