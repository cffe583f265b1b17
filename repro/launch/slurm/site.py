"""A site's options: what the job script and srun have to know of a cluster, from one YAML."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BeforeValidator, ConfigDict

from repro.core import yaml_files
from repro.core.errors import InputError
from repro.core.fields import Count, Model, Whole, checked
from repro.core.paths import CONFIGS
from repro.core.user_files import read_bytes

DEFAULT = CONFIGS / "site" / "slurm.yaml"
NOTHING = ("", "null", "~", "None")


def _value(given: Any) -> Any:
    return None if given in NOTHING else given


def _words(given: Any) -> Any:
    return () if given in NOTHING else given


def _on_one_line(text: str) -> str:
    if "\n" in text:
        raise ValueError("must be on one line")
    return text


Line = Annotated[str, AfterValidator(_on_one_line)]
Word = Annotated[Line | None, BeforeValidator(_value)]
Words = Annotated[tuple[Line, ...], BeforeValidator(_words)]
Number = Annotated[Count | None, BeforeValidator(_value)]


class Site(Model):
    """The options of `paper_configs/site/slurm.yaml`, which says what each is."""

    model_config = ConfigDict(strict=False)  # values come as text

    cluster: Word = None
    partition: Word = None
    account: Word = None
    qos: Word = None
    time: Word = None
    ranks_per_node: Number = None
    gpus_per_node: Whole = 0
    gpu_type: Word = None
    gpus_per_task: bool = False
    share_gpus: bool = False
    cpus_per_rank: Count = 1
    mem: Word = None
    mem_per_gpu: Word = None
    constraint: Word = None
    modules: Words = ()
    before: Words = ()
    python: Word = None
    container: Words = ()
    container_python: Word = None
    mpi: Word = "pmix"
    interface: Word = None
    sbatch: Words = ()
    srun: Words = ()
    signal_seconds: Count = 120
    pack_minutes: Number = None
    simulations: Count = 4
    max_tasks: Number = None
    max_requeues: Whole = 50

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
    try:
        return checked(Site, given)
    except InputError as error:
        raise InputError(f"site file {file}: {error}") from None
