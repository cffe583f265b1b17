"""Site options: the settings of one cluster for the job script and srun, from a YAML file."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import AfterValidator, ConfigDict

from repro.core import user_files
from repro.core.errors import InputError
from repro.core.fields import Count, Model, Whole, check_fields
from repro.core.paths import CONFIGS
from repro.core.user_files import read_bytes

DEFAULT = CONFIGS / "site" / "slurm.yaml"
UNSET = ("", "null", "~", "None")


def _on_one_line(text: str) -> str:
    if "\n" in text:
        raise ValueError("must be on one line")
    return text


Line = Annotated[str, AfterValidator(_on_one_line)]
Word = Line | None
Words = tuple[Line, ...]
Number = Count | None


class Site(Model):
    """The options of `paper_configs/site/slurm.yaml`, where each is documented."""

    model_config = ConfigDict(strict=False)  # values are text

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
        """The largest number of ranks on a node."""
        return self.ranks_per_node or self.gpus_per_node or 1

    def gpus(self, ranks: int, every_rank: bool = True) -> tuple[str, str] | None:
        """sbatch's option and value for the GPUs of so many ranks, per node or per task.

        every_rank: whether every task of the job uses a GPU.
        """
        if not self.gpus_per_node:
            return None
        if self.gpus_per_task and every_rank:
            return "gpus-per-task", ":".join(filter(None, (self.gpu_type, "1")))
        used = min(self.gpus_per_node, self.on_a_node(ranks))
        return "gres", ":".join(filter(None, ("gpu", self.gpu_type, str(used))))

    @property
    def ranks_python(self) -> list[str]:
        """The words that start a rank's Python; `container` or Pyxis' srun option may start it in a container."""
        if self.container or any(word.startswith("--container-image") for word in self.srun):
            return [*self.container, self.container_python or "python3"]
        return [self.container_python or self.python or sys.executable]

    def nodes(self, ranks: int) -> int:
        return -(-ranks // self.per_node)

    def on_a_node(self, ranks: int) -> int:
        """The largest number of ranks on a node if so many are distributed evenly."""
        return -(-ranks // self.nodes(ranks))

    def hardware_class(self) -> str:
        """The hardware class in a run's key: cluster, partition and ranks per node, without host names.

        Time limits, accounts and queues are left out, because they do not change a measured time.
        """
        kind = f"{self.gpus_per_node}x{self.gpu_type or 'gpu'}" if self.gpus_per_node else "cpu"
        text = f"{self.cluster or 'slurm'}-{self.partition or 'default'}-{kind}-{self.per_node}x{self.cpus_per_rank}cpu"
        return re.sub(r"[^a-z0-9]+", "-", text.lower())


def site_path() -> Path:
    """$REPRO_SITE, else the site file of the checkout."""
    return Path(os.environ.get("REPRO_SITE") or DEFAULT)


def load_site(file: Path | None = None) -> Site:
    """The options of a file (default: `site_path()`); InputError names the file and the invalid option."""
    named = "$REPRO_SITE or --site: " if file is None and os.environ.get("REPRO_SITE") else ""
    file = file or site_path()
    where = f"{named}site file {file}"
    try:
        # as text: YAML would convert 24:00:00 to a number of seconds
        options = user_files.parse_plain(read_bytes(file), yaml.BaseLoader)
        if options in (None, ""):
            options = {}
        if not isinstance(options, dict):
            raise ValueError("must be lines of `option: value`")
        return check_fields(Site, {name: value for name, value in options.items() if value not in UNSET})
    except OSError as error:
        raise InputError(f"{where}: {error.strerror}") from None
    except (yaml.YAMLError, ValueError, InputError) as error:
        raise InputError(f"{where}: {user_files.describe_yaml_error(file, error)}") from None
