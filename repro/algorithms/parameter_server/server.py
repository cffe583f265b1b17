"""One server of a sharded parameter server: answers pulls, receives pushes, updates its shard."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from repro.algorithms.parameter_server.shards import Shard
from repro.algorithms.parameter_server.wire import WireFormat, dense_gradient, wire_of
from repro.core.not_none import not_none
from repro.fabric.base import ANY_SOURCE, BACKGROUND, MAIN, SIGNALS, Event, Fabric, Work
from repro.fabric.codecs import NoCodec
from repro.fabric.collectives.blocks import reduce_cost
from repro.fabric.meta_tensors import add_tensor, divide_tensor
from repro.training.clock import Clock

REQUEST, PULLED, PUSHED = 0, 0, 0  # tags, of channels SIGNALS, BACKGROUND and MAIN
PULL, PUSH, LEAVE, NOTHING = range(4)  # kinds of requests; NOTHING: a pull of one dummy element
MOST_REPLIES = 256  # replies in progress; the server waits for the oldest before it sends another


def make_request(kind: int, first: int = 0, last: int = 0, iteration: int = 0) -> torch.Tensor:
    """A request: its kind, first and last layer, and the worker's iteration (from 0)."""
    return torch.tensor([kind, first, last, iteration], dtype=torch.int32)


@dataclass
class Waiting:
    """A pull that waits for updates of its layers."""

    first: int
    last: int
    iteration: int
    worker: int
    answer: Callable[[], None]


