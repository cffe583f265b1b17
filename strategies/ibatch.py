"""iBatch: workers pull parameters in batches of layers, chosen from a profile (Wang, Pi, Zhou, AAAI 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.algorithms.batching import profile as profiles
from repro.algorithms.batching.decision import MODES, decide_batches
from repro.algorithms.batching.profile import PullProfile
from repro.algorithms.batching.times import Batches
from repro.core.config_folders import profile_path
from repro.core.errors import InputError, unknown_name
from repro.strategies.base import RunFacts
from repro.strategies.shared.sharded_server import ServerOptions, ShardedServer


@dataclass
class IBatchOptions(ServerOptions):
    mode: str = "greedy"  # greedy (the better of Algorithms 1 and 2), algorithm1, algorithm2, exact; default, layerwise
    batches: list | None = None  # instead of a decision: [[1, 5], [6, 10], [11, 12]]
    profile: str | None = None  # a file of startup_s, transfer_s, forward_s; null: measured when the run begins

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode not in MODES:
            raise unknown_name("strategy.mode", str(self.mode), MODES)
        if self.batches is not None:
            check_batches(self.batches)
            if self.profile is not None:
                raise InputError("strategy.batches and strategy.profile: only one of them can be given")


class IBatch(ShardedServer):
    """As the default parameter server, but a batch's parameters arrive while the batch before it computes."""

    name = "ibatch"
    Options = IBatchOptions

    @property
    def measures(self) -> bool:
        return self.options.measure or self.options.batches is None

    @property
    def mode(self) -> str:
        return "given" if self.options.batches is not None else self.options.mode

    def decide(self, profile: PullProfile) -> Batches:
        if self.options.batches is not None:
            check_batches(self.options.batches, len(profile.forward_s))
            return tuple((first, last) for first, last in self.options.batches)
        return decide_batches(profile, self.options.mode)

    def profile(self) -> PullProfile | None:
        if self.options.profile is None:
            return None
        profile = profiles.read_pulls(profile_path(self.options.profile))
        self._check_fits(profile)
        return profile

    def _check_fits(self, profile: PullProfile) -> None:
        """InputError for the profile of another model or cluster; missing entries are not compared."""
        worker, where = self.worker, f"strategy.profile={self.options.profile}"
        blocks = len(self.sizes)
        if len(profile.forward_s) != blocks:
            raise InputError(f"{where}: has {len(profile.forward_s)} layers, but the model has {blocks}")
        names = tuple(name for name, _ in worker.model_shard.model.named_children())
        for what, theirs, ours in (
            ("layers", profile.layers, names),
            ("parameters of the layers", profile.parameters, tuple(self.sizes)),
            ("workers", profile.workers, worker.workers),
            ("servers of their own", profile.servers, self.options.servers),
            ("samples of a worker's minibatch", profile.batch, worker.batches.size),
        ):
            if theirs not in (None, (), ours):
                raise InputError(f"{where}: is of another run: {what} {_short(theirs)}, here {_short(ours)}")

    @classmethod
    def files(cls, options: IBatchOptions) -> Sequence[Path]:
        return [] if options.profile is None else [profile_path(options.profile)]

    @classmethod
    def check(cls, options: IBatchOptions, run: RunFacts) -> None:
        """InputError for a profile that cannot be read, or is of another number of workers."""
        if options.profile is not None:
            profile = profiles.read_pulls(profile_path(options.profile))
            if profile.workers not in (None, run.workers):
                raise InputError(
                    f"strategy.profile={options.profile}: is of {profile.workers} workers, but the run has "
                    f"workers={run.workers}"
                )


def check_batches(batches: Any, layers: int | None = None) -> None:
    """InputError unless batches follow each other from layer 1 to the last."""
    form = "must be a list of [first, last] layers that follow each other from 1, for instance [[1,5],[6,10],[11,12]]"
    pairs = isinstance(batches, Sequence) and not isinstance(batches, str) and len(batches) > 0
    if not pairs or not all(isinstance(pair, Sequence) and len(pair) == 2 for pair in batches):
        raise InputError(f"strategy.batches={batches}: {form}")
    expected = 1
    for first, last in batches:
        whole = all(isinstance(n, int) and not isinstance(n, bool) for n in (first, last))
        if not whole or first != expected or last < first:
            raise InputError(f"strategy.batches={batches}: {form}")
        expected = last + 1
    if layers is not None and expected != layers + 1:
        raise InputError(f"strategy.batches={batches}: end at layer {expected - 1}, but the model has {layers} layers")


def _short(value: Any) -> str:
    text = str(list(value)) if isinstance(value, tuple) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
