"""Computes the passes of virtual ranks side by side: on a CPU in threads, on a GPU as CUDA graphs on streams.

In virtual time nobody reads a pass's result before the modelled time of the passes has elapsed. So a rank starts its
passes, lets their time elapse and waits for the result; meanwhile the other ranks start theirs:

    rank 0     start . forward time . wait . gradient_ready(last block) . backward time ...
    rank 1       start . forward time . wait . gradient_ready(last block) . backward time ...
    thread 0    [passes of rank 0]
    thread 1      [passes of rank 1]

One thread computes the passes of a minibatch, so their bits do not depend on the number of cores.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import ClassVar, Protocol, TypeVar

import torch

from repro.core.not_none import not_none
from repro.training.model_shard import ModelShard

CLOSE = 1e-5  # relative: cuDNN adds in varying order


class Graph(Protocol):
    """A recorded computation on static tensors."""

    def record(self, run: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Record `run` without computing it; returns its result, which each replay overwrites."""

    def replay(self) -> None:
        """Start the computation, after all that the current stream has been given."""

    def join(self) -> None:
        """Let the current stream wait for the last replay."""


class CudaGraph:
    """A CUDA graph on a stream of its own, so that the graphs of several ranks run side by side.

    Other threads may use the GPU while it records (they read minibatches ahead): `thread_local`.
    """

    def __init__(self, device: torch.device):
        self.graph, self.stream = torch.cuda.CUDAGraph(), torch.cuda.Stream(device)

    def record(self, run: Callable[[], torch.Tensor]) -> torch.Tensor:
        with torch.cuda.graph(self.graph, stream=self.stream, capture_error_mode="thread_local"):
            return run()

    def replay(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream(self.stream.device))
        with torch.cuda.stream(self.stream):
            self.graph.replay()

    def join(self) -> None:
        torch.cuda.current_stream(self.stream.device).wait_stream(self.stream)


class CapturedPasses:
    """The passes `run` of one rank, recorded at the first minibatch.

    Inputs, weights and gradients are static: a minibatch is copied into the inputs, the weights are the shard's vector,
    and a replay overwrites the gradients. A minibatch of another shape, or after the shard was pointed at another
    vector, is computed eagerly. So is everything, and a line says so, if the passes cannot be recorded, or if the first
    replay gives another loss or other gradients than the same passes computed eagerly.

    weights: the address of the shard's weights when the passes were recorded
    """

    explained: ClassVar[bool] = False  # whether this process has said why passes are computed eagerly

    def __init__(
        self,
        shard: ModelShard,
        run: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
        graph: Callable[[torch.device], Graph] = CudaGraph,
    ):
        self.shard, self.run, self.new_graph = shard, run, graph
        self.graph: Graph | None = None
        self.recordable = True

    def start(self, x: torch.Tensor, y: torch.Tensor) -> Callable[[], torch.Tensor]:
        """As `SideBySide.start`."""
        if self.recordable and self.graph is None:
            self._record(x, y)
        if self.graph is None or not self._fits(x, y):
            loss = self.run(x, y)
            return lambda: loss
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()
        return self._wait

    def _record(self, x: torch.Tensor, y: torch.Tensor) -> None:
        """Record the passes of this minibatch, if that is possible; running statistics stay as they were."""
        shard, graph = self.shard, self.new_graph(self.shard.device)
        self.x, self.y, self.weights = x.clone(), y.clone(), shard.weights.data_ptr()
        buffers = [(buffer, buffer.clone()) for buffer in shard.model.buffers()]
        expected = [self.run(x, y), *(p.grad for p in shard.parameters)]
        shard.clear_gradients()
        try:
            self.loss = graph.record(lambda: self.run(self.x, self.y))
            self.gradients, self.graph = [p.grad for p in shard.parameters], graph
            graph.replay()
            computed = [self._wait(), *self.gradients]
            if (difference := relative_distance(computed, expected)) > CLOSE:
                raise RuntimeError(f"the first replay differs from the eager passes by {difference:.2g} of their norm")
        except RuntimeError as error:
            self.graph, self.recordable = None, False
            shard.clear_gradients()
            if not CapturedPasses.explained:
                CapturedPasses.explained = True
                reason = str(error).partition("\n")[0]
                print(f"passes are computed eagerly, not as a CUDA graph: {reason}", file=sys.stderr)
        for buffer, before in buffers:
            buffer.copy_(before)

    def _fits(self, x: torch.Tensor, y: torch.Tensor) -> bool:
        same_shapes = (x.shape, x.dtype, y.shape, y.dtype) == (self.x.shape, self.x.dtype, self.y.shape, self.y.dtype)
        return same_shapes and self.shard.weights.data_ptr() == self.weights

    def _wait(self) -> torch.Tensor:
        not_none(self.graph).join()
        for parameter, gradient in zip(self.shard.parameters, self.gradients):
            parameter.grad = gradient
        return self.loss.clone()