class Server:
    """The server of one rank. One task receives the other ranks' requests, another their gradients; the rank's own
    worker calls the methods.

    sync       bsp: when all workers' gradients of an iteration have arrived, their mean, summed in rank order, is one
               update; a pull of iteration t waits for t updates of its layers.
               ssp: each worker's gradient is an update of its own on arrival, with 1 / workers of the learning rate
               (as `ps_async`, so that an epoch has the same effect as in BSP); a pull of iteration t waits until every
               worker has pushed t - bound times (Ho et al., NIPS 2013).
               asp: ssp without a bound.
    pushed     [worker][layer]: the number of pushes. Workers may push an iteration's layers in any groups, the same on
               all workers
    staleness  of each update since `take_staleness`: the other workers' updates between the worker's pull and its push
               (of the first layer; ssp and asp only)
    """

    def __init__(self, fabric: Fabric, clock: Clock, shard: Shard, workers: int, sync: str, bound: int, drop: float,
                 arithmetic: bool, wire: WireFormat | None = None):  # fmt: skip
        self.wire = wire or WireFormat(fabric)
        self.sendable: dict[tuple[int, int], torch.Tensor] = {}  # (first, last) layer -> encoded, until an update
        self.fabric, self.clock, self.shard, self.workers = fabric, clock, shard, workers
        self.together, self.drop, self.arithmetic = sync == "bsp", drop, arithmetic
        self.bound = {"bsp": 0, "ssp": bound, "asp": None}[sync]
        self.pushed = [[0] * shard.shards.layers for _ in range(workers)]
        self.least = [0] * shard.shards.layers  # the minimum of `pushed` over the workers
        self.pulled = [0] * workers  # the updates of the first layer that a worker's weights contain
        self.staleness: list[int] = []
        self.waiting: list[Waiting] = []
        self.parts: dict[
            tuple[int, int], dict[int, torch.Tensor]
        ] = {}  # bsp: (first, last) layer -> worker -> gradient
        self.replies: list[Work] = []
        self.lock = fabric.lock()
        self.held = list(shard.parameters) or [0]  # the layers of which this server holds elements
        self.updated_at = 0.0  # the time of its last update, on the fabric's clock
        if not self.together:
            shard.updates_per_iteration = workers
        clients = [worker for worker in range(workers) if worker != fabric.rank]
        self.announced = fabric.queue()
        self.tasks = [
            fabric.spawn(lambda: self._serve(len(clients)), "server"),
            fabric.spawn(self._process_pushes, "server's pushes"),
        ] if clients else []  # fmt: skip

    # --- requests of other ranks, on the tasks
    def _serve(self, clients: int) -> None:
        message = make_request(NOTHING)
        while clients:
            work = self.fabric.irecv(message, ANY_SOURCE, REQUEST, SIGNALS)
            self.fabric.wait_idle(work)
            worker = not_none(work.source)
            kind, first, last, iteration = message.tolist()
            if kind == LEAVE:
                clients -= 1
            elif kind == NOTHING:
                with self.lock:
                    self._reply(torch.empty(1), worker)
            elif kind == PULL:
                self._queue_reply(worker, first, last, iteration)
            else:
                self._receive(worker, first, last)
        self.announced.put(None)
        with self.lock:
            self._finish_replies()

    def _receive(self, worker: int, first: int, last: int) -> None:
        """Start to receive the gradients of an announced push.

        Pushes are received concurrently: a rank that waited for its turn at one server would leave its link idle, and
        be late at the next server.
        """
        elements = self.shard.shards.size(self.shard.server, first, last)
        device = self.shard.values.device
        part = wire_of(elements, self.drop).empty(device) if self.drop else self.wire.empty(elements, device)
        self.announced.put((worker, first, last, part, self.fabric.irecv(part, worker, PUSHED, MAIN)))

    def _process_pushes(self) -> None:
        """Wait for the gradients in the order of their announcements."""
        while announced := self.announced.get(timeout=float("inf")):
            worker, first, last, part, receive = announced
            with self.clock.phase("communicate"):
                receive.wait()
            self.push(worker, first, last, part)

    def _queue_reply(self, worker: int, first: int, last: int, iteration: int) -> None:
        def send() -> None:
            weights = self.encoded(first, last)
            # in BSP the weights do not change before all workers have received them
            self._reply(weights if self.together or not self.wire.plain else weights.clone(), worker)

        self._wait(Waiting(first, last, iteration, worker, send))

    def encoded(self, first: int, last: int) -> torch.Tensor:
        """The weights of these layers in the wire format, encoded once an update."""
        if self.wire.plain:
            return self.shard.stretch(first, last)
        if (first, last) not in self.sendable:
            self.sendable[first, last] = self.wire.encode(self.shard.stretch(first, last))
        return self.sendable[first, last]

    def _reply(self, weights: torch.Tensor, worker: int) -> None:
        self.replies.append(self.fabric.isend(weights, worker, PULLED, BACKGROUND))
        self._finish_replies(MOST_REPLIES)

    def _finish_replies(self, in_progress: int = 0) -> None:
        """Wait for the oldest replies until at most `in_progress` remain."""
        while len(self.replies) > in_progress:
            self.replies.pop(0).wait()

    # --- requests of the rank's own worker
    def pull(self, worker: int, first: int, last: int, iteration: int, into: Callable[[], None]) -> Event:
        """Call `into` when these layers are as new as iteration `iteration` needs them; then set the returned event."""
        ready = self.fabric.event()

        def answer() -> None:
            into()
            ready.set()

        self._wait(Waiting(first, last, iteration, worker, answer))
        return ready

    def settled(self, iteration: int) -> Event:
        """An event that is set when the weights contain every worker's first `iteration` pushes of all layers."""
        ready = self.fabric.event()
        self._wait(Waiting(0, self.shard.shards.layers - 1, iteration, -1, ready.set))
        return ready

    # --- all requests
    def _wait(self, pull: Waiting) -> None:
        with self.lock:
            if not self._answered(pull):
                self.waiting.append(pull)

    def push(self, worker: int, first: int, last: int, part: torch.Tensor) -> None:
        """Receive this server's part (m,) of the gradients of these layers, or the message of `dropping`."""
        with self.lock:
            if self.together:
                group = self.parts.setdefault((first, last), {})
                group[worker] = part
                if len(group) == self.workers:
                    self._update_together(first, last, self.parts.pop((first, last)))
                    self._answer_waiting()
            else:
                self._update_alone(worker, first, last, part)
                self._answer_waiting()

    def _update_together(self, first: int, last: int, parts: dict[int, torch.Tensor]) -> None:
        total = self._dense(parts[0], first, last)
        for worker in range(1, self.workers):  # in rank order, so that the bits do not depend on the order of arrival
            part = self._dense(parts[worker], first, last)
            with self.fabric.compute(reduce_cost(self.fabric, part.numel(), NoCodec()), "host"):
                add_tensor(total, part)
        self._finish_replies()
        self._update(first, last, divide_tensor(total, self.workers), 1.0)
        self._count(range(self.workers), first, last)
        self.updated_at = self.fabric.now()

    def _update_alone(self, worker: int, first: int, last: int, part: torch.Tensor) -> None:
        if first <= self.held[0] <= last:
            self.staleness.append(self.shard.updates[self.held[0]] - self.pulled[worker])
        self._update(first, last, self._dense(part, first, last), 1 / self.workers)
        self._count([worker], first, last)

    def _count(self, workers: Iterable[int], first: int, last: int) -> None:
        """Count a push of these layers by each of the workers."""
        for layer in range(first, last + 1):
            for worker in workers:
                self.pushed[worker][layer] += 1
            self.least[layer] = min(pushes[layer] for pushes in self.pushed)

    def _update(self, first: int, last: int, gradient: torch.Tensor, lr_factor: float) -> None:
        with self.fabric.compute(self.fabric.costs.seconds("update", 4 * gradient.numel()), "host"):
            self.shard.update(first, last, gradient if self.arithmetic else None, lr_factor)
        self.sendable.clear()

    def _dense(self, part: torch.Tensor, first: int, last: int) -> torch.Tensor:
        if not self.drop:
            return self.wire.decode(part)
        return dense_gradient(part, self.shard.shards.size(self.shard.server, first, last), self.drop)

    def _answer_waiting(self) -> None:
        """Answer the pulls whose layers are new enough, in the order of their arrival."""
        self.waiting = [pull for pull in self.waiting if not self._answered(pull)]

    def _answered(self, pull: Waiting) -> bool:
        """Answer a pull if its layers are new enough; whether they are."""
        bound = 0 if pull.worker < 0 else self.bound
        layers = (layer for layer in self.held if pull.first <= layer <= pull.last)
        if bound is not None and not all(self.least[layer] >= pull.iteration - bound for layer in layers):
            return False
        if pull.worker >= 0 and pull.first <= self.held[0] <= pull.last:
            self.pulled[pull.worker] = self.shard.updates[self.held[0]]
        pull.answer()
        return True

    # --- the run
    def take_staleness(self) -> tuple[int, ...]:
        """The staleness of the updates since the last call."""
        staleness, self.staleness = tuple(self.staleness), []
        return staleness

    def state_dict(self) -> dict:
        """The state, once no pull waits."""
        counts = {"pushed": [list(pushes) for pushes in self.pushed], "pulled": [*self.pulled]}
        counts["staleness"] = [*self.staleness]  # of pushes that arrived after the last step
        return counts | {"shard": self.shard.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        """Restore a `state_dict`, and answer pulls of ranks that have resumed before this one."""
        with self.lock:
            self.shard.load_state_dict(state["shard"])
            self.sendable.clear()
            self.pushed, self.pulled = [list(pushes) for pushes in state["pushed"]], [*state["pulled"]]
            self.staleness = [*state["staleness"]]
            self._count([], 0, self.shard.shards.layers - 1)
            self._answer_waiting()

    def close(self) -> None:
        """Wait until all other workers have left."""
        for task in self.tasks:
            task.join(timeout=float("inf"))
