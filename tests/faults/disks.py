"""Faults of disks, full or read-only: the trial gets a small file system in a mount namespace.

This needs no root (a user namespace permits mounts), and affects root, which file permissions would not.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from repro.core.not_none import not_none
from tests.faults.trial import Impossible, Trial

SIZE = "96m"
UNUSABLE = 2  # exit status for unusable input, including folders that cannot be written


class Disk:
    """A file system in memory at `where`, visible to commands with `prefix` before them."""

    def __init__(self, where: Path):
        script = f'mount -t tmpfs -o size={SIZE} tmpfs "$DISK" && echo ready && cat'
        try:
            self.keeper = subprocess.Popen(
                ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                env=os.environ | {"DISK": str(where)},  # an argument would make it a process of the trial
            )  # fmt: skip
        except OSError as error:
            raise Impossible(f"no unshare: {error.strerror}") from None
        if (line := not_none(self.keeper.stdout).readline().strip()) != "ready":
            self.close()
            raise Impossible(f"no mount in a user namespace: {line}")
        self.prefix = ["nsenter", f"--target={self.keeper.pid}", "--user", "--mount", "--preserve-credentials"]
        self.where, self.seen = where, Path(f"/proc/{self.keeper.pid}/root{where}")

    def fill(self) -> None:
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
    """A new disk for the trial's workspace."""
    disk = Disk(trial.results)
    trial.closing.callback(disk.close)
    trial.prefix, trial.seen = disk.prefix, disk.seen
    return disk


def full(trial: Trial) -> None:
    """Fill the disk at a random time of the training, and free it afterwards."""
    disk = _of(trial)
    command = trial.start()
    trial.moment(command)
    disk.fill()
    trial.wait(command, UNUSABLE)
    disk.make_room()


def read_only(trial: Trial) -> None:
    """Make a killed run's results read-only when it is resumed, and writable afterwards."""
    disk = _of(trial)
    trial.copy_killed()
    disk.remount("ro")
    trial.wait(trial.start(), UNUSABLE)
    disk.remount("rw")


FAULTS: dict[str, Callable[[Trial], None]] = {"disk full": full, "results read-only": read_only}
