"""The interface of launchers, which start the ranks of a run and determine their fabric."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from repro.core.without_pytorch import gpu_devices, is_imported
from repro.experiment.needs import Needs
from repro.experiment.testbeds import Testbed


@dataclass
class Allocation:
    """What is needed to start the ranks of one run.

    command      the command line; its process lives as long as the ranks
    environment  the environment of that process
    network      rates and latencies measured on the links, for the run's record; may be empty
    """

    command: list[str]
    environment: dict[str, str]
    network: dict[str, Any] = field(default_factory=dict)


class Launcher(ABC):
    """The launcher of one testbed."""

    name: ClassVar[str]  # the value of the testbed's `launcher` option
    kind: ClassVar[str] = "measured"  # the kind of testbed that it supports
    limited: ClassVar[bool] = False  # whether it supports testbeds with or without limited links
    pooled: ClassVar[bool] = True  # whether ranks may be forked on this machine (`repro.launch.pool`)
    no_gpus: ClassVar[str] = "torch sees no working GPU here; use device=cpu or auto"
    modules: ClassVar[Sequence[str]] = ()  # modules that affect measured times; they are part of run keys

    def __init__(self, testbed: Testbed):
        self.testbed = testbed

    @property
    @abstractmethod
    def fabric(self) -> str:
        """The name of the ranks' fabric in `repro.fabric.FABRICS`."""

    def check(self, ranks: int) -> None:
        """InputError if so many ranks cannot be started on this testbed; has no side effects."""

    def check_startable(self) -> None:
        """InputError if this command cannot start ranks on this testbed, where others can; has no side effects."""

    def resolved(self, needs: Needs) -> Testbed:
        """The testbed with concrete values for options that depend on the run's needs."""
        return self.testbed

    def hardware_class(self) -> str | None:
        """The hardware class for a run's key; None: that of this machine."""
        return None

    def gpus(self) -> bool:
        """Whether the ranks will have GPUs."""
        if not is_imported() and not gpu_devices():
            return False  # at once
        import torch

        return torch.cuda.is_available()

    @abstractmethod
    def allocate(self, ranks: int, program: Sequence[str], threads: int, python: str = sys.executable) -> Allocation:
        """What is needed to start `ranks` ranks of `program` (arguments to `python`) with so many threads each.

        InputError if that is impossible here.
        """
