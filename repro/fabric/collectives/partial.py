"""The partial allreduce: rounds that complete without waiting for late ranks (eager-SGD, sections 4, 5 and 5.1.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from repro.core.not_none import not_none
from repro.fabric.base import Fabric
from repro.fabric.collectives.activation import Activation
from repro.fabric.collectives.send_buffer import SendBuffer


class PartialAllreduce:
    """ADS(0), ADS(1), ... of section 5.1.1 as one persistent schedule, which a task executes round after round.

    The main task contributes one vector for each step, `propose(step, gradient)`, to the round of the same number;
    `began` and `ended` wait for that round; `latest` reads the receive buffer. A round takes from every rank the
    contents of its send buffer when the round starts there: the step's gradient, late gradients of earlier steps, or
    null. A rank that reaches a round which has started without it leaves its gradient in the send buffer for a later
    one (Figure 7).

    The receive buffer holds only the latest round's result (section 4.1.1, persistent schedules): a rank that is two
    rounds late never sees the first of them.

    counted  this rank's rounds, active (its gradient of the step was in time), null (it contributed nothing), stale (it
             contributed an earlier step's gradient), accepted (gradients contributed), dropped
    """

    def __init__(self, fabric: Fabric, send_buffer: SendBuffer, activation: Callable[..., Activation]):
        """send_buffer: with 2 x size flags.

        activation: constructs an `Activation` from the function that starts a round.
        """
        self.fabric, self.send_buffer = fabric, send_buffer
        self.lock, self.changed = fabric.lock(), fabric.event()
        self.begun = self.done = 0  # the number of rounds that have started and ended on this rank
        self.held: list[int] = []  # steps whose gradients wait for a round
        self.received: torch.Tensor | None = None  # the receive buffer
        self.counted: Counter[str] = Counter()
        self.delays: list[int] = []  # rounds between an accepted gradient's step and its round
        self.todo = fabric.queue()
        self.activation = activation(self.todo.put)
        self.task = fabric.spawn(self._execute, "rounds")

    # --- the main task
    def propose(self, step: int, gradient: torch.Tensor, drop: bool = False) -> bool:
        """Contribute this rank's gradient (n,) of a step; returns whether it was in time for the step's round.

        drop: discard a late gradient, as some implementations do, instead of keeping it for a later round.
        """
        with self.lock:
            late = self.begun > step
            if late and drop:
                self.counted["dropped"] += 1
            else:
                self.send_buffer.add(gradient)
                self.held.append(step)
        if not late:
            self.activation.arrive(step)
        return not late

    def began(self, step: int) -> None:
        """Wait until the step's round has started on this rank."""
        self._wait_until(lambda: self.begun > step)

    def ended(self, step: int) -> None:
        """Wait until the step's round has ended on this rank."""
        self._wait_until(lambda: self.done > step)

    def latest(self, out: torch.Tensor) -> int:
        """Copy the receive buffer to `out` (n,); returns the number of its round."""
        with self.lock:
            out.copy_(not_none(self.received)[: self.send_buffer.n])
            return self.done - 1

    def contributors(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Of the latest round, for each rank: the number of gradients it contributed, and 1 if the step's is one of
        them."""
        with self.lock:
            flags = not_none(self.received)[self.send_buffer.n :].clone()
        return flags[: self.fabric.size], flags[self.fabric.size :]

    def take_delays(self) -> tuple[int, ...]:
        """The delays, in rounds, of the gradients accepted since the last call (0: in time)."""
        with self.lock:
            delays, self.delays = self.delays, []
        return tuple(delays)

    def _wait_until(self, reached: Callable[[], bool]) -> None:
        while True:
            with self.lock:
                if reached():
                    return
                self.changed.clear()
            self.changed.wait()

    # --- the task
    def _execute(self) -> None:
        while (round_ := self.todo.get(timeout=float("inf"))) is not None:
            with self.lock:
                contribution = self._take(round_)
                self.begun = round_ + 1
                self.changed.set()
            received = self.send_buffer.reduce(contribution)
            with self.lock:
                if self.received is not None:
                    self.send_buffer.release(self.received)
                self.received = received
                self.done = round_ + 1
                self.changed.set()
            self.activation.finished(round_)

    def _take(self, round_: int) -> torch.Tensor:
        steps, self.held = self.held, []
        in_time, rank, size = round_ in steps, self.fabric.rank, self.fabric.size
        self.counted.update(
            rounds=1,
            active=in_time,
            null=not steps,
            stale=any(step < round_ for step in steps),
            accepted=len(steps),
        )
        self.delays += [round_ - step for step in steps]
        flags = torch.zeros(2 * size)
        flags[rank], flags[size + rank] = len(steps), in_time
        return self.send_buffer.take(flags, null=not steps)

    # --- between steps, when no round is in progress
    def settle(self) -> None:
        self.activation.settle()

    def state_dict(self) -> dict[str, Any]:
        with self.lock:
            return {
                "round": self.done,
                "held": list(self.held),
                "received": None if self.received is None else self.received.clone(),
                "counted": dict(self.counted),
                "send_buffer": self.send_buffer.state_dict(),
            }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        with self.lock:
            self.begun = self.done = state["round"]
            self.held = list(state["held"])
            received = state["received"]  # a checkpoint's, on the host; a round will reuse its memory
            self.received = None if received is None else received.to(self.send_buffer.send.device, copy=True)
            self.counted = Counter(state["counted"])
            self.send_buffer.load_state_dict(state["send_buffer"])
        self.activation.resume(state["round"])

    def close(self) -> None:
        """End both tasks; all ranks call it."""
        self.activation.close()
        self.todo.put(None)
        self.task.join()
