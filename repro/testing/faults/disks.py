"""A disk that is full or cannot be written: a small file system of the trial's own, in a mount namespace.

It needs no root (a user namespace gives the right to mount) and holds for root too, whom permissions would not stop.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from repro.core.not_none import not_none
from repro.testing.faults.trial import Impossible, Trial

SIZE = "96m"
UNUSABLE = 2  # the status of input that cannot be used, a folder that cannot be written among it


class Disk:
    """A file system in memory at `where`, seen by the commands that `prefix` stands before."""

    def __init__(self, where: Path):
        script = f'mount -t tmpfs -o size={SIZE} tmpfs "$DISK" && echo ready && cat'
        try:
            self.keeper = subprocess.Popen(
                ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                env=os.environ | {"DISK": str(where)},  # not an argument: no process of the trial's to be found
            )  # fmt: skip
        except OSError as error:
            raise Impossible(f"no unshare: {error.strerror}") from None
        if (line := not_none(self.keeper.stdout).readline().strip()) != "ready":
            self.close()
            raise Impossible(f"no mount in a user namespace: {line}")
        self.prefix = ["nsenter", f"--target={self.keeper.pid}", "--user", "--mount", "--preserve-credentials"]
        self.where, self.seen = where, Path(f"/proc/{self.keeper.pid}/root{where}")

    def fill(self) -> None:
        """Take all the room there is."""
        with contextlib.suppress(OSError), open(self.seen / "filler", "wb", buffering=0) as file:
            while file.write(bytes(1 << 16)):
                pass

    def make_room(self) -> None:
        (self.seen / "filler").unlink()

    def remount(self, mode: str) -> None:
        """`ro` or `rw`."""
        subprocess.run([*self.prefix, "mount", "-o", f"remount,{mode}", str(self.where)], check=True)

    def close(self) -> None:
        not_none(self.keeper.stdin).close()
        self.keeper.wait()
        not_none(self.keeper.stdout).close()


def _of(trial: Trial) -> Disk:
    """A disk of its own for the trial's workspace, to the trial's end."""
    disk = Disk(trial.results)
    trial.closing.callback(disk.close)
    trial.prefix, trial.seen = disk.prefix, disk.seen
    return disk


def full(trial: Trial) -> None:
    """The disk fills up at a random moment of the training; afterwards there is room again."""
    disk = _of(trial)
    command = trial.start()
    trial.moment(command)
    disk.fill()
    trial.ended(command, UNUSABLE)
    disk.make_room()


def read_only(trial: Trial) -> None:
    """A killed run's results cannot be written when it is to go on; afterwards they can."""
    disk = _of(trial)
    trial.take_up_killed()
    disk.remount("ro")
    trial.ended(trial.start(), UNUSABLE)
    disk.remount("rw")


FAULTS: dict[str, Callable[[Trial], None]] = {"disk full": full, "results read-only": read_only}
