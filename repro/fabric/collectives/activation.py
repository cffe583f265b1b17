"""Activation of the rounds of a partial collective: which rank starts one, and how it tells the others.

eager-SGD, sections 4.1.1 and 4.2.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable

import torch

from repro.core.errors import InputError, unknown_name
from repro.fabric.base import ANY_SOURCE, SIGNALS, Fabric, Work

SOLO, MAJORITY, QUORUM = "solo", "majority", "quorum"  # which rank starts a round (section 4)
INITIATORS = (SOLO, MAJORITY, QUORUM)
TAG = 1 << 13
# A message is two int64 (what, round), where `what` is an activation's dimension (0 or more) or one of these.
ARRIVED, CLOSE = -1, -2


def check_activation(initiator: str, quorum: int | None, size: int | None = None) -> None:
    """InputError unless the initiator exists and its quorum fits `size` ranks (None: not known yet)."""
    if initiator not in INITIATORS:
        raise unknown_name("initiator", str(initiator), INITIATORS)
    if initiator != QUORUM:
        return
    whole = isinstance(quorum, int) and not isinstance(quorum, bool)
    if not whole or quorum is None or quorum < 1 or (size is not None and quorum > size):
        most = f"workers={size}" if size is not None else "the number of workers"
        raise InputError(f"strategy.quorum={quorum}: must be a whole number from 1 (solo) to {most} (all)")


class Activation:
    """Starts every round once on every rank, whatever the number of its initiators.

    solo      every rank that reaches a round initiates it (section 4.1)
    majority  one rank initiates it, drawn for each round from a seed that all ranks share (section 4.2)
    quorum    not in the paper: the drawn rank initiates the round once `quorum` ranks have reported their arrival to
              it; 1 is solo through another rank, P is a synchronous collective. Section 8 leaves this as future work.

    A `synchronous` round starts only when all ranks have arrived, whatever the initiator. In the authors' library
    (fflib2, ffsolo_limiter.c) such rounds, at regular intervals, limit how far late ranks fall behind.

    An activation is broadcast by the union of P binomial trees: in dimension d a rank sends to the rank whose number
    differs in bit d (P a power of two, as in Figure 6), or to the one 2^d above it (other P). A rank activated in
    dimension d sends in the dimensions above d, an initiator in all; in each at most once a round.

    `start(round)` is called once for each round, in the task that learns of it first. A separate task receives
    messages, so that a rank forwards activations while it computes or executes a round.
    """

    def __init__(
        self,
        fabric: Fabric,
        initiator: str,
        start: Callable[[int], None],
        seed: int = 0,
        quorum: int | None = None,
        channel: int = SIGNALS,
        synchronous: Callable[[int], bool] = lambda round_: False,
        parts: int = 1,
    ):
        """parts: rounds of a step, which share one drawn rank."""
        check_activation(initiator, quorum, fabric.size)
        self.synchronous, self.parts = synchronous, parts
        self.fabric, self.initiator, self.quorum = fabric, initiator, quorum
        self.seed, self.start, self.channel = seed, start, channel
        self.dimensions = (fabric.size - 1).bit_length()
        self.lock = fabric.lock()
        self.done = 0  # rounds below this one have ended here
        self.begun: set[int] = set()  # rounds from `done` on that have started
        self.sent_in: dict[int, set[int]] = defaultdict(set)  # round -> the dimensions in which it was sent
        self.arrivals: Counter[int] = Counter()  # round -> how many ranks have reported their arrival to this one
        self.sends: list[Work] = []
        self.messages_to = [0] * fabric.size
        self.task = fabric.spawn(self._listen, "activation")

    # --- called by the main task
    def arrive(self, round_: int) -> None:
        """This rank's main task has reached the round: the internal activation."""
        if self.initiator == QUORUM or self.synchronous(round_):
            if (rank := self.designated(round_)) == self.fabric.rank:
                self._arrived(round_)
            else:
                with self.lock:
                    self._send(rank, ARRIVED, round_)
        elif self.initiator == SOLO or self.designated(round_) == self.fabric.rank:
            self._activate(round_)

    def designated(self, round_: int) -> int:
        """The rank drawn for a round's step, the same on all ranks and after a resume."""
        return random.Random(f"{self.seed}/{round_ // self.parts}").randrange(self.fabric.size)

    def finished(self, round_: int) -> None:
        """The round has ended on this rank: all ranks have started it, so later messages about it are ignored."""
        with self.lock:
            self.done = round_ + 1
            self.begun.discard(round_)
            self.sent_in.pop(round_, None)
            self.arrivals.pop(round_, None)

    def resume(self, round_: int) -> None:
        """Continue with this round, before any rank reaches it."""
        with self.lock:
            self.done = round_

    def settle(self) -> None:
        """Wait until this rank's messages have left."""
        with self.lock:
            sends, self.sends = self.sends, []
        for send in sends:
            send.wait()

    def close(self) -> None:
        """Receive pending messages, then end the task. All ranks call it, when no round is in progress."""
        self.settle()
        sent = self.fabric.exchange(self.messages_to)  # [sender][receiver]: the number of messages
        with self.lock:
            self._send(self.fabric.rank, CLOSE, sum(counts[self.fabric.rank] for counts in sent))
        self.task.join()
        self.settle()

    # --- called by both tasks
    def partner(self, dimension: int) -> int:
        me, size = self.fabric.rank, self.fabric.size
        power_of_two = size & (size - 1) == 0
        return me ^ (1 << dimension) if power_of_two else (me + (1 << dimension)) % size

    def _activate(self, round_: int, dimension: int = -1) -> None:
        """Start the round, unless it has started. dimension: of the received activation; -1: the initiator's own."""
        # P = 8, rank 2 initiates:
        #   dimension 0   2 -> 3
        #   dimension 1   2 -> 0   3 -> 1
        #   dimension 2   2 -> 6   3 -> 7   0 -> 4   1 -> 5
        with self.lock:
            if round_ < self.done:
                return
            for higher in range(dimension + 1, self.dimensions):
                if higher not in self.sent_in[round_]:
                    self.sent_in[round_].add(higher)
                    self._send(self.partner(higher), higher, round_)
            first = round_ not in self.begun
            self.begun.add(round_)
        if first:
            self.start(round_)

    def _arrived(self, round_: int) -> None:
        with self.lock:
            if round_ < self.done:
                return
            self.arrivals[round_] += 1
            enough = self.arrivals[round_] == (self.fabric.size if self.synchronous(round_) else self.quorum)
        if enough:
            self._activate(round_)

    def _send(self, rank: int, what: int, number: int) -> None:
        self.sends = [send for send in self.sends if not send.done()]
        self.sends.append(self.fabric.isend(torch.tensor([what, number]), rank, TAG, self.channel))
        if what != CLOSE:
            self.messages_to[rank] += 1

    # --- the task
    def _listen(self) -> None:
        message, received, expected = torch.zeros(2, dtype=torch.int64), 0, None
        while received != expected:
            self.fabric.wait_idle(self.fabric.irecv(message, ANY_SOURCE, TAG, self.channel))
            what, number = message.tolist()
            if what == CLOSE:
                expected = number
                continue
            received += 1
            if what == ARRIVED:
                self._arrived(number)
            else:
                self._activate(number, what)
