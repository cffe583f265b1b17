"""What a launcher is: how the ranks of a run are started somewhere, and what fabric they then talk over."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from repro.experiment.needs import Needs
from repro.experiment.testbeds import Testbed
from repro.fabric import FABRICS


@dataclass
class Allocation:
    """Where the ranks of one run can now be started.

    command      the command line whose process lives as long as the ranks
    environment  of that process
    network      facts measured about the links, for the record of the run: rates, latencies; empty where none were
    """

    command: list[str]
    environment: dict[str, str]
    network: dict[str, Any] = field(default_factory=dict)


class Launcher(ABC):
    """One a testbed; `testbed` is its part of the configuration."""

    name: ClassVar[str]  # a testbed's `launcher`
    kind: ClassVar[str] = "measured"  # of the testbeds that it goes with
    limited: ClassVar[bool] = False  # whether it goes with those that have limited links, or with the others
    pooled: ClassVar[bool] = True  # whether ranks may be forked on this machine (`repro.launch.pool`)
    no_gpus: ClassVar[str] = "torch sees no working GPU here; use device=cpu or auto"
    modules: ClassVar[Sequence[str]] = ()  # whose code decides over measured times; their edits have runs repeated

    def __init__(self, testbed: Testbed):
        self.testbed = testbed

    @property
    @abstractmethod
    def fabric(self) -> str:
        """The name in `repro.fabric.FABRICS` of what the ranks talk over."""

    def code_roots(self) -> list[str]:
        """The modules whose code a run's numbers come from."""
        return [*self.modules, FABRICS[self.fabric]]

    def check(self, ranks: int) -> None:
        """InputError where so many ranks cannot be started on this testbed; changes nothing."""

    def settled(self, needs: Needs) -> Testbed:
        """The testbed with a value in the place of what it leaves to the run's needs."""
        return self.testbed

    def hardware_class(self) -> str | None:
        """What stands for the hardware in a run's key; None: this machine's own class."""
        return None

    def gpus(self) -> bool:
        """Whether there are GPUs for the ranks where they will run."""
        import torch

        return torch.cuda.is_available()

    @abstractmethod
    def place(
        self, ranks: int, program: Sequence[str], threads: int, python: str = sys.executable
    ) -> AbstractContextManager[Allocation]:
        """A place to start `ranks` ranks of `program` (arguments to `python`), each with so many threads.

        InputError where it cannot be had here. Leaving the context gives back whatever had to be set up.
        """
