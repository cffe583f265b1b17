"""What a strategy is: how the workers share the work and exchange what they learn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from repro.core import registry
from repro.core.errors import InputError
from repro.training.worker import Worker


@dataclass
class StepReport:
    """What one step did: loss (a device tensor, or None where the rank has none) and the minibatches it used."""

    loss: torch.Tensor | None
    minibatches: tuple[int, ...]
    samples: int
    # for each update of this rank: how many other updates lie between reading the weights and using the gradient
    staleness: tuple[int, ...] = ()


@dataclass(frozen=True)
class RunFacts:
    """What is known of a run before its ranks start; gpu: whether they compute on GPUs."""

    workers: int
    epochs: float
    gpu: bool = False


@dataclass
class NoOptions:
    """A strategy without options."""


class Strategy(ABC):
    """One instance a rank. `step` is the primitive; a run calls setup, step ..., drain, close.

    `Options` is a dataclass of the options with their defaults; its `__post_init__` raises InputError on values that
    cannot be used. Strategies never read a tensor's value on the host inside `step`.
    """

    name: ClassVar[str]
    requires: ClassVar[frozenset[str]] = frozenset()  # fabric capabilities
    Options: ClassVar[type] = NoOptions
    neutral: ClassVar[Mapping[str, Any]] = {}  # the options with which one worker is plain SGD, bit for bit
    conformance: ClassVar[Mapping[str, Any]] = {}  # those for `repro.testing`, whose model and runs are tiny
    identical_replicas: ClassVar[bool] = True  # whenever settled, all ranks hold the same weights, bit for bit
    # why workers that all compute on the same minibatches do not end as one worker does; "": they do, up to rounding
    unlike_one_worker: ClassVar[str] = ""
    blocking: ClassVar[bool] = False  # whether its library calls an allreduce that blocks, for which MPI takes others
    # whether `state_dict` needs no `settle` before it: each rank then writes its checkpoints by itself, when it comes
    # to them, and `load_state_dict` sends again what was on the network
    local_checkpoints: ClassVar[bool] = False

    def __init__(self, options: Any = None):
        self.options = options if options is not None else self.Options()

    @property
    def deterministic(self) -> bool:
        """Whether the weights, with these options, do not depend on which rank is faster.

        Where they do, evaluating more often changes a run: at a stop all ranks wait for each other.
        """
        return True

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Any:
        """The options from a mapping; InputError naming an unknown one and the valid ones."""
        return registry.parse("strategy", cls.name, cls.Options, given, "strategy")

    @classmethod
    def check(cls, options: Any, run: RunFacts) -> None:
        """InputError for options that a run cannot use. Before ranks start."""

    @classmethod
    def check_model(cls, options: Any, sizes: Sequence[int]) -> None:
        """InputError for options that a model cannot be trained with; `sizes`: its blocks' elements to train.

        Called where the model is known; a run that got past it may rely on it.
        """

    @classmethod
    def files(cls, options: Any) -> Sequence[Path]:
        """The files that a run with these options reads: their contents count as the options themselves do."""
        return ()

    @classmethod
    def twin(cls, options: Any) -> tuple[str, dict[str, Any]] | None:
        """The strategy of ours, by name and options, that stands for this one in virtual time; None: no model of it.

        Those written on our fabric run there themselves. One that leaves communication to a library needs another
        that follows the same algorithm, to be compared with on step times; its weights may differ in rounding.
        """
        return cls.name, asdict(options)

    @classmethod
    def ranks(cls, options: Any, workers: int) -> int:
        """How many ranks a run with these options and that many gradient-computing workers needs."""
        return workers

    def steps(self, minibatches: int) -> int:
        """How many steps this rank takes until the run has used that many minibatches."""
        return minibatches // self.worker.workers

    def setup(self, worker: Worker) -> None:
        """Called once before the first step (and before `load_state_dict`)."""
        self.worker = worker

    @abstractmethod
    def step(self) -> StepReport:
        """One training iteration of this rank."""

    def eval_weights(self) -> dict[str, torch.Tensor]:
        """A copy of the weights that this rank holds, by name; training state stays untouched."""
        return self.worker.model_shard.snapshot()

    def settle(self) -> None:
        """Wait until nothing that this rank started is on the network, without using what has come in.

        Called with the clock running before an evaluation or a checkpoint, so that no communication hides there.
        """

    def drain(self) -> None:
        """End of the run only: use up what is still under way."""

    def counters(self) -> Mapping[str, torch.Tensor | float]:
        """What this rank has counted since the run began, by name; the harness adds up the ranks at every stop.

        Totals belong to `state_dict`.
        """
        return {}

    def describe(self) -> dict[str, Any] | None:
        """What the strategy has made of its options in this run, for the summary: the same on every rank, or None."""

    def describe_rank(self) -> dict[str, Any] | None:
        """What this rank was and held, for the summary; called at the end of the run."""

    def state_dict(self) -> dict:
        """All that resume needs besides weights and optimizer: residuals, queues, counters. Called when settled.

        At every stop, also at the last: a tensor in it that is not finite ends the run (`repro.rank.divergence`).
        """
        return {}

    def load_state_dict(self, state: dict) -> None:
        """Take up where `state_dict` was called."""

    def close(self) -> None:
        """Stop what `setup` started."""


def set_up(strategy: Strategy, worker: Worker) -> None:
    """Call the strategy's `setup`; InputError naming its class if that never reaches `Strategy.setup`."""
    problem = f"strategy {strategy.name}: {type(strategy).setup.__qualname__} does not call super().setup(worker)"
    try:
        strategy.setup(worker)
    except AttributeError as error:
        if error.obj is not strategy or error.name != "worker":
            raise
        raise InputError(f"{problem} before it uses self.worker") from error
    if not hasattr(strategy, "worker"):
        raise InputError(f"{problem}, which sets self.worker")
