"""A site's options: what the job script and srun have to know of a cluster, from one YAML."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from repro.core import yaml_files
from repro.core.errors import InputError, unknown
from repro.core.paths import CONFIGS
from repro.core.user_files import read_bytes

DEFAULT = CONFIGS / "site" / "slurm.yaml"
NOTHING = ("", "null", "~", "None")


def _text(value: Any) -> str | None:
    if isinstance(value, list | dict):
        raise ValueError("must be one word or text")
    if "\n" in value:
        raise ValueError("must be on one line")
    return None if value in NOTHING else value


def _words(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) and value in NOTHING:
        return ()
    if not isinstance(value, list) or not all(isinstance(word, str) and "\n" not in word for word in value):
        raise ValueError('must be a list of words, for instance ["a", "b"]')
    return tuple(value)


def _flag(value: Any) -> bool:
    if value not in ("true", "false"):
        raise ValueError("must be true or false")
    return value == "true"


def _number(least: int, optional: bool = False) -> Callable[[Any], int | None]:
    def read(value: Any) -> int | None:
        if optional and value in NOTHING:
            return None
        if not isinstance(value, str) or not re.fullmatch(r"\d+", value) or int(value) < least:
            raise ValueError(f"must be a whole number, {least} or more{' (or null)' * optional}")
        return int(value)

    return read


def _option(default: Any, read: Callable[[Any], Any]) -> Any:
    return field(default=default, metadata={"read": read})


@dataclass(frozen=True)
class Site:
    """The options of `paper_configs/site/slurm.yaml`, which says what each is."""

    cluster: str | None = _option(None, _text)
    partition: str | None = _option(None, _text)
    account: str | None = _option(None, _text)
    qos: str | None = _option(None, _text)
    time: str | None = _option(None, _text)
    ranks_per_node: int | None = _option(None, _number(1, optional=True))
    gpus_per_node: int = _option(0, _number(0))
    gpu_type: str | None = _option(None, _text)
    gpus_per_task: bool = _option(False, _flag)
    share_gpus: bool = _option(False, _flag)
    cpus_per_rank: int = _option(1, _number(1))
    mem: str | None = _option(None, _text)
    mem_per_gpu: str | None = _option(None, _text)
    constraint: str | None = _option(None, _text)
    modules: tuple[str, ...] = _option((), _words)
    before: tuple[str, ...] = _option((), _words)
    python: str | None = _option(None, _text)
    container: tuple[str, ...] = _option((), _words)
    container_python: str | None = _option(None, _text)
    mpi: str | None = _option("pmix", _text)
    interface: str | None = _option(None, _text)
    sbatch: tuple[str, ...] = _option((), _words)
    srun: tuple[str, ...] = _option((), _words)
    signal_seconds: int = _option(120, _number(1))
    pack_minutes: int | None = _option(None, _number(1, optional=True))
    simulations: int = _option(4, _number(1))
    max_tasks: int | None = _option(None, _number(1, optional=True))
    max_requeues: int = _option(50, _number(0))

    @property
    def per_node(self) -> int:
        """Ranks on a node, at most."""
        return self.ranks_per_node or self.gpus_per_node or 1

    def gpus(self, ranks: int, every_rank: bool = True) -> tuple[str, str] | None:
        """The option of sbatch, and its value, for the GPUs that so many ranks use: of a node, or of each task.

        every_rank: whether there are no tasks without a GPU beside them.
        """
        if not self.gpus_per_node:
            return None
        if self.gpus_per_task and every_rank:
            return "gpus-per-task", ":".join(filter(None, (self.gpu_type, "1")))
        used = min(self.gpus_per_node, self.on_a_node(ranks))
        return "gres", ":".join(filter(None, ("gpu", self.gpu_type, str(used))))

    @property
    def ranks_python(self) -> list[str]:
        """The words that start Python for a rank: in a container, by words before it or by what `srun` is told."""
        if self.container or any(word.startswith("--container-image") for word in self.srun):  # the latter is Pyxis'
            return [*self.container, self.container_python or "python3"]
        return [self.container_python or self.python or sys.executable]

    def nodes(self, ranks: int) -> int:
        return -(-ranks // self.per_node)

    def on_a_node(self, ranks: int) -> int:
        """Of so many ranks, at most, shared out evenly."""
        return -(-ranks // self.nodes(ranks))

    def hardware_class(self) -> str:
        """What stands for the hardware in a run's key: the place, and how ranks are laid out there; no host names.

        Time limits, accounts and queues are not in it: they do not change a measured time.
        """
        kind = f"{self.gpus_per_node}x{self.gpu_type or 'gpu'}" if self.gpus_per_node else "cpu"
        text = f"{self.cluster or 'slurm'}-{self.partition or 'default'}-{kind}-{self.per_node}x{self.cpus_per_rank}cpu"
        return re.sub(r"[^a-z0-9]+", "-", text.lower())


def path() -> Path:
    """$REPRO_SITE, else the file of the checkout."""
    return Path(os.environ.get("REPRO_SITE") or DEFAULT)


def load(file: Path | None = None) -> Site:
    """The options in a file (default: `path()`). InputError naming file and key for what cannot be used."""
    file = file or path()
    try:
        # as text: YAML would make a number of seconds of 24:00:00
        given = yaml_files.parse_plain(read_bytes(file), yaml.BaseLoader)
    except OSError as error:
        raise InputError(f"site file {file}: {error.strerror}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"site file {file}: {' '.join(str(error).split())}") from None
    if given in (None, ""):
        given = {}
    if not isinstance(given, dict):
        raise InputError(f"site file {file}: must be lines of `option: value`")
    readers = {each.name: each.metadata["read"] for each in fields(Site)}
    read = {}
    for key, value in given.items():
        if key not in readers:
            raise InputError(f"site file {file}: {unknown('option', key, readers)}")
        try:
            read[key] = readers[key](value)
        except ValueError as error:
            raise InputError(f"site file {file}: {key}: {value}: {error}") from None
    return Site(**read)
