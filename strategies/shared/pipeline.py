"""The base class of pipelines, in which each rank holds a stage of the model (PipeDream sections 3.3, 3.4 and 4)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from repro.algorithms.pipeline import timeline
from repro.algorithms.pipeline.configuration import Configuration, configure_stages
from repro.algorithms.pipeline.layout import AUTOMATIC, parse_config
from repro.algorithms.pipeline.messages import Messages, Shape
from repro.algorithms.pipeline.passes import BACKWARD, FORWARD, Op, Plan
from repro.algorithms.pipeline.shapes import output_shapes
from repro.algorithms.pipeline.versions import Versions
from repro.algorithms.timing import stage_forms
from repro.algorithms.timing.setting import Place, Setting
from repro.algorithms.timing.step import Step
from repro.core.config_folders import profile_path
from repro.core.errors import InputError
from repro.core.fields import Positive
from repro.core.not_none import not_none
from repro.fabric.option_names import AllreduceName
from repro.strategies.base import RunFacts, StepReport, Strategy
from repro.strategies.shared.data_parallel import AllreduceOptions
from repro.strategies.shared.look_ahead import LookAhead
from repro.strategies.shared.stage_passes import Passes
from repro.strategies.shared.stage_updates import Updates
from repro.training.worker import Worker


@dataclass
class PipelineOptions(AllreduceOptions):
    """Options of all pipelines.

    config         "auto": the partitioner's; "straight": the same with one rank for each stage; "even": with two or
                   more ranks, as many in each of two or more stages; or the replicas of each stage, such as "2-1-1"
    cuts           with replicas: the first block of every stage but the first; []: the partitioner's
    profile        the partitioner's input, a file of `repro profile`; None: in virtual time the testbed's device, in
                   real time an estimate from FLOPs
    bandwidth_Bps  of the network, for the partitioner (bytes/s); None: the fabric's, or 1 Gbit/s
    cost_model     of the partitioner
    algorithm      of the allreduce between replicas of a stage
    """

    config: str = "auto"
    cuts: list[int] | None = None
    profile: str | None = None
    bandwidth_Bps: Positive | None = None
    cost_model: str = "paper"
    algorithm: AllreduceName = "sharded_server"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.config not in AUTOMATIC:
            parse_config(self.config)
        elif self.cuts:
            raise InputError(f"strategy.cuts={self.cuts}: config {self.config} finds its own; set config as in 2-1-1")


def check_trainable_in_stages(name: str, worker: Worker) -> None:
    """InputError for a model or training options that strategies with stages do not support."""
    if worker.model_shard.stateful:
        raise InputError(
            f"strategy {name}: a block carries state from one minibatch to the next, but a pipeline processes several "
            "at once"
        )
    if worker.model_shard.clip_norm is not None and worker.workers > 1:
        raise InputError(
            f"strategy {name}: optimizer.clip_norm needs the gradient of the whole model, which no stage has"
        )
    if worker.min_compute_s is not None and worker.blocks is None:
        raise InputError(
            f"strategy {name}: min_compute_s={worker.min_compute_s}: passes of stages are not padded; must be null"
        )


class Pipeline(Strategy):
    """Subclasses schedule minibatches: `plan`. A step is a backward pass and the forward passes before it.

    An iteration, for the learning-rate schedule for instance, is as many minibatches as there are ranks.
    """

    requires = frozenset({"threads"})
    Options = PipelineOptions
    identical_replicas = False  # ranks hold different stages
    local_checkpoints = True  # at a stage's last backward pass of an epoch, without coordination (section 4)

    @abstractmethod
    def plan(self, configuration: Configuration, minibatches: int) -> Plan:
        """The plan for so many minibatches."""

    @classmethod
    def plan_in(
        cls, setting: Setting, place: Place, options: Any, iterations: int, rounded: bool = False
    ) -> Plan | None:
        """The plan of so many iterations in a setting; None if it has too few layers. rounded: see `stages_in`."""
        layout = stage_forms.stages_in(setting, place, options.config, rounded)
        if layout is None:
            return None
        minibatches = iterations * (getattr(options, "flush", None) or place.workers)
        return cls(options).plan(Configuration(layout, "", (), ()), minibatches)

    @classmethod
    def step_form(cls, setting: Setting, place: Place, options: Any) -> Step | None:
        """A recursion over the events of the plan."""
        plan = cls.plan_in(setting, place, options, stage_forms.ITERATIONS)
        return stage_forms.stages_step(setting, place, plan) if plan else None

    @classmethod
    def least_step(cls, setting: Setting, place: Place, options: Any) -> Step | None:
        """That of stages for a bandwidth near to this one."""
        plan = cls.plan_in(setting, place, options, 1, rounded=True)
        return stage_forms.least_stages_step(setting, place, plan) if plan else None

    @classmethod
    def period(cls, setting: Setting, place: Place, options: Any) -> int:
        plan = cls.plan_in(setting, place, options, 1)
        return 2 * math.ceil(plan.aligned / place.workers) if plan else 1

    @classmethod
    def check(cls, options: PipelineOptions, run: RunFacts) -> None:
        if options.config not in AUTOMATIC:
            ranks = sum(parse_config(options.config))
            if ranks != run.workers:
                raise InputError(
                    f"strategy.config={options.config}: is for {ranks} machines, but the run has workers={run.workers}"
                )

    @classmethod
    def check_model(cls, options: PipelineOptions, sizes: Sequence[int]) -> None:
        stages = 1 if options.config in AUTOMATIC else len(parse_config(options.config))
        if stages > len(sizes):
            raise InputError(
                f"strategy.config={options.config}: {stages} stages, and blocks of the model: {len(sizes)}"
            )

    @classmethod
    def files(cls, options: PipelineOptions) -> list[Path]:
        return [] if options.profile is None else [profile_path(options.profile)]

    def setup(self, worker: Worker) -> None:
        """Partition the model, make and check the plan; the rank keeps the blocks of its stage."""
        super().setup(worker)
        check_trainable_in_stages(self.name, worker)
        sample, _ = worker.batches[0]
        shapes = output_shapes(worker.model_shard.blocks, sample)
        self.configuration = configure_stages(worker, self.options, sample)
        self.planned = plan = self.plan(self.configuration, worker.workers * not_none(worker.iterations))
        timeline.check_deadlock(plan)
        layout = plan.layout
        self.stage, self.replica = layout.place(worker.rank)
        placed = layout.stages[self.stage]
        groups = [
            worker.fabric.subgroup(layout.replicas_of(stage))
            for stage, blocks in enumerate(layout.stages)
            if blocks.replicas > 1
        ]
        peers = next((group for group in groups if group is not None), None)
        worker.keep(range(placed.first, placed.last + 1))
        worker.model_shard.updates_per_iteration = Fraction(worker.workers, plan.group(self.stage))
        self.versions = Versions(worker.model_shard, keep=plan.semantics != "naive")
        self.updates = Updates(worker, plan, self.versions, peers, self.options, lambda: self.passes.needed())
        received: dict[str, Shape] = {}
        if self.stage > 0:
            received[FORWARD] = shapes[placed.first - 1]
        if self.stage < len(layout.stages) - 1:
            received[BACKWARD] = shapes[placed.last]
        self.messages = Messages(worker.fabric, worker.clock, plan, worker.rank, received, worker.model_shard.device)
        self.look_ahead = LookAhead(self.messages, worker.workers)
        self.passes = Passes(worker, plan, self.versions, self.updates, self.messages)
        self.predicted_bytes = sum(shape.kept for shape in shapes[placed.first : placed.last + 1])

    # --- the run
    def steps(self, minibatches: int) -> int:
        plan = self.planned
        return plan.count(self.stage, self.replica, plan.stop_at(minibatches))

    def step(self) -> StepReport:
        """This rank's next backward pass, after the forward passes before it (1F1B: one)."""
        passes, look_ahead, k = self.passes, self.look_ahead, self.passes.done
        boundary = look_ahead.boundary(k)
        for forward in range(passes.forwarded, self.planned.forwarded(self.stage, self.replica, k)):
            look_ahead.post(Op(FORWARD, forward), boundary)
            passes.forward(forward)
        look_ahead.post(Op(BACKWARD, k), boundary)
        report = passes.backward(k)
        self.messages.limit_sends(2 * self.planned.layout.ranks)
        return report

    def settle(self) -> None:
        self.updates.reach_contributed()
        with self.worker.clock.phase("communicate"):
            if self.passes.done:
                self.look_ahead.post_certain(self.look_ahead.boundary(self.passes.done - 1))
            self.messages.settle()
        self.versions.use_latest()

    def drain(self) -> None:
        while self.passes.done < self.planned.count(self.stage, self.replica):
            self.step()
        self.updates.finish()
        self.settle()

    # --- resume: the state has the weights and the inputs of minibatches in progress, whose forward passes are repeated
    # with the same version; in naive pipelining with the latest one, so that its bits differ after a resume
    def state_dict(self) -> dict:
        self.updates.reach_contributed()  # the other replicas of this stage reach the same update
        layout = self.planned.layout
        weights = {"versions": self.versions.state_dict(), "updates": self.updates.state_dict()}
        return {"config": layout.config, "cuts": layout.cuts} | self.passes.state_dict() | weights

    def load_state_dict(self, state: dict) -> None:
        layout, passes = self.planned.layout, self.passes
        if (state["config"], state["cuts"]) != (layout.config, layout.cuts):
            raise InputError(
                f"the checkpoint has configuration {state['config']} with cuts {state['cuts']}, and the run "
                f"{layout.config} with cuts {layout.cuts}"
            )
        passes.done, passes.most_flying = state["done"], state["most_flying"]
        passes.forwarded = self.planned.forwarded(self.stage, self.replica, passes.done - 1)
        self.versions.load_state_dict(state["versions"])
        self.updates.load_state_dict(state["updates"])
        self.look_ahead.restart(passes.done)
        model = self.worker.model_shard.model
        buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
        for k, (version, received) in state["flying"].items():
            passes.repeat_forward(k, version, received, self.look_ahead.boundary(passes.done - 1))
        for name, buffer in model.named_buffers():
            # running statistics include these minibatches already; `data`, because autograd has saved the buffers
            buffer.data.copy_(buffers[name])
        self.versions.use_latest()

    # --- records
    def describe(self) -> dict[str, Any]:
        plan, configuration = self.planned, self.configuration
        return {
            "config": plan.layout.config,
            "cuts": plan.layout.cuts,
            "noam": plan.layout.noam,
            "schedule": plan.schedule,
            "semantics": plan.semantics,
            "source": configuration.source,
            "stages": configuration.stages,
        }

    def describe_rank(self) -> dict[str, Any]:
        """This rank's stage and its memory in bytes, measured and predicted by the plan and the model's shapes."""
        plan, weights = self.planned, 4 * self.worker.model_shard.size
        predicted = {
            "weights_bytes": weights,
            "stash_bytes": plan.stashes(self.stage, self.replica) * weights,
            "activation_bytes": plan.most_in_flight(self.stage) * self.predicted_bytes,
        }
        return {"stage": self.stage, "replica": self.replica, **self.passes.memory(), "predicted": predicted}

    def close(self) -> None:
        self.messages.close()
        self.updates.close()
