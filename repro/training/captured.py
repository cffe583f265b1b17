"""The passes of a virtual rank as a CUDA graph: one launch in the place of hundreds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Protocol

import torch

from repro.core.not_none import not_none
from repro.training.model_shard import ModelShard


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
    vector, is computed eagerly; so is everything, and a line says so, if the passes cannot be recorded.

    weights: the address of the shard's weights when the passes were recorded
    """

    said = False  # that passes of this process cannot be recorded

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
        shard, graph = self.shard, self.new_graph(self.shard.device)
        self.x, self.y, self.weights = x.clone(), y.clone(), shard.weights.data_ptr()
        try:
            self.loss = graph.record(lambda: self.run(self.x, self.y))
        except RuntimeError as error:
            self.recordable = False
            shard.clear_gradients()
            if not CapturedPasses.said:
                CapturedPasses.said = True
                reason = str(error).partition("\n")[0]
                print(f"passes are computed eagerly, not as a CUDA graph: {reason}", file=sys.stderr)
            return
        self.gradients = [parameter.grad for parameter in shard.parameters]
        self.graph = graph

    def _fits(self, x: torch.Tensor, y: torch.Tensor) -> bool:
        same_shapes = (x.shape, x.dtype, y.shape, y.dtype) == (self.x.shape, self.x.dtype, self.y.shape, self.y.dtype)
        return same_shapes and self.shard.weights.data_ptr() == self.weights

    def _wait(self) -> torch.Tensor:
        not_none(self.graph).join()
        for parameter, gradient in zip(self.shard.parameters, self.gradients):
            parameter.grad = gradient
        return self.loss.clone()
