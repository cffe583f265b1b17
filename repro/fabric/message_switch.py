"""Messages that can be emptied or left out, to measure what they cost: the same training with and without them.

A switch replaces the transfers of one rank's fabric, so that neither strategies nor collectives notice. Whoever turns
it turns it on all ranks, while no message is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from repro.fabric.base import CONTROL, MAIN, DoneWork, Fabric, Work

WHOLE, EMPTY, NONE = "whole", "empty", "none"


class MessageSwitch:
    """mode:

    WHOLE  the fabric as it is
    EMPTY  each message has one element, so that ranks wait for each other as before, and what it would bring is zeros
    NONE   no messages: a rank trains alone on its own minibatches

    One element, because NCCL sends no empty message. Channel CONTROL, the harness's own, is never changed.
    """

    def __init__(self, fabric: Fabric):
        self.mode = WHOLE
        self._install(fabric)

    def _install(self, fabric: Fabric) -> None:
        subgroup, allgather, broadcast = fabric.subgroup, fabric.allgather, fabric.broadcast

        def gathered(tensor: torch.Tensor, channel: int = MAIN) -> list[torch.Tensor]:
            if self._is_whole(channel):
                return allgather(tensor, channel)
            if self.mode == EMPTY:
                allgather(first_element(tensor), channel)
            return [tensor.clone() for _ in range(fabric.size)]

        def subgroup_with_switch(ranks: Sequence[int]) -> Fabric | None:
            part = subgroup(ranks)
            if part is not None:
                self._install(part)
            return part

        def broadcast_or_not(tensor: torch.Tensor, root: int = 0, channel: int = MAIN) -> None:
            if self._is_whole(channel):
                broadcast(tensor, root, channel)
            elif self.mode == EMPTY:
                broadcast(first_element(tensor), root, channel)

        barrier, wait_all, wait_any = fabric.barrier, fabric.wait_all, fabric.wait_any

        def barrier_or_not(channel: int = MAIN) -> None:
            if self.mode != NONE or channel == CONTROL:
                barrier(channel)

        def all_waited(works: Sequence[Work], timeout: float | None = None) -> None:
            wait_all([work for work in works if not isinstance(work, DoneWork)], timeout)

        def any_waited(works: Sequence[Work], timeout: float | None = None) -> int:
            done = (index for index, work in enumerate(works) if isinstance(work, DoneWork))
            return wait_any(works, timeout) if (index := next(done, None)) is None else index

        replaced: dict[str, Callable[..., Any]] = {
            "isend": self._transfer(fabric.isend, receives=False),
            "irecv": self._transfer(fabric.irecv, receives=True),
            "native_allreduce": self._allreduce(fabric.native_allreduce),
            "allgather": gathered,
            "broadcast": broadcast_or_not,
            "barrier": barrier_or_not,
            "subgroup": subgroup_with_switch,
            "wait_all": all_waited,
            "wait_any": any_waited,
        }
        vars(fabric).update(replaced)

    def _is_whole(self, channel: int) -> bool:
        return self.mode == WHOLE or channel == CONTROL

    def _transfer(self, transfer: Callable[..., Work], receives: bool) -> Callable[..., Work]:
        def replaced(tensor: torch.Tensor, peer: int, tag: int = 0, channel: int = MAIN) -> Work:
            if self._is_whole(channel) or not tensor.numel():
                return transfer(tensor, peer, tag, channel)
            if receives and not tensor.is_meta:
                tensor.zero_()
            if self.mode == EMPTY:
                return transfer(first_element(tensor), peer, tag, channel)
            return DoneWork()

        return replaced

    def _allreduce(self, allreduce: Callable[..., Work]) -> Callable[..., Work]:
        def replaced(tensor: torch.Tensor, channel: int = MAIN) -> Work:
            if self._is_whole(channel):
                return allreduce(tensor, channel)
            return allreduce(first_element(tensor).clone(), channel) if self.mode == EMPTY else DoneWork()

        return replaced


def first_element(tensor: torch.Tensor) -> torch.Tensor:
    """A view of a contiguous tensor's first element, (1,)."""
    return tensor.detach().view(-1)[:1]
