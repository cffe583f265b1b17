"""The partial allreduce: rounds that complete without waiting for late ranks (eager-SGD, sections 4, 5 and 5.1.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch

from repro.core.not_none import not_none
from repro.fabric.base import Fabric
from repro.fabric.collectives.activation import Activation
from repro.fabric.collectives.send_buffer import SendBuffer


class PartialAllreduce:
    """ADS(0), ADS(1), ... of section 5.1.1 as one persistent schedule, executed round after round.

    The main task executes a round while it waits for it, a task of its own executes the others (section 4.3: "on the
    application thread (i.e., when the application enters the library), or on an auxiliary thread").

    The main task calls `propose(round, gradient)` once for each step; `began` and `ended` wait for the round; `latest`
    reads the receive buffer. When a round starts on a rank, it takes the contents of the rank's send buffer: the step's
    gradient, late gradients of earlier steps, or null. A rank that reaches a round after its start leaves its gradient
    in the send buffer for a later one (Figure 7).

    A gradient may be in parts, each with its own buffers and round: part b of step t is round t x parts + b, and rounds
    follow one another in this order.

    The receive buffer holds only the latest round's result (section 4.1.1, persistent schedules): a rank that is two
    rounds late never sees the first of them.

    counted  this rank's rounds, active (its gradient of the step was in time), null (it contributed nothing), stale (it
             contributed an earlier step's gradient), accepted (gradients contributed), dropped; each part counts
    """

    def __init__(self, fabric: Fabric, send_buffers: Sequence[SendBuffer], activation: Callable[..., Activation]):
        """send_buffers: for each part one with 2 x size flags. activation: (starter of a round) -> Activation."""
        self.fabric, self.send_buffers, self.parts = fabric, list(send_buffers), len(send_buffers)
        self.lock, self.changed = fabric.lock(), fabric.event()
        self.begun = self.done = 0  # the number of rounds that have started and ended on this rank
        self.held: list[list[int]] = [[] for _ in send_buffers]  # steps whose gradients wait for a round of their part
        self.received: list[torch.Tensor | None] = [None for _ in send_buffers]  # the receive buffers
        self.counted: Counter[str] = Counter()
        self.delays: list[int] = []  # steps between an accepted gradient's own and its round's
        self.started: set[int] = set()  # rounds that have been activated and not begun
        self.here = False  # the main task has proposed its step's last part, so it executes the rounds that start
        self.todo = fabric.queue()
        self.activation = activation(self._start)
        self.task = fabric.spawn(self._execute, "rounds")

    # --- the main task
    def propose(self, round_: int, gradient: torch.Tensor, drop: bool = False) -> bool:
        """Contribute this rank's gradient (n,) to a round, which is next in order; returns whether it was in time.

        After a step's last part the caller waits with `ended` at once, since no other task may execute that round.
        drop: discard a late gradient, as the authors' released code does, instead of keeping it for a later round.
        """
        step, part = divmod(round_, self.parts)
        with self.lock:
            late = self.begun > round_
            if late and drop:
                self.counted["dropped"] += 1
            else:
                self.send_buffers[part].add(gradient)
                self.held[part].append(step)
            self.here = part == self.parts - 1
        if not late:
            self.activation.arrive(round_)
        return not late

    def began(self, round_: int) -> None:
        """Wait until the round has started on this rank."""
        self._wait_until(lambda: self.begun > round_ or round_ in self.started)

    def ended(self, round_: int) -> None:
        """Wait until the round has ended on this rank; execute it here, unless the other task does."""
        while self.done <= round_:
            self._wait_until(lambda: self.done > round_ or self._ready())
            self._execute_next()
        if round_ % self.parts == self.parts - 1:
            with self.lock:
                self.here = False
                if self._ready():  # the next step's round, which another rank has reached
                    self.todo.put(True)

    def latest(self, out: torch.Tensor, part: int = 0) -> int:
        """Copy a part's receive buffer to `out` (n,); returns the step of its round."""
        with self.lock:
            out.copy_(not_none(self.received[part])[: self.send_buffers[part].n])
            return (self.done - 1 - part) // self.parts

    @property
    def pending(self) -> int:
        """Gradients, of all parts, that wait for a round."""
        return sum(map(len, self.held))

    def take_delays(self) -> tuple[int, ...]:
        """The delays, in steps, of the gradients accepted since the last call (0: in time)."""
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

    # --- the task that learns first of an activation
    def _start(self, round_: int) -> None:
        with self.lock:
            self.started.add(round_)
        if self.here:
            self.changed.set()
        else:
            self.todo.put(True)

    # --- the task, and the main task while it waits
    def _execute(self) -> None:
        while self.todo.get(timeout=float("inf")):
            while self._execute_next():
                self.changed.set()

    def _ready(self) -> bool:
        """Whether the next round has started and no task executes it."""
        return self.done in self.started and self.begun == self.done

    def _execute_next(self) -> bool:
        """Execute the next round if it is ready; whether it was."""
        with self.lock:
            if not self._ready():
                return False
            round_ = self.done
            self.started.remove(round_)
            contribution = self._take(round_)
            self.begun = round_ + 1
        part = round_ % self.parts
        received = self.send_buffers[part].reduce(contribution)
        with self.lock:
            if (before := self.received[part]) is not None:
                self.send_buffers[part].release(before)
            self.received[part] = received
            self.done = round_ + 1
        self.activation.finished(round_)
        return True

    def _take(self, round_: int) -> torch.Tensor:
        now, part = divmod(round_, self.parts)
        steps, self.held[part] = self.held[part], []
        in_time, rank, size = now in steps, self.fabric.rank, self.fabric.size
        self.counted.update(
            rounds=1, active=in_time, null=not steps, stale=any(step < now for step in steps), accepted=len(steps)
        )
        self.delays += [now - step for step in steps]
        flags = torch.zeros(2 * size)
        flags[rank], flags[size + rank] = len(steps), in_time
        return self.send_buffers[part].take(flags, null=not steps)

    # --- between steps, when no round is in progress
    def settle(self) -> None:
        self.activation.settle()

    def state_dict(self) -> dict[str, Any]:
        with self.lock:
            return {
                "round": self.done,
                "held": [list(steps) for steps in self.held],
                "received": [None if received is None else received.clone() for received in self.received],
                "counted": dict(self.counted),
                "send_buffers": [send_buffer.state_dict() for send_buffer in self.send_buffers],
            }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        with self.lock:
            self.begun = self.done = state["round"]
            self.held = [list(steps) for steps in state["held"]]
            self.counted = Counter(state["counted"])
            for part, send_buffer in enumerate(self.send_buffers):
                received = state["received"][part]  # a checkpoint's, on the host; a round will reuse its memory
                self.received[part] = None if received is None else received.to(send_buffer.send.device, copy=True)
                send_buffer.load_state_dict(state["send_buffers"][part])
        self.activation.resume(state["round"])

    def close(self) -> None:
        """End both tasks; all ranks call it."""
        self.activation.close()
        self.todo.put(None)
        self.task.join()
