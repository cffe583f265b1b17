"""Bugs of resuming: the series of faults must report each as a loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

KILLED = "killed half-way"  # the mildest fault: the run resumes from its newest checkpoint


class Bug(NamedTuple):
    """`plant` patches the ranks; then a `fault` is injected into a run of `strategy`."""

    strategy: str
    plant: Callable[[], None]
    fault: str = KILLED


def state_changed(change: Callable[[dict[str, Any]], Any]) -> Callable[[], None]:
    """Apply `change` to the state that a rank loads: its model shard, its strategy, its clock and counts."""

    def plant() -> None:
        from repro.rank.checkpointer import Checkpointer

        restore = Checkpointer.restore

        def wrong(checkpointer: Checkpointer, iteration: int, state: dict[str, Any]) -> None:
            change(state)
            restore(checkpointer, iteration, state)

        Checkpointer.restore = wrong

    return plant


def of_server(change: Callable[[dict[str, Any]], Any]) -> Callable[[], None]:
    """As `state_changed`, only on the server."""
    return state_changed(lambda state: change(state["strategy"]["server"]) if state["strategy"]["server"] else None)


def without_momentum(optimizer: dict[str, Any]) -> None:
    for each in optimizer["state"].values():
        each["momentum_buffer"].zero_()


def an_older_generation() -> None:
    from repro.rank.checkpoints import Checkpoints

    load = Checkpoints.load
    Checkpoints.load = lambda self, iteration: load(self, self.available()[0] if self.rank == 1 else iteration)


def anything_is_unpickled() -> None:
    import torch

    load = torch.load
    torch.load = lambda *args, **options: load(*args, **options | {"weights_only": False})


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
    "the position in the data": Bug("dsync", state_changed(lambda state: state["strategy"].update(iteration=0))),
    "a codec's random numbers": Bug("dsync", state_changed(lambda state: state["strategy"].update(allreduce={}))),
    "one rank's newest generation": Bug("dsync", an_older_generation),
    "the limit to plain values": Bug("dsync", anything_is_unpickled, "checkpoint that executes code"),
    "a residual": Bug("gtopk", state_changed(lambda state: state["strategy"]["residual"].zero_())),
    "stashed versions": Bug("pipedream", versions_forgotten),
    "the server's momentum": Bug(
        "ps_default", of_server(lambda server: without_momentum(server["shard"]["optimizer"]))
    ),
    "a send buffer": Bug(
        "eager_quorum", state_changed(lambda state: state["strategy"]["partial"]["send_buffers"][0]["send"].zero_())
    ),
}
