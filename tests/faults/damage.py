"""Faults that damage files of a killed run: it must use an older checkpoint or refuse with a one-line error."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.faults import checkpoints
from tests.faults.trial import Lost, Trial

LOG = "events.jsonl"
PLANTED = "executed"  # the file that the code in a `planted` checkpoint would create


def _newest(folder: Path, dice: random.Random) -> Path:
    """The newest checkpoint of a random rank."""
    ranks = sorted({checkpoints.rank(path) for path in checkpoints.checkpoints_below(folder)})
    return checkpoints.checkpoints_of_rank(folder, dice.choice(ranks))[-1]


def cut(path: Path, dice: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: dice.randrange(1, len(data))])


def empty(path: Path, dice: random.Random) -> None:
    path.write_bytes(b"")


def flip(path: Path, dice: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    path.write_bytes(data)


def remove(path: Path, dice: random.Random) -> None:
    path.unlink()


def newest(damage: Callable[[Path, random.Random], None], suffix: str = ".pt") -> Callable[[Path, random.Random], Path]:
    """Damage the newest checkpoint of a random rank, or with suffix ".json" its manifest."""

    def damaged(folder: Path, dice: random.Random) -> Path:
        path = _newest(folder, dice).with_suffix(suffix)
        damage(path, dice)
        return path

    return damaged


def file(name: str, damage: Callable[[Path, random.Random], None]) -> Callable[[Path, random.Random], Path]:
    """Damage a file of the run's folder."""

    def damaged(folder: Path, dice: random.Random) -> Path:
        damage(folder / name, dice)
        return folder / name

    return damaged


def all_of_a_rank(folder: Path, dice: random.Random) -> Path:
    """Flip a bit in every checkpoint of a rank, so that none is usable."""
    path = _newest(folder, dice)
    for each in checkpoints.checkpoints_of_rank(folder, checkpoints.rank(path)):
        flip(each, dice)
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


def cut_early_at_a_line(path: Path, dice: random.Random) -> None:
    """Cut the event log after a random line, before the events that the newest checkpoint relies on."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: dice.randrange(1, max(2, len(lines) // 2))]))


def zero(path: Path, dice: random.Random) -> None:
    """Write NUL bytes, as some file systems leave them after a power cut."""
    data = bytearray(path.read_bytes())
    start = dice.randrange(len(data) // 2)
    data[start : start + 64] = bytes(64)
    path.write_bytes(data)


def tear_summary(path: Path, dice: random.Random) -> None:
    path.write_text('{"schema": 1, "status": "fin')


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
    "newest checkpoint truncated": striking(newest(cut)),
    "newest checkpoint empty": striking(newest(empty)),
    "newest checkpoint, one bit flipped": striking(newest(flip)),
    "newest checkpoint missing": striking(newest(remove)),
    "its manifest, one bit flipped": striking(newest(flip, ".json")),
    "all checkpoints of a rank damaged": striking(all_of_a_rank, resumes=False),
    "checkpoint that executes code": striking(planted),
    "event log cut at a line": striking(file(LOG, cut_early_at_a_line), resumes=False),
    "event log torn in a line": striking(file(LOG, cut), resumes=False),
    "event log with NUL bytes": striking(file(LOG, zero), resumes=False),
    "event log missing": striking(file(LOG, remove), resumes=False),
    "summary torn": striking(file("summary.json", tear_summary)),
    "configuration torn": striking(file("config.yaml", cut)),
}
