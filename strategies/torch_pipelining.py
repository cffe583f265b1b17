"""`torch.distributed.pipelining`: PyTorch's own GPipe, 1F1B and interleaved 1F1B, what a user would pick today."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import nn
from torch.distributed import pipelining

from repro.algorithms.pipeline.configuration import configure
from repro.algorithms.pipeline.messages import Shape
from repro.algorithms.pipeline.shapes import outputs
from repro.core.config_folders import profile_path
from repro.core.errors import InputError
from repro.core.fields import Count, Positive
from repro.fabric.base import MAIN
from repro.fabric.real.torch_dist import TorchFabric
from repro.strategies.base import RunFacts, StepReport, Strategy
from repro.strategies.shared.pipeline import PipelineOptions, check_trainable_in_stages
from repro.training import numerics
from repro.training.worker import Worker

SCHEDULES: Mapping[str, Any] = {
    "gpipe": pipelining.ScheduleGPipe,
    "1f1b": pipelining.Schedule1F1B,
    "interleaved_1f1b": pipelining.ScheduleInterleaved1F1B,
}
INTERLEAVED = "interleaved_1f1b"
OURS = {"gpipe": "gpipe", "1f1b": "one_f_one_b_flush"}  # the same updates, as strategies of ours
Flush = Callable[[torch.Tensor | None, torch.Tensor | None], list[torch.Tensor]]


@dataclass
class Options:
    """cuts, profile, bandwidth_Bps, cost_model: as of our pipelines, for stages of one rank each.

    schedule  of torch's
    stages    that each rank holds, with interleaved_1f1b alone: rank r has stages r, r + ranks, ...
    """

    config: ClassVar[str] = "straight"

    schedule: Literal["gpipe", "1f1b", "interleaved_1f1b"] = "1f1b"
    stages: Count = 2
    cuts: list[int] | None = None
    profile: str | None = None
    bandwidth_Bps: Positive | None = None
    cost_model: str = "paper"

    def a_rank(self) -> int:
        """How many stages it holds."""
        return self.stages if self.schedule == INTERLEAVED else 1

    def of_pipeline(self, stages: int) -> PipelineOptions:
        """The options of a pipeline of ours with these stages; InputError for cuts that are not as many."""
        config = "straight" if self.cuts is None else "-".join(["1"] * stages)
        return PipelineOptions(
            config=config, cuts=self.cuts, profile=self.profile, bandwidth_Bps=self.bandwidth_Bps,
            cost_model=self.cost_model,
        )  # fmt: skip


def flushing(name: str, stages: list[Any], microbatches: int, loss_function: Any) -> Flush:
    """A flush by torch's schedule of that name: from inputs (at the first stage) and labels (at the last), of all
    microbatches one behind the other, to the losses of each (at the last). Gradients end in `.grad`, averaged."""
    alone = not issubclass(SCHEDULES[name], pipelining.ScheduleInterleaved1F1B)
    schedule = SCHEDULES[name](stages[0] if alone else stages, microbatches, loss_function)
    # later versions need not put the outputs together
    how = {"return_outputs": False} if "return_outputs" in inspect.signature(schedule.step).parameters else {}

    def flush(inputs: torch.Tensor | None, labels: torch.Tensor | None) -> list[torch.Tensor]:
        losses: list[torch.Tensor] = []
        positional = () if inputs is None else (inputs,)
        targets = {} if labels is None else {"target": labels, "losses": losses}
        schedule.step(*positional, **targets, **how)
        return losses

    return flush


class Blocks(nn.Module):
    """A stage as torch sees it: some blocks of the rank's part, with the random numbers that they have everywhere."""

    def __init__(self, worker: Worker, held: range):
        super().__init__()
        part = worker.model_shard
        self.blocks = nn.ModuleList(part.blocks[index] for index in held)
        self.held, self.seeded = held, worker.compute.seeded
        self.calls = numerics.calls(part.numerics, list(self.blocks), part.device)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for index, call in zip(self.held, self.calls):
            with self.seeded(index):
                x = call(x)
        return x


class Stage(pipelining.PipelineStage):
    """Torch's, whose passes are phases of the clock: what it does between them is communication."""

    def __init__(self, strategy: TorchPipelining, *given: Any, **how: Any):
        super().__init__(*given, **how)
        self.strategy = strategy

    def forward_one_chunk(self, fwd_chunk_id: int, *given: Any, **how: Any) -> Any:
        self.strategy.at_work_on(fwd_chunk_id)
        with self.strategy.worker.clock.interruption("forward"):
            return super().forward_one_chunk(fwd_chunk_id, *given, **how)

    def backward_one_chunk(self, *given: Any, **how: Any) -> Any:
        with self.strategy.worker.clock.interruption("backward"):
            return super().backward_one_chunk(*given, **how)