def relative_distance(computed: Sequence[torch.Tensor | None], expected: Sequence[torch.Tensor | None]) -> float:
    """The norm of the difference of two lists of tensors, relative to that of `expected`; infinity where one of them
    alone has a tensor, and for NaN."""
    if [a is None for a in computed] != [b is None for b in expected]:
        return math.inf
    pairs = [(a.double(), b.double()) for a, b in zip(computed, expected) if a is not None and b is not None]
    far = math.sqrt(sum(float((a - b).square().sum()) for a, b in pairs))
    norm = math.sqrt(sum(float(b.square().sum()) for _, b in pairs))
    return far / norm if norm and not math.isnan(far) else math.inf


TRIALS = 2  # first minibatches, whose passes run at once: one allocates, one is timed
LEAST_S = 0.005  # shorter passes mostly hold Python's lock, so that a second thread does not help

Passes = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # (x, y) -> loss; sets the parameters' gradients
Item = TypeVar("Item")
Result = TypeVar("Result")
Wait = Callable[[], torch.Tensor]  # returns the loss; afterwards, not earlier, the parameters have their gradients


class SideBySide:
    """Starts the passes of one rank, `run`.

    Trials show whether they may run elsewhere: not if the model draws numbers from PyTorch's own generators, for which
    the order of the ranks counts, nor, on a GPU, if it carries state.
    """

    def __init__(self, shard: ModelShard, run: Passes):
        self.run, self.device = run, shard.device
        on_gpu = shard.device.type == "cuda"
        self.trials = TRIALS
        self.elsewhere = len(os.sched_getaffinity(0)) > 1 if not on_gpu else not shard.stateful
        self.captured = CapturedPasses(shard, run) if on_gpu else None

    def start(self, x: torch.Tensor, y: torch.Tensor) -> Wait:
        """Start the passes of a minibatch; returns a function that waits for them, and raises their error."""
        if not self.elsewhere or self.trials:
            loss = self._try(x, y) if self.elsewhere else self.run(x, y)
            return lambda: loss
        if self.captured:
            return self.captured.start(x, y)
        return pass_threads(os.getpid()).submit(self.run, x, y).result

    def _try(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        before, began = generator_states(self.device), time.perf_counter()
        loss = self.run(x, y)
        seconds = time.perf_counter() - began
        self.trials -= 1
        drew = any(not torch.equal(*states) for states in zip(before, generator_states(self.device)))
        if drew or (not self.captured and not self.trials and seconds < LEAST_S):
            self.elsewhere = False
        return loss


def generator_states(device: torch.device) -> list[torch.Tensor]:
    """The states of PyTorch's own generators that a pass on this device may use."""
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]


def map_on_threads(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """As `map`, on the threads of this process; it takes only as many items ahead as there are threads."""
    pool, running = pass_threads(os.getpid()), deque[Future[Result]]()
    for item in items:
        running.append(pool.submit(function, item))
        if len(running) > len(os.sched_getaffinity(0)):
            yield running.popleft().result()
    while running:
        yield running.popleft().result()


@lru_cache(maxsize=1)
def pass_threads(process: int) -> ThreadPoolExecutor:
    """The threads of this process for passes, one for each of its cores; a forked process needs its own."""
    return ThreadPoolExecutor(len(os.sched_getaffinity(0)), "passes", torch.set_num_threads, (1,))
