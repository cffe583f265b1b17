"""PowerSGD: gradients as products of two thin factors, with error feedback (Vogels, Karimireddy, Jaggi, NeurIPS 2019).

https://arxiv.org/abs/1905.13727, Algorithms 1 and 2; lines are cited as `1:3`, algorithm and line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import torch

from repro.algorithms.timing.collective_forms import FLOAT32
from repro.algorithms.timing.setting import Place, Setting
from repro.algorithms.timing.step import Step, allreduce_s, assemble_step
from repro.core.fields import Count, NonNegative, Whole
from repro.fabric.option_names import AllreduceName
from repro.strategies.shared.data_parallel import GradientStrategy
from repro.training.worker import Worker


@dataclass
class Options:
    rank: Count = 2  # r: columns of both factors
    algorithm: AllreduceName = "ring"  # of the allreduces
    min_compression: NonNegative = 1.0  # compress a matrix if it is more than so many times as large as its factors
    start: Whole = 0  # first iterations without compression, as in PyTorch's hook; the paper has none


class Matrix(NamedTuple):
    """A compressed tensor: its index among the model's parameters, and the sizes of its factors P (n, r), Q (m, r)."""

    number: int
    n: int
    m: int
    r: int


class PowerSGD(GradientStrategy):
    """One step of power iteration for each update, from the Q of the update before (section 3).

    Means are sums here, which `Worker.update` divides; the scale of P does not matter, because P becomes orthonormal.
    Lines 2:12 and 2:13 are the run's optimizer, x - lr m; the paper prints x - lr (update + m).

    ORTHOGONALIZE (1:5) is a QR decomposition, with the span of the paper's Gram-Schmidt (as PyTorch's hook above rank
    2). It is orthonormal for any P: after a zero gradient Gram-Schmidt would set P and Q to zero for ever.

    memory  (n,) e_w of line 2:9: this worker's update minus its own factors. The authors' and PyTorch's code subtract
            the aggregated factors; the workers' mean, and so the weights, are the same
    first   all P, then the uncompressed tensors: vectors (line 1:1), and matrices smaller than their factors
    second  all Q
    """

    name = "powersgd"
    Options = Options
    neutral = {"rank": 10**9}  # noqa: RUF012  every matrix is smaller than its factors

    @classmethod
    def step_form(cls, setting: Setting, place: Place, options: Any) -> Step | None:
        """One allreduce of all factors P, with the vectors, and one of all Q, after the backward pass."""
        if setting.matrices is None:
            return None
        sent = matrix_shapes(setting.matrices, options)
        whole = setting.nbytes - FLOAT32 * sum(n * m for _, n, m, _ in sent)
        first = whole + FLOAT32 * sum(n * r for _, n, _, r in sent)
        second = FLOAT32 * sum(m * r for *_, m, r in sent)
        exchange = sum(allreduce_s(nbytes, setting, place) for nbytes in (first, second))
        codec, costs = f"{cls.name}_r{options.rank}", setting.costs
        encode, decode = (costs.modelled(f"{kind}/{codec}", setting.nbytes) for kind in ("encode", "decode"))
        return assemble_step(setting, exchange, compress=2 * encode + decode)

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        shard = worker.model_shard
        self.matrices = matrix_shapes([p.shape for p in shard.parameters], self.options)
        compressed = {matrix.number for matrix in self.matrices}
        self.whole = [i for i in range(len(shard.parameters)) if i not in compressed]
        self.memory = torch.zeros_like(shard.weights)
        sizes = [shard.parameters[i].numel() for i in self.whole]
        self.first = torch.empty(sum(n * r for _, n, _, r in self.matrices) + sum(sizes), device=shard.device)
        *self.p, rest = self.first.split([*(n * r for _, n, _, r in self.matrices), sum(sizes)])
        self.rest = rest.split(sizes)
        # 1:1, drawn on the CPU: the same on every rank and device
        drawn = torch.randn(
            sum(m * r for *_, m, r in self.matrices), generator=torch.Generator().manual_seed(worker.seed)
        )
        self.second = drawn.to(shard.device)
        self.q = self.second.split([m * r for *_, m, r in self.matrices])
        nbytes, codec = 4 * shard.size, f"{self.name}_r{self.options.rank}"
        product = sum(2 * n * m * r for _, n, m, r in self.matrices)  # FLOPs of one; three before decoding, and QR
        qr = sum(4 * n * r * r for _, n, _, r in self.matrices)
        self.encode_s = worker.price(f"encode/{codec}", nbytes, (3 * product + qr) / 2)
        self.decode_s = worker.price(f"decode/{codec}", nbytes, product)

    def exchange(self, gradient: torch.Tensor) -> torch.Tensor:
        if self.iteration <= self.options.start:
            return self.summed(gradient)
        phase, compute = self.worker.clock.phase, self.worker.fabric.compute
        with phase("compress"), compute(self.encode_s):
            self.multiply(gradient)
        self.summed(self.first)  # 1:4
        with phase("compress"), compute(self.encode_s):
            self.project(gradient)
        self.summed(self.second)  # 1:7
        with phase("compress"), compute(self.decode_s):
            self.decompress(gradient)
        return gradient

    def summed(self, vector: torch.Tensor) -> torch.Tensor:
        """The sum over the workers, in place."""
        if vector.numel():
            with self.worker.clock.phase("communicate"):
                self.worker.fabric.allreduce(vector, algorithm=self.options.algorithm).wait()
        return vector

    def multiply(self, gradient: torch.Tensor) -> None:
        """2:7 and 1:3: the update, in place of the gradient, and P = M Q."""
        if not self.worker.arithmetic:
            return
        gradient.add_(self.memory)
        for M, P, Q in self.factors(gradient):
            torch.mm(M, Q, out=P)
        views = self.worker.model_shard.views(gradient)
        for index, whole in zip(self.whole, self.rest):
            whole.copy_(views[index].view(-1))

    def project(self, update: torch.Tensor) -> None:
        """1:5, 1:6 and 2:9: orthonormal P, Q = M^T P, and the memory M - P Q^T."""
        if not self.worker.arithmetic:
            return
        self.memory.zero_()
        for (M, P, Q), (E, *_) in zip(self.factors(update), self.factors(self.memory)):
            P.copy_(torch.linalg.qr(P).Q)
            torch.mm(M.T, P, out=Q)
            torch.addmm(M, P, Q.T, alpha=-1, out=E)

    def decompress(self, out: torch.Tensor) -> None:
        """1:9 and 2:11: P Q^T, and the uncompressed tensors."""
        if not self.worker.arithmetic:
            return
        for M, P, Q in self.factors(out):
            torch.mm(P, Q.T, out=M)
        views = self.worker.model_shard.views(out)
        for index, whole in zip(self.whole, self.rest):
            views[index].view(-1).copy_(whole)

    def factors(self, vector: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """(M, P, Q) of each matrix of a vector (n,): views."""
        views = self.worker.model_shard.views(vector)
        return [
            (views[number].view(n, m), p.view(n, r), q.view(m, r))
            for (number, n, m, r), p, q in zip(self.matrices, self.p, self.q)
        ]

    def state_dict(self) -> dict:
        return super().state_dict() | {"memory": self.memory.clone(), "q": self.second.clone()}

    def load_state_dict(self, state: dict) -> None:
        super().load_state_dict(state)
        self.memory.copy_(state["memory"])
        self.second.copy_(state["q"])


def matrix_shapes(shapes: Sequence[Sequence[int]], options: Options) -> list[Matrix]:
    """The tensors to compress, each as a matrix of its first dimension by all others (1:1)."""
    compressed = []
    for index, shape in enumerate(shapes):
        n, m = (shape[0], prod(shape[1:])) if len(shape) > 1 else (1, 1)
        r = min(n, m, options.rank)
        if len(shape) > 1 and (n + m) * r * options.min_compression < n * m:
            compressed.append(Matrix(index, n, m, r))
    return compressed
