"""What pipelines share: a rank holds a stage of the model, minibatches come by (PipeDream sections 3.3, 3.4 and 4)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from repro.common.errors import InputError
from repro.common.paths import profile_path
from repro.pipeline import deadlock
from repro.pipeline.configuration import Configuration, configure
from repro.pipeline.layout import FOUND, parse_config
from repro.pipeline.memory import counted
from repro.pipeline.messages import PREFETCH, Messages, Shape
from repro.pipeline.plan import BACKWARD, FORWARD, Op, Plan
from repro.pipeline.shapes import outputs
from repro.pipeline.versions import Versions
from repro.training.worker import Worker
from strategies.base import StepReport, Strategy
from strategies.shared.data_parallel import AllreduceOptions
from strategies.shared.stage_updates import Updates


@dataclass
class PipelineOptions(AllreduceOptions):
    """Options of all pipelines.

    config        "auto", the partitioner's; "straight", the same with one rank a stage; or the replicas of each stage
    cuts          with replicas given: the first block of every stage but the first; [] leaves them to the partitioner
    profile       a file of `repro profile`, what the partitioner goes by; from the project's folder. Without one: in
                  virtual time the testbed's device, in real time an estimate from FLOPs
    bandwidth_Bps of the network, for the partitioner (bytes/s); without it 1 Gbit/s
    cost_model    the partitioner's
    algorithm     by which replicas of a stage synchronise
    """

    config: str = "auto"
    cuts: list[int] | None = None
    profile: str | None = None
    bandwidth_Bps: float | None = None
    cost_model: str = "paper"
    algorithm: str = "sharded_server"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.config not in FOUND:
            parse_config(self.config)
        elif self.cuts:
            raise InputError(f"strategy.cuts={self.cuts}: config {self.config} finds its own; give config as in 2-1-1")
        if self.bandwidth_Bps is not None and not (
            isinstance(self.bandwidth_Bps, int | float) and self.bandwidth_Bps > 0
        ):
            raise InputError(f"strategy.bandwidth_Bps={self.bandwidth_Bps}: must be bytes/s, above 0")


@dataclass
class Flying:
    """A minibatch between its forward and its backward pass in this stage."""

    version: int
    received: torch.Tensor | None  # the buffer that its input came in; None at the input stage
    x: torch.Tensor | None
    output: torch.Tensor | None


class Pipeline(Strategy):
    """Authors say how minibatches are scheduled: `plan`. A step is a backward pass and the forward passes before it.

    The learning-rate schedule and everything else that counts iterations go by minibatches: an iteration is as many as
    there are ranks.
    """

    requires = frozenset({"threads"})
    Options = PipelineOptions
    identical_replicas = False  # ranks hold different stages
    local_checkpoints = True  # at a stage's last backward pass of an epoch, without a word to the others (section 4)

    @abstractmethod
    def plan(self, configuration: Configuration, minibatches: int) -> Plan:
        """The plan for that many minibatches."""

    @classmethod
    def check(cls, options: PipelineOptions, run: Mapping[str, Any]) -> None:
        if options.config not in FOUND:
            ranks = sum(parse_config(options.config))
            if ranks != run["workers"]:
                raise InputError(
                    f"strategy.config={options.config}: is for {ranks} machines, but the run has "
                    f"workers={run['workers']}"
                )

    @classmethod
    def files(cls, options: PipelineOptions) -> list[Path]:
        return [] if options.profile is None else [profile_path(options.profile)]

    def setup(self, worker: Worker) -> None:
        """Cut the model, find the plan and check it; the rank keeps the blocks of its stage."""
        super().setup(worker)
        if worker.model_shard.stateful:
            raise InputError(
                f"strategy {self.name}: a block carries state from one minibatch to the next, of which a "
                "pipeline has several under way"
            )
        if worker.model_shard.clip_norm is not None and worker.workers > 1:
            raise InputError(
                f"strategy {self.name}: optimizer.clip_norm needs the gradient of the whole model, which no stage has"
            )
        if worker.min_compute_s is not None and worker.blocks is None:
            raise InputError(
                f"strategy {self.name}: min_compute_s={worker.min_compute_s}: passes of stages are not padded; null"
            )
        sample, _ = worker.batches[0]
        shapes = outputs(worker.model_shard.blocks, sample)
        self.configuration = configure(worker, self.options, sample)
        self.planned = plan = self.plan(self.configuration, worker.workers * worker.iterations)
        deadlock.check(plan)
        layout = plan.layout
        self.stage, self.replica = layout.place(worker.rank)
        mine = layout.stages[self.stage]
        self.is_input, self.is_output = self.stage == 0, self.stage == len(layout.stages) - 1
        groups = [
            worker.fabric.subgroup(layout.replicas_of(stage))
            for stage, one in enumerate(layout.stages)
            if one.replicas > 1
        ]
        peers = next((group for group in groups if group is not None), None)
        worker.cut(mine.first, mine.last)
        worker.model_shard.updates_per_iteration = Fraction(worker.workers, plan.group(self.stage))
        self.versions = Versions(worker.model_shard, keep=plan.semantics != "naive")
        self.updates = Updates(worker, plan, self.versions, peers, self.options, self._needed)
        received: dict[str, Shape] = {}
        if not self.is_input:
            received[FORWARD] = shapes[mine.first - 1]
        if not self.is_output:
            received[BACKWARD] = shapes[mine.last]
        self.messages = Messages(worker.fabric, worker.clock, plan, worker.rank, received, worker.model_shard.device)
        self.done, self.forwarded = 0, 0  # backward and forward passes
        self.flying: dict[int, Flying] = {}
        self.most_flying, self.kept_bytes = 0, 0
        self.predicted_bytes = sum(shape.kept for shape in shapes[mine.first : mine.last + 1])
        self._unposted = self._ops(0)

    # --- the run
    def steps(self, minibatches: int) -> int:
        plan = self.planned
        return plan.count(self.stage, self.replica, plan.stop_at(minibatches))

    def step(self) -> StepReport:
        """This rank's next backward pass, after the forward passes that come before it (1F1B: one)."""
        k = self.done
        boundary = self._boundary(k)
        for forward in range(self.forwarded, self.planned.forwarded(self.stage, self.replica, k)):
            self._post(Op(FORWARD, forward), boundary)
            self._forward(forward)
        self._post(Op(BACKWARD, k), boundary)
        report = self._backward(k)
        self.messages.reap(2 * self.planned.layout.ranks)
        return report

    def _forward(self, k: int) -> None:
        worker, plan = self.worker, self.planned
        minibatch = plan.minibatch(self.stage, self.replica, k)
        version = plan.version(self.stage, k, self.replica)
        iteration = minibatch // worker.workers
        if k == 0 or plan.minibatch(self.stage, self.replica, k - 1) // worker.workers != iteration:
            worker.inject_delay(iteration)  # once an iteration, as everywhere
        self.updates.reach(version)
        received = None if self.is_input else self._receive(Op(FORWARD, k))
        x, y = self._data(minibatch, received)
        self.versions.use(version)
        if self.kept_bytes or not worker.arithmetic:
            output = worker.forward(minibatch, x, y)
        else:  # every minibatch is of one shape: the first shows what each keeps
            with counted(worker.model_shard.parameters) as kept:
                output = worker.forward(minibatch, x, y)
            self.kept_bytes = kept.nbytes
            kept.storages.clear()
        self.flying[k] = Flying(version, received, x, output)
        self.forwarded = k + 1
        self.most_flying = max(self.most_flying, len(self.flying))
        if not self.is_output:
            with worker.clock.phase("communicate"):
                self._send_output(minibatch, output)

    def _data(self, minibatch: int, received: torch.Tensor | None) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """The stage's input of a minibatch, and at the output stage its labels."""
        worker = self.worker
        if not worker.arithmetic:
            return received, None
        x, y = received, None
        if self.is_input or self.is_output:
            with worker.clock.phase("data"):
                loaded, labels = worker.batches[minibatch]
            x, y = (loaded if self.is_input else x), (labels if self.is_output else None)
        return x if self.is_input else x.detach().requires_grad_(), y

    def _send_output(self, minibatch: int, output: torch.Tensor | None) -> None:
        if output is None:  # no arithmetic
            output = self.nothing(BACKWARD)
        self.messages.send(FORWARD, minibatch, output.detach())

    def nothing(self, kind: str) -> torch.Tensor:
        """A message without contents, of the size of what a pass of that kind receives."""
        shape = self.messages.shapes[kind]
        return torch.empty(shape.size, dtype=shape.dtype, device="meta")

    def _backward(self, k: int) -> StepReport:
        worker, plan = self.worker, self.planned
        minibatch = plan.minibatch(self.stage, self.replica, k)
        self.updates.reach(plan.applied(self.stage, k))
        flying = self.flying.pop(k)
        gradient = None if self.is_output else self._receive(Op(BACKWARD, k))
        self.versions.use(flying.version)
        worker.backward(
            minibatch, flying.output, gradient, self.updates.while_backward(k), add=not self.updates.first(k)
        )
        if gradient is not None:
            self.messages.release(BACKWARD, gradient)
        if not self.is_input:
            with worker.clock.phase("communicate"):
                self.messages.send(BACKWARD, minibatch, flying.x.grad if worker.arithmetic else self.nothing(FORWARD))
            self.messages.release(FORWARD, flying.received)
        self.done = k + 1
        staleness = plan.update_of(self.stage, k) - flying.version
        self.updates.after_backward(k)
        self.versions.use_latest()
        loss = flying.output.detach() if self.is_output and worker.arithmetic else None
        return StepReport(loss, (minibatch,), worker.batches.size, (staleness,))

    def _needed(self) -> set[int]:
        """The versions that are still to be used: of minibatches under way, and from that of the next one on."""
        needed = {flying.version for flying in self.flying.values()}
        if self.forwarded < self.planned.count(self.stage, self.replica):
            following = self.planned.version(self.stage, self.forwarded, self.replica)
            needed |= set(range(following, self.versions.latest + 1))
        return needed

    # --- messages
    def _receive(self, op: Op) -> torch.Tensor:
        with self.worker.clock.phase("communicate"):
            return self.messages.take(op)

    def _ops(self, k: int) -> Iterator[Op]:
        """This rank's passes that need a message, from step k on."""
        plan = self.planned
        for done in range(k, plan.count(self.stage, self.replica)):
            before = plan.forwarded(self.stage, self.replica, done - 1)
            forwards = (Op(FORWARD, j) for j in range(before, plan.forwarded(self.stage, self.replica, done)))
            yield from filter(self.messages.comes, chain(forwards, [Op(BACKWARD, done)]))

    def _post(self, present: Op, boundary: int) -> None:
        """Post the receive of the pass that comes now, and some of those behind it that are sure to be sent."""
        messages = self.messages
        if messages.comes(present):
            while present not in messages.here and present not in messages.waiting:
                messages.post(next(self._unposted))
        while len(messages.waiting) < PREFETCH + 1 and (op := next(self._unposted, None)) is not None:
            if not self._sure(op, boundary):
                self._unposted = chain([op], self._unposted)
                break
            messages.post(op)

    def _boundary(self, k: int) -> int:
        """The minibatches after which the run may stop for the first time behind step k."""
        plan = self.planned
        return plan.next_stop(plan.minibatch(self.stage, self.replica, k), self.worker.workers)

    def _sure(self, op: Op, boundary: int) -> bool:
        """Whether the message that a pass needs is sent before the run stops there."""
        plan = self.planned
        minibatch = plan.minibatch(self.stage, self.replica, op.k)
        if op.kind == BACKWARD:
            return minibatch < boundary
        return plan.forwarded_before(self.stage - 1, minibatch, boundary)

    def settle(self) -> None:
        self.updates.reach_given()
        with self.worker.clock.phase("communicate"):
            if self.done:
                boundary = self._boundary(self.done - 1)
                for op in self._unposted:
                    if not self._sure(op, boundary):
                        self._unposted = chain([op], self._unposted)
                        break
                    self.messages.post(op)
            self.messages.settle()
        self.versions.use_latest()

    def drain(self) -> None:
        while self.done < self.planned.count(self.stage, self.replica):
            self.step()
        self.updates.finish()
        self.settle()

    # --- resume: weights, and of the minibatches under way what they came with. Their forward passes are done again,
    # with the version that they had; in naive pipelining with the one that is left: its bits differ after a resume
    def state_dict(self) -> dict:
        self.updates.reach_given()  # the other replicas of this stage come to the same update
        under_way = {
            k: (flying.version, None if flying.received is None else flying.received.clone())
            for k, flying in self.flying.items()
        }
        return {
            "config": self.planned.layout.config,
            "cuts": self.planned.layout.cuts,
            "done": self.done,
            "flying": under_way,
            "versions": self.versions.state_dict(),
            "updates": self.updates.state_dict(),
            "most_flying": self.most_flying,
        }

    def load_state_dict(self, state: dict) -> None:
        layout = self.planned.layout
        if (state["config"], state["cuts"]) != (layout.config, layout.cuts):
            raise InputError(
                f"the checkpoint is of configuration {state['config']} cut at {state['cuts']}, and the run is "
                f"{layout.config} cut at {layout.cuts}"
            )
        self.done, self.most_flying = state["done"], state["most_flying"]
        self.forwarded = self.planned.forwarded(self.stage, self.replica, self.done - 1)
        self.versions.load_state_dict(state["versions"])
        self.updates.load_state_dict(state["updates"])
        self._unposted = self._ops(self.done)
        kept = {name: buffer.clone() for name, buffer in self.worker.model_shard.model.named_buffers()}
        for k, (version, received) in state["flying"].items():
            self._bring_back(k, version, received)
        for name, buffer in self.worker.model_shard.model.named_buffers():
            buffer.copy_(kept[name])  # running statistics have seen these minibatches
        self.versions.use_latest()

    def _bring_back(self, k: int, version: int, received: torch.Tensor | None) -> None:
        """Do a forward pass again as it was, and send what the next stage had not used at its checkpoint."""
        worker, plan = self.worker, self.planned
        minibatch = plan.minibatch(self.stage, self.replica, k)
        output = x = None
        if received is not None:
            received = received.to(worker.model_shard.device)
        if worker.arithmetic:
            loaded, y = worker.batches[minibatch]
            x = loaded if self.is_input else received.detach().requires_grad_()
            self.versions.use(version)
            output = worker.forward(minibatch, x, y if self.is_output else None, timed=False)
        self.flying[k] = Flying(version, received, x, output)
        if not self.is_output and not plan.forwarded_before(self.stage + 1, minibatch, self._boundary(self.done - 1)):
            self._send_output(minibatch, output)

    # --- what it is and was
    def describe(self) -> dict[str, Any]:
        plan, configuration = self.planned, self.configuration
        return {
            "config": plan.layout.config,
            "cuts": plan.layout.cuts,
            "noam": plan.layout.noam,
            "schedule": plan.schedule,
            "semantics": plan.semantics,
            "source": configuration.source,
            "stages": [
                {"first": one.first, "last": one.last, "replicas": one.replicas, "blocks": names, "seconds": seconds}
                for one, names, seconds in zip(plan.layout.stages, configuration.blocks, configuration.seconds)
            ],
        }

    def describe_rank(self) -> dict[str, Any]:
        """This rank's stage and its memory, in bytes: weights, older versions of them, what forward passes keep."""
        weights = 4 * self.worker.model_shard.size
        plan = self.planned
        return {
            "stage": self.stage,
            "replica": self.replica,
            "weights_bytes": weights,
            "stash_bytes": (self.versions.peak - 1) * weights,
            "activation_bytes": self.most_flying * self.kept_bytes,
            "in_flight": self.most_flying,
            "buffer_bytes": self.messages.buffer_bytes,
            "predicted": {
                "weights_bytes": weights,
                "stash_bytes": plan.stashes(self.stage) * weights,
                "activation_bytes": plan.most_in_flight(self.stage) * self.predicted_bytes,
            },
        }

    def close(self) -> None:
        self.messages.close()
        self.updates.close()
