"""The base class of strategies: how workers share the computation and exchange gradients or weights."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from repro.algorithms.timing.setting import Place, Setting
from repro.algorithms.timing.step import Step
from repro.core import registry
from repro.core.errors import InputError
from repro.training.worker import Worker


@dataclass
class StepReport:
    """The result of one step.

    loss       a device tensor; None if the rank computes no loss
    staleness  for each update of this rank: the number of other updates between reading the weights and the update
    """

    loss: torch.Tensor | None
    minibatches: tuple[int, ...]
    samples: int
    staleness: tuple[int, ...] = ()


@dataclass(frozen=True)
class RunFacts:
    """Facts of a run before its ranks start; gpu: whether they compute on GPUs."""

    workers: int
    epochs: float
    gpu: bool = False


@dataclass
class NoOptions:
    """A strategy without options."""


class Strategy(ABC):
    """One instance a rank. A run calls setup, step ..., drain, close.

    `Options` is a dataclass of the options with their defaults; its `__post_init__` raises InputError for unusable
    values. Strategies never read a tensor's value on the host inside `step`.
    """

    name: ClassVar[str]
    requires: ClassVar[frozenset[str]] = frozenset()  # fabric capabilities
    Options: ClassVar[type] = NoOptions
    neutral: ClassVar[Mapping[str, Any]] = {}  # the options with which one worker is plain SGD
    unlike_plain_sgd: ClassVar[str] = ""  # why with no options one worker is plain SGD; "": with `neutral` it is
    conformance: ClassVar[Mapping[str, Any]] = {}  # options for `repro.testing`, whose model and runs are tiny
    form_options: ClassVar[Mapping[str, Any]] = {}  # options with which `repro map --check-forms` simulates it
    identical_replicas: ClassVar[bool] = True  # whenever settled, all ranks hold the same weights, bit for bit
    # why workers on equal minibatches end with other weights than one worker; "": they are the same up to rounding
    unlike_one_worker: ClassVar[str] = ""
    blocking: ClassVar[bool] = False  # whether its library calls a blocking allreduce, which MPI implements differently
    # whether each rank writes checkpoints without `settle` and without the others; `load_state_dict` then repeats the
    # sends that were in progress
    local_checkpoints: ClassVar[bool] = False
    uneven: ClassVar[bool] = False  # whether iterations differ in length even where ranks are equally fast

    def __init__(self, options: Any = None):
        self.options = options if options is not None else self.Options()

    @property
    def deterministic(self) -> bool:
        """Whether the weights, with these options, do not depend on which rank is faster.

        If they do, evaluating more often changes a run, because all ranks wait for each other at an evaluation.
        """
        return True

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Any:
        """The options from a mapping; InputError naming an unknown one and the valid ones."""
        return registry.parse_options("strategy", cls.name, cls.Options, values, "strategy")

    @classmethod
    def check(cls, options: Any, run: RunFacts) -> None:
        """InputError for options that a run cannot use; called before ranks start."""

    @classmethod
    def check_model(cls, options: Any, sizes: Sequence[int]) -> None:
        """InputError for options that do not suit a model, before `setup`; sizes: its blocks' trainable elements."""

    @classmethod
    def files(cls, options: Any) -> Sequence[Path]:
        """The files that a run with these options reads; their contents are part of the run's key."""
        return ()

    @classmethod
    def twin(cls, options: Any) -> tuple[str, dict[str, Any]] | None:
        """The strategy, by name and options, that replaces this one in virtual time; None: no model exists.

        A strategy on our fabric is its own twin. One whose library communicates needs a twin with the same algorithm,
        for comparisons of step times; weights may differ in rounding.
        """
        return cls.name, asdict(options)

    @classmethod
    def step_form(cls, setting: Setting, place: Place, options: Any) -> Step | None:
        """The closed form of a steady iteration of the global batch on a network; None: it has none, or is impossible.

        setting: the model's layers, the workers and the testbed's costs. place: this strategy's ranks and the link
        between two. `assemble_step` makes a `Step` of its parts. `repro recommend` ranks by it, or by the twin's.
        """
        return None

    @classmethod
    def least_step(cls, setting: Setting, place: Place, options: Any) -> Step | None:
        """A lower bound of the form (`Step.bound`), if that takes long; else the form."""
        return cls.step_form(setting, place, options)

    @classmethod
    def simulated(cls) -> type[Strategy]:
        """The class whose steps are simulated, with the same options; another one if this one needs a library."""
        return cls

    @classmethod
    def period(cls, setting: Setting, place: Place, options: Any) -> int:
        """The number of iterations after which all repeat."""
        return 1

    @classmethod
    def ranks(cls, options: Any, workers: int) -> int:
        """The number of ranks of a run with so many workers that compute gradients."""
        return workers

    def steps(self, minibatches: int) -> int:
        """The number of steps of this rank until the run has used so many minibatches."""
        return minibatches // self.worker.workers

    def setup(self, worker: Worker) -> None:
        """Called once before the first step (and before `load_state_dict`)."""
        self.worker = worker

    @abstractmethod
    def step(self) -> StepReport:
        """One training iteration of this rank."""

    def eval_weights(self) -> dict[str, torch.Tensor]:
        """A copy of this rank's weights, by name; training state stays unchanged."""
        return self.worker.model_shard.snapshot()

    def settle(self) -> None:
        """Wait for this rank's messages on the network, without using received ones.

        Called with the clock running before an evaluation or a checkpoint, so that no communication hides there.
        """

    def drain(self) -> None:
        """Use all received results; called at the end of the run only."""

    def counters(self) -> Mapping[str, torch.Tensor | float]:
        """This rank's totals since the run began, by name; the harness adds up the ranks. Keep them in the state."""
        return {}

    def describe(self) -> dict[str, Any] | None:
        """The strategy's decisions in this run, for the summary, the same on every rank; None: no decisions."""

    def describe_rank(self) -> dict[str, Any] | None:
        """This rank's role and memory, for the summary; called at the end of the run."""

    def state_dict(self) -> dict:
        """The state for a resume besides weights and optimizer: residuals, queues, counters. Called when settled.

        At every evaluation and checkpoint a tensor in it that is not finite ends the run (`repro.rank.divergence`).
        """
        return {}

    def load_state_dict(self, state: dict) -> None:
        """Restore a `state_dict`."""

    def close(self) -> None:
        """End the tasks and release the resources of `setup`."""


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


def describe_method(strategy: Strategy, name: str) -> str:
    """`FILE:LINE: exchange of strategy mine`, for an error about what a method does."""
    code = getattr(inspect.unwrap(getattr(type(strategy), name)), "__code__", None)
    place = f"{code.co_filename}:{code.co_firstlineno}: " if code else ""
    return f"{place}{name} of strategy {strategy.name}"
