"""The tests that every strategy must pass: `StrategyConformance`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar

import pytest

from repro import strategies
from repro.core import own_code
from repro.core.errors import InputError
from repro.fabric.sparse.gradients import CODECS
from repro.testing import real, small
from repro.testing.nccl import NcclRules
from repro.training.first_updates import describe_divided_twice, describe_undivided

STEPS, MOST_STEPS = 12, 400  # of a run; more if a strategy exchanges rarely
STOP = 5  # the earliest iteration of a checkpoint
UNLIKE_ONE_WORKER = (
    "Updates take the mean of the workers' gradients (`worker.update(total)` divides a sum), and averages of weights "
    'are means (`op="mean"`); if the weights are to differ all the same, declare why as `unlike_one_worker`'
)
LATE_S = 0.02  # several steps of the tiny model in virtual time


class StrategyConformance:
    """Subclass it in a test file, with a name that starts with Test, and set `strategy` to the name of a registered
    strategy, or to a file's class ("./mine.py:Mine").

    Every test trains the tiny model of `repro.testing.small`, in virtual time or, if the strategy needs the library of
    a real fabric, on real ranks of this machine.
    """

    strategy: ClassVar[str]
    options: ClassVar[Mapping[str, Any]] = {}  # if the defaults do not suit such a small model
    in_bits: ClassVar[bool] = False  # whether one worker equals plain SGD in all bits, not only up to rounding
    _usual: ClassVar[dict[tuple[type, str, str], small.SmallRun]] = {}

    @pytest.fixture
    def name(self) -> str:
        """The strategy under test; a class that is parametrized with `name` tests several."""
        if own_code.is_place(self.strategy):
            own_code.admit_plugin(self.strategy)
        return self.strategy

    def most(self, name: str) -> int:
        """The largest number of workers to test."""
        return real.RANKS if real.needed_library(name) else 6

    def numbers(self, name: str, *wanted: int) -> list[int]:
        """The wanted numbers of workers, limited by `most`."""
        return sorted({min(workers, self.most(name)) for workers in wanted})

    def run(self, name: str, options: Mapping[str, Any] | None = None, **how: Any) -> small.SmallRun:
        return small.run(name, {**self.options, **(options or {})}, **how)

    def usual(self, name: str) -> small.SmallRun:
        """The run without further settings on three workers, or fewer if more are not possible; made once."""
        (workers,) = self.numbers(name, 3)
        key = type(self), name, repr(self.options)
        if key not in self._usual:
            self._usual[key] = self.run(name, workers=workers)
        return self._usual[key]

    def test_one_worker_is_plain_sgd(self, name: str) -> None:
        """With the options that it calls `neutral`, unless it says in `unlike_plain_sgd` why none do."""
        chosen = strategies.load_strategy(name)
        if reason := chosen.unlike_plain_sgd:
            pytest.skip(f"{name} declares unlike_plain_sgd: {reason}")
        alone = self.run(name, chosen.neutral, workers=1)
        differences = small.describe_differences(alone.whole, small.plain_model(), rounding=not self.in_bits)
        assert not differences, (
            f"{name}, one worker, strategy and plain SGD: {'; '.join(differences)}. {describe_updates(alone)}If other "
            "options make them equal (K = 1, density = 1), declare these as `neutral`; if none do, declare why as "
            "`unlike_plain_sgd`"
        )

    def test_workers_on_the_same_data_are_one_worker(self, name: str) -> None:
        """If all workers compute on one minibatch, the model equals one worker's up to rounding."""
        if reason := strategies.load_strategy(name).unlike_one_worker:
            pytest.skip(f"{name} declares unlike_one_worker: {reason}")
        optimizer = small.SGD.model_copy(update={"momentum": 0.9, "weight_decay": 1e-3})
        (workers,) = self.numbers(name, 3)
        steps = self.exchanging(name, workers).steps
        alone, together = (
            self.run(name, workers=number, steps=steps, optimizer=optimizer, same_data=True) for number in (1, workers)
        )
        differences = small.describe_differences(together.whole, alone.whole, rounding=True)
        undivided = "; ".join(describe_undivided(together.first_updates, workers).values())
        size = undivided or describe_divided_twice(together.first_updates, workers)
        assert not differences, (
            f"{name}, {workers} workers and one on the same minibatches: {'; '.join(differences)}. "
            f"{describe_updates(together)}{size or UNLIKE_ONE_WORKER}"
        )

    def test_state_survives_a_checkpoint(self, name: str) -> None:
        """Stopping, writing a checkpoint and resuming with new ranks has the same result as not stopping.

        The stop is after an exchange between the ranks, if possible between two exchanges, and the run continues past
        it.
        """
        optimizer = small.SGD.model_copy(update={"momentum": 0.9, "weight_decay": 1e-3})
        (workers,) = self.numbers(name, 3)
        whole = self.exchanging(name, workers, optimizer=optimizer)
        how: dict[str, Any] = {"workers": workers, "steps": whole.steps, "optimizer": optimizer}
        resumed = self.run(name, stop_and_resume_at=stop_between(whole), **how)
        small.assert_same(whole, resumed, "`state_dict` must hold all that the next steps read")

    def test_what_a_checkpoint_holds_is_taken_up(self, name: str) -> None:
        """After a resume every rank has the state that was saved, also a rank that was late."""
        (workers,) = self.numbers(name, 3)
        delays = [[LATE_S * (worker == workers - 1) for worker in range(workers)], [0.0] * workers]
        how: dict[str, Any] = {"workers": workers, "steps": STOP, "drain": False, "delays": delays}
        written, read = self.run(name, **how), self.run(name, stop_and_resume_at=STOP, **how)
        wrong = small.describe_differences(read.states, written.states) if written.exact else []
        assert not wrong, f"the loaded state and the saved one, by rank: {'; '.join(wrong)}"

    def exchanging(self, name: str, workers: int, **how: Any) -> small.SmallRun:
        """A run that is long enough for a stop between two exchanges."""
        steps = STEPS
        while steps < MOST_STEPS:
            run = self.run(name, workers=workers, steps=steps, **how)
            if stop_between(run):
                return run
            steps *= 2
        times = f"{len(run.exchanges)} times" if run.exchanges else "nothing"
        pytest.fail(
            f"{name}: {workers} ranks exchanged {times} in {steps // 2} iterations, too rarely to test a later "
            "exchange; set the test's `options` so that they exchange more often"
        )

    def test_all_ranks_end_with_the_same_bits(self, name: str) -> None:
        """With each codec, if there is the option."""
        chosen = strategies.load_strategy(name)
        if not chosen.identical_replicas:
            pytest.skip(f"{name} declares identical_replicas = False")
        codecs = [{"codec": codec} for codec in CODECS]
        for options in codecs if hasattr(chosen.Options, "codec") else [{}]:
            for workers in self.numbers(name, *((2, 3, 6) if options in ({}, codecs[0]) else (6,))):
                evaluated = self.run(name, options, workers=workers, steps=7).evaluated
                differences = [
                    f"ranks 0 and {rank}: {text}"
                    for rank, weights in enumerate(evaluated)
                    for text in small.describe_differences(evaluated[0], weights)
                ]
                assert not differences, (
                    f"{name}, {workers} workers, {options}: {'; '.join(differences)}. If replicas are to differ, "
                    "declare `identical_replicas = False`"
                )

    def test_the_evaluated_model_is_whole(self, name: str) -> None:
        """Together, the ranks' evaluation weights are the whole model."""
        for workers in self.numbers(name, 1, 3):
            assert set.union(*self.run(name, workers=workers, steps=1).held) == set(small.model().state_dict())

    def test_evaluating_more_often_changes_nothing(self, name: str) -> None:
        (workers,) = self.numbers(name, 3)
        often = self.run(name, workers=workers, settle_every=1)
        small.assert_same(often, self.usual(name), "`settle` and `eval_weights` must not change the training")

    def test_two_runs_are_the_same(self, name: str) -> None:
        (workers,) = self.numbers(name, 3)
        first, second = self.usual(name), self.run(name, workers=workers)
        small.assert_same(first, second)
        if first.exact:
            assert first.losses == second.losses
        if not real.needed_library(name):  # in virtual time
            assert first.seconds == second.seconds

    def test_whoever_is_late(self, name: str) -> None:
        """The weights do not depend on which worker is late, unless the strategy declares otherwise."""
        chosen = strategies.load_strategy(name)
        if not chosen(chosen.parse(self.options)).deterministic:
            pytest.skip(f"{name} declares deterministic = False")
        (workers,) = self.numbers(name, 3)
        for late in range(workers):
            delays = [[LATE_S * (worker == late) for worker in range(workers)], [0.0] * workers]
            delayed = self.run(name, workers=workers, delays=delays)
            remedy = f"worker {late} was late; if the weights are to depend on it, declare `deterministic = False`"
            small.assert_same(self.usual(name), delayed, remedy)

    def test_it_runs_by_nccls_rules(self, name: str) -> None:
        """If it needs nothing that NCCL lacks, its messages do not deadlock there, and the bits are the same."""
        if lacking := strategies.load_strategy(name).requires - NcclRules.capabilities:
            pytest.skip(f"{name} needs {', '.join(sorted(lacking))}, which NCCL lacks")
        for workers in self.numbers(name, 2, 3):
            here = self.run(name, workers=workers, steps=5)
            small.assert_same(here, self.run(name, workers=workers, steps=5, fabric="nccl"))

    def test_an_unknown_option_is_named(self, name: str) -> None:
        chosen = strategies.load_strategy(name)
        with pytest.raises(InputError, match=f"{re.escape(chosen.name)} has no option 'nonsense'"):
            chosen.parse({"nonsense": 1})


def describe_updates(run: small.SmallRun) -> str:
    """A sentence on a rank that updates the weights more often than once an iteration; else ""."""
    if (most := max(run.updates)) <= run.steps:
        return ""
    return (
        f"It made {most:g} updates of the weights in {run.steps} iterations, where plain SGD makes one in "
        "each: `worker.update` may be called once a step. "
    )


def stop_between(run: small.SmallRun) -> int:
    """The most informative iteration for a checkpoint; 0 if the run is too short.

    It is in the middle between two exchanges, the later of which is not at the run's end, after an earlier exchange:
    the first one may only distribute initial values.
    """
    for before, after in pairwise(run.exchanges[1:]):
        if (middle := (before + after) // 2) >= STOP and after < run.steps:
            return middle
    return 0