class TorchPipelining(Strategy):
    """Synchronous SGD: an iteration is one flush, of all workers' minibatches, each in `accumulate` microbatches.

    gpipe        Huang et al., NeurIPS 2019 · 1f1b  PipeDream-Flush, Narayanan et al., ICML 2021
    interleaved_1f1b  several stages a rank, so that the pipeline fills in smaller steps (Narayanan et al., SC 2021)

    Its updates are those of `gpipe` and `one_f_one_b_flush`, up to the order of summation. Phase "communicate" is
    what torch does besides the passes, waiting included; nothing is counted as overlapped. Bytes are counted from the
    shapes of what goes between stages.
    """

    name = "torch_pipelining"
    requires = frozenset({"torch.distributed"})
    Options = Options
    identical_replicas = False  # ranks hold different stages

    @classmethod
    def check(cls, options: Any, run: RunFacts) -> None:
        if options.schedule == INTERLEAVED and run.workers == 1:
            raise InputError(f"strategy.schedule={INTERLEAVED}: needs 2 workers or more, who have stages in turn")

    @classmethod
    def files(cls, options: Any) -> list[Path]:
        return [] if options.profile is None else [profile_path(options.profile)]

    @classmethod
    def twin(cls, options: Any) -> tuple[str, dict[str, Any]] | None:
        """Our pipeline of that schedule; there is none of the interleaved one."""
        if options.schedule not in OURS:
            return None
        stages = 1 + len(options.cuts or [])
        return OURS[options.schedule], asdict(options.of_pipeline(stages))

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        check_trainable_in_stages(self.name, worker)
        assert isinstance(worker.fabric, TorchFabric)
        if worker.fabric.backend == "gloo" and worker.model_shard.device.type == "cuda":
            raise InputError(
                f"strategy {self.name}: torch's stages send tensors where they are, and gloo sends from host memory "
                "alone; device=cpu, or NCCL with a GPU for each rank"
            )
        self.fabric, self.iteration = worker.fabric, 0
        self.first, self.last = worker.rank == 0, worker.rank == worker.workers - 1
        stages = worker.workers * self.options.a_rank()
        sample, _ = worker.batches[0]
        microbatch = sample.chunk(worker.accumulate)[0]
        shapes = outputs(worker.model_shard.blocks, microbatch)
        self.configuration = configure(replace(worker, workers=stages), self.options.of_pipeline(stages), sample)
        layout = self.configuration.layout.stages
        mine = range(worker.rank, stages, worker.workers)
        self._check_training(layout[0].last)
        worker.keep([block for stage in mine for block in range(layout[stage].first, layout[stage].last + 1)])
        self.microbatches = worker.workers * worker.accumulate
        self.flush_bytes, at, made = 0, 0, []
        for stage in mine:
            length = 1 + layout[stage].last - layout[stage].first
            entering = None if stage == 0 else shapes[layout[stage].first - 1]
            leaving = shapes[layout[stage].last]
            if stage > 0:  # a gradient to the stage before it
                self.flush_bytes += self.microbatches * shapes[layout[stage].first - 1].nbytes
            if stage < stages - 1:
                self.flush_bytes += self.microbatches * leaving.nbytes
            made.append(
                Stage(
                    self,
                    Blocks(worker, range(at, at + length)),
                    stage,
                    stages,
                    worker.model_shard.device,
                    # with shapes torch has no need to find them by a pass, in which running statistics would move
                    input_args=torch.empty_like(microbatch, device="meta") if entering is None else _like(entering),
                    output_args=_like(leaving),
                    group=self.fabric.process_group(MAIN),
                )
            )
            at += length
        self.flush = flushing(self.options.schedule, made, self.microbatches, worker.loss_function)

    def _check_training(self, last: int) -> None:
        """InputError where the first stage, up to block `last`, trains nothing: torch has no backward pass then."""
        blocks = self.worker.model_shard.blocks[: last + 1]
        if self.worker.workers > 1 and not any(p.requires_grad for block in blocks for p in block.parameters()):
            raise InputError(f"strategy {self.name}: nothing trains in the first stage, blocks 0 to {last}; set cuts")

    def at_work_on(self, microbatch: int) -> None:
        """Whose random numbers the passes from here on have."""
        compute = self.worker.compute
        minibatch, compute.microbatch = divmod(microbatch, self.worker.accumulate)
        compute.minibatch = self.iteration * self.worker.workers + minibatch

    def step(self) -> StepReport:
        worker, clock = self.worker, self.worker.clock
        worker.inject_delay(self.iteration)
        minibatches = range(self.iteration * worker.workers, (self.iteration + 1) * worker.workers)
        inputs, labels = None, None
        if self.first or self.last:
            with clock.phase("data"):
                loaded = [worker.batches[minibatch] for minibatch in minibatches]
                inputs = torch.cat([x for x, _ in loaded]) if self.first else None
                labels = torch.cat([y for _, y in loaded]) if self.last else None
        for parameter in worker.model_shard.parameters:
            parameter.grad = None
        with ExitStack() as around:
            around.enter_context(self.fabric.watched("a transfer of torch.distributed.pipelining"))
            around.enter_context(clock.phase("communicate"))
            losses = self.flush(inputs, labels)
        worker.fabric.bytes_sent += self.flush_bytes
        worker.update()  # the gradients are means already
        self.iteration += 1
        loss = torch.stack([loss.detach() for loss in losses]).mean() if losses else None
        return StepReport(loss, tuple(minibatches), worker.batches.size * worker.workers)

    def describe(self) -> dict[str, Any]:
        """As of our pipelines; stage s is rank s's, of several on a rank s modulo the ranks."""
        configuration = self.configuration
        layout = configuration.layout
        return {
            "config": layout.config,
            "cuts": layout.cuts,
            "schedule": self.options.schedule,
            "semantics": "flush",
            "source": configuration.source,
            "stages": configuration.stages,
        }

    def state_dict(self) -> dict:
        return {"iteration": self.iteration, "cuts": list(self.configuration.layout.cuts)}

    def load_state_dict(self, state: dict) -> None:
        cuts = list(self.configuration.layout.cuts)
        if state["cuts"] != cuts:
            raise InputError(f"the checkpoint is of stages cut at {state['cuts']}, and the run is cut at {cuts}")
        self.iteration = state["iteration"]


def _like(shape: Shape) -> torch.Tensor:
    return torch.empty(shape.size, dtype=shape.dtype, device="meta", requires_grad=True)
