"""iBatch for any PyTorch module that runs a list of blocks in order.

server = ServedModule(fabric, module, module.layers, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.0})
server.batch(server.profile(lambda: module(x)))
for x, y in minibatches:
    with server.step():
        criterion(module(x), y).backward()
module.load_state_dict(server.weights())
server.close()
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from repro.algorithms.batching.modes import decide
from repro.algorithms.batching.profile import PullProfile
from repro.algorithms.parameter_server import profiler
from repro.algorithms.parameter_server.client import Client
from repro.algorithms.parameter_server.pulling import Pulling
from repro.algorithms.parameter_server.server import Server
from repro.algorithms.parameter_server.shard import Shard
from repro.algorithms.parameter_server.shards import Shards
from repro.core.errors import InputError
from repro.core.fields import checked
from repro.experiment.optimizer import Optimizer
from repro.fabric.base import Fabric
from repro.training.buckets import trained_parameters
from repro.training.clock import Clock


class ServedModule:
    """A module whose weights are on a sharded parameter server, with a shard on each rank of the fabric, in BSP.

    Every rank constructs it with the same module and weights, and makes the same calls. The module's forward pass is
    unchanged: a hook before each block waits for the block's parameters.

    blocks     in the order in which a forward pass runs them, each once; InputError unless they have all trainable
               parameters
    optimizer  as in a run's configuration: lr, momentum, weight_decay, ... A step's gradient is the mean over the ranks
    """

    def __init__(self, fabric: Fabric, module: nn.Module, blocks: Sequence[nn.Module], optimizer: Mapping[str, Any],
                 placement: str = "layers", iterations_per_epoch: int = 1):  # fmt: skip
        self.fabric, self.module, self.blocks = fabric, module, list(blocks)
        self.parameters = [trained_parameters(block) for block in self.blocks]
        self._check()
        configured = checked(Optimizer, dict(optimizer), "optimizer")
        if fabric.size > 1 and configured.clip_norm is not None:
            raise InputError("optimizer.clip_norm needs the gradient of the whole model, which no server has")
        self.sizes = [sum(p.numel() for p in own) for own in self.parameters]
        self.vector = torch.cat([p.detach().reshape(-1) for own in self.parameters for p in own])
        for parameter, view in self._views():
            parameter.data = view
        self.shards = Shards.of(self.sizes, fabric.size, placement)
        self.clock = Clock(fabric)
        shard = Shard(self.vector, self.shards, fabric.rank, configured, iterations_per_epoch)
        self.server = Server(fabric, self.clock, shard, fabric.size, "bsp", 0, 0.0, True)
        ranks = list(range(fabric.size))
        self.client = Client(fabric, self.clock, self.shards, ranks, self.vector, self.server, None)
        self.iteration = 0
        self.pulling = Pulling(self.client, [(0, len(self.blocks) - 1)])
        self._waiting = False
        self._hooks = [
            block.register_forward_pre_hook(lambda _module, _inputs, at=index: self._before(at))
            for index, block in enumerate(self.blocks)
        ]

    def _check(self) -> None:
        """InputError unless every trainable parameter is in exactly one block."""
        names = {id(p): name for name, p in self.module.named_parameters() if p.requires_grad}
        seen: set[int] = set()
        for index, own in enumerate(self.parameters):
            for parameter in own:
                name = names.get(id(parameter))
                if name is None:
                    raise InputError(f"block {index}: has a parameter that is not the module's")
                if id(parameter) in seen:
                    raise InputError(f"block {index}: {name} is in an earlier block too; must be in one")
                seen.add(id(parameter))
        if missing := [name for key, name in names.items() if key not in seen]:
            raise InputError(f"blocks: {missing[0]} is in none of them; must have all parameters that train")

    def _views(self) -> Iterator[tuple[nn.Parameter, torch.Tensor]]:
        place = 0
        for own in self.parameters:
            for parameter in own:
                yield parameter, self.vector[place : place + parameter.numel()].view(parameter.shape)
                place += parameter.numel()

    # --- the decision
    def profile(self, forward: Callable[[], Any], repeats: int = 5) -> PullProfile:
        """T_s, T_t and C, measured on this fabric; every rank calls it before its first step and gets the same profile.

        forward: runs the module's forward pass on a minibatch; called `repeats` times. A block's time lasts until the
        next block starts.
        """
        startup, transfers = profiler.pulls(self.fabric, self.client, self.sizes, self.fabric.size)
        times: list[list[float]] = []
        for _ in range(repeats):
            marks: list[float] = []
            hooks = [
                block.register_forward_pre_hook(lambda *_, marks=marks: marks.append(_now(self.vector)))
                for block in self.blocks
            ]
            forward()
            marks.append(_now(self.vector))
            for hook in hooks:
                hook.remove()
            if len(marks) != len(self.blocks) + 1:
                raise InputError(
                    f"blocks: {len(marks) - 1} of {len(self.blocks)} ran in a forward pass; each must run once"
                )
            times.append([end - start for start, end in pairwise(marks)])
        medians = self.fabric.exchange([statistics.median(column) for column in zip(*times)])
        means = tuple(statistics.fmean(column) for column in zip(*medians))
        sizes, ranks = tuple(self.sizes), self.fabric.size
        return PullProfile(
            startup, tuple(transfers), means, workers=ranks, servers=0, parameters=sizes, source="measured"
        )

    def batch(self, profile: PullProfile | None, mode: str = "greedy") -> tuple[tuple[int, int], ...]:
        """Pull in the batches of `mode` for a profile (None: a single batch); returns the batches, counted from 1."""
        batches = ((1, len(self.blocks)),) if profile is None else decide(profile, mode)
        self.pulling.close()
        self.pulling = Pulling(self.client, [(first - 1, last - 1) for first, last in batches])
        return batches

    # --- training
    @contextmanager
    def step(self) -> Iterator[None]:
        """A context for one iteration: one forward and one backward pass of the module."""
        for own in self.parameters:
            for parameter in own:
                parameter.grad = None
        self.pulling.begin(self.iteration)
        self._waiting = True
        try:
            yield
        finally:
            self._waiting = False
        gradient = torch.cat([(p.grad if p.grad is not None else torch.zeros_like(p)).reshape(-1)
                              for own in self.parameters for p in own])  # fmt: skip
        self.client.push(0, len(self.blocks) - 1, gradient)
        self.client.sent()
        self.iteration += 1

    def _before(self, block: int) -> None:
        if self._waiting:
            self.pulling.before_block(block)

    def weights(self) -> dict[str, torch.Tensor]:
        """The module's state dict with the servers' latest weights; all ranks call it, between steps."""
        self.server.settled(self.iteration).wait()
        self.shards.assemble(self.fabric.exchange(self.server.shard.values.cpu()), self.vector)
        return {name: tensor.detach().clone() for name, tensor in self.module.state_dict().items()}

    def close(self) -> None:
        """Stop pulling and serving; the module keeps its parameters."""
        for hook in self._hooks:
            hook.remove()
        self.pulling.close()
        self.client.leave()
        self.server.close()


def _now(tensor: torch.Tensor) -> float:
    """The time in seconds, after the device has finished its work."""
    if tensor.is_cuda:
        torch.cuda.synchronize(tensor.device)
    return time.perf_counter()
