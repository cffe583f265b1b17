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

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

import torch

from repro.training.captured import CapturedPasses
from repro.training.model_shard import ModelShard

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
