"""Bugs of resuming, each of which the series of faults must report as a loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

KILLED = "killed half-way"  # the gentlest of faults: the run goes on from its newest checkpoint


class Bug(NamedTuple):
    """What is wrong with ranks once `plant` was called, whose run of `strategy` then meets a `fault`."""

    strategy: str
    plant: Callable[[], None]
    fault: str = KILLED


def state_changed(change: Callable[[dict[str, Any]], Any]) -> Callable[[], None]:
    """What a rank takes up is `change`d first: its part, its strategy, its clock and counts."""

    def plant() -> None:
        from repro.rank.checkpointer import Checkpointer

        restore = Checkpointer.restore

        def wrong(checkpointer: Checkpointer, iteration: int, state: dict[str, Any]) -> None:
            change(state)
            restore(checkpointer, iteration, state)

        Checkpointer.restore = wrong

    return plant


def of_server(change: Callable[[dict[str, Any]], Any]) -> Callable[[], None]:
    """The same of the rank that is a server alone."""
    return state_changed(lambda state: change(state["strategy"]["server"]) if state["strategy"]["server"] else None)


def without_momentum(optimizer: dict[str, Any]) -> None:
    for each in optimizer["state"].values():
        each["momentum_buffer"].zero_()


def warmup_begins_again() -> None:
    from repro.training.model_shard import ModelShard
    from repro.training.optimizers import Schedule

    load = ModelShard.load_state_dict
    resumed: list[int] = []

    def wrong_load(shard: ModelShard, state: dict) -> None:
        load(shard, state)
        resumed.append(state["updates"])

    def wrong_rate(schedule: Schedule, t: int) -> float:
        epoch = (t - 1 - (resumed[0] if resumed else 0)) // schedule.updates_per_epoch
        return schedule._scheduled(t) * (*schedule.warmup, 1.0)[min(epoch, len(schedule.warmup))]

    ModelShard.load_state_dict, Schedule.rate = wrong_load, wrong_rate


def an_older_generation() -> None:
    from repro.rank.checkpoints import Checkpoints

    load = Checkpoints.load
    Checkpoints.load = lambda self, iteration: load(self, self.available()[0] if self.rank == 1 else iteration)


def from_the_beginning() -> None:
    from repro.rank.checkpoints import Checkpoints

    Checkpoints.available = lambda self: []


def anything_is_unpickled() -> None:
    import torch

    load = torch.load
    torch.load = lambda *given, **named: load(*given, **named | {"weights_only": False})


def versions_forgotten() -> None:
    from repro.algorithms.pipeline.versions import Versions

    load = Versions.load_state_dict

    def wrong(versions: Versions, state: dict) -> None:
        load(versions, state)
        for vector in versions.held.values():
            vector.copy_(versions.shard.weights)

    Versions.load_state_dict = wrong


BUGS = {
    "the optimizer's momentum": Bug("dsync", state_changed(lambda state: without_momentum(state["part"]["optimizer"]))),
    "the schedule's position": Bug("dsync", state_changed(lambda state: state["part"].update(updates=0))),
    "the end of warm-up": Bug("dsync", warmup_begins_again),
    "the position in the data": Bug("dsync", state_changed(lambda state: state["strategy"].update(iteration=0))),
    "a codec's random numbers": Bug("dsync", state_changed(lambda state: state["strategy"].update(allreduce={}))),
    "all that was done": Bug("dsync", from_the_beginning),
    "one rank's newest generation": Bug("dsync", an_older_generation),
    "the limit to plain values": Bug("dsync", anything_is_unpickled, "checkpoint that executes code"),
    "a residual": Bug("gtopk", state_changed(lambda state: state["strategy"]["residual"].zero_())),
    "the velocity of a residual": Bug("gtopk", state_changed(lambda state: state["strategy"]["velocity"].zero_())),
    "a queue of results": Bug("gtopk", state_changed(lambda state: state["strategy"].update(ready=[]))),
    "how stale gradients were": Bug("gtopk", state_changed(lambda state: state.update(staleness={}))),
    "stashed versions": Bug("pipedream", versions_forgotten),
    "the server's momentum": Bug(
        "ps_default", of_server(lambda server: without_momentum(server["shard"]["optimizer"]))
    ),
    "what was dropped": Bug(
        "ps_default",
        state_changed(lambda state: None if state["strategy"]["server"] else state["strategy"]["residual"].zero_()),
    ),
    "a send buffer": Bug(
        "eager_quorum", state_changed(lambda state: state["strategy"]["partial"]["send_buffer"]["send"].zero_())
    ),
    "the count of gradients": Bug(
        "eager_quorum", state_changed(lambda state: state["strategy"]["partial"].update(counted={}))
    ),
}
