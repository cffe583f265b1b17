"""`torch.distributed.pipelining`: PyTorch's GPipe, 1F1B and interleaved 1F1B."""

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

from repro.algorithms.pipeline.configuration import configure_stages
from repro.algorithms.pipeline.messages import Shape
from repro.algorithms.pipeline.shapes import output_shapes
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
    """cuts, profile, bandwidth_Bps, cost_model: as for our pipelines, with stages of one rank each.

    stages: of each rank, with interleaved_1f1b only: rank r has stages r, r + ranks, ...
    """

    config: ClassVar[str] = "straight"

    schedule: Literal["gpipe", "1f1b", "interleaved_1f1b"] = "1f1b"
    stages: Count = 2
    cuts: list[int] | None = None
    profile: str | None = None
    bandwidth_Bps: Positive | None = None
    cost_model: str = "paper"

    @property
    def stages_of_rank(self) -> int:
        return self.stages if self.schedule == INTERLEAVED else 1

    def of_pipeline(self, stages: int) -> PipelineOptions:
        """The options of our pipeline with so many stages; InputError for another number of cuts."""
        config = "straight" if self.cuts is None else "-".join(["1"] * stages)
        return PipelineOptions(
            config=config, cuts=self.cuts, profile=self.profile, bandwidth_Bps=self.bandwidth_Bps,
            cost_model=self.cost_model,
        )  # fmt: skip


def make_flush(name: str, stages: list[Any], microbatches: int, loss_function: Any) -> Flush:
    """A flush by torch's schedule of that name, of all microbatches, concatenated: from inputs (at the first stage) and
    labels (at the last) to the microbatches' losses (at the last). Averages gradients into `.grad`."""
    single = not issubclass(SCHEDULES[name], pipelining.ScheduleInterleaved1F1B)
    schedule = SCHEDULES[name](stages[0] if single else stages, microbatches, loss_function)
    # later versions of torch need not concatenate the outputs
    how = {"return_outputs": False} if "return_outputs" in inspect.signature(schedule.step).parameters else {}

    def flush(inputs: torch.Tensor | None, labels: torch.Tensor | None) -> list[torch.Tensor]:
        losses: list[torch.Tensor] = []
        positional = () if inputs is None else (inputs,)
        targets = {} if labels is None else {"target": labels, "losses": losses}
        schedule.step(*positional, **targets, **how)
        return losses

    return flush


class Blocks(nn.Module):
    """The module of a torch stage: some of the rank's blocks, with the same random seeds as in every strategy."""

    def __init__(self, worker: Worker, indices: range):
        super().__init__()
        part = worker.model_shard
        self.blocks = nn.ModuleList(part.blocks[index] for index in indices)
        self.indices, self.seeded = indices, worker.compute.seeded
        self.calls = numerics.forward_calls(part.numerics, list(self.blocks), part.device)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for index, call in zip(self.indices, self.calls):
            with self.seeded(index):
                x = call(x)
        return x


class Stage(pipelining.PipelineStage):
    """A torch stage whose passes are phases of the clock."""

    def __init__(self, strategy: TorchPipelining, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.strategy = strategy

    def forward_one_chunk(self, fwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        self.strategy.set_seeds(fwd_chunk_id)
        with self.strategy.worker.clock.interruption("forward"):
            return super().forward_one_chunk(fwd_chunk_id, *args, **kwargs)

    def backward_one_chunk(self, *args: Any, **kwargs: Any) -> Any:
        with self.strategy.worker.clock.interruption("backward"):
            return super().backward_one_chunk(*args, **kwargs)


class TorchPipelining(Strategy):
    """Synchronous SGD: an iteration is one flush of all workers' minibatches, each in `accumulate` microbatches.

    gpipe             Huang et al., NeurIPS 2019
    1f1b              PipeDream-Flush, Narayanan et al., ICML 2021
    interleaved_1f1b  several stages for each rank (Narayanan et al., SC 2021)

    Updates are those of `gpipe` and `one_f_one_b_flush`, up to the order of summation. Phase "communicate" is torch's
    time outside of passes, including waits; overlapped time is 0. Bytes follow from the shapes between stages.
    """

    name = "torch_pipelining"
    requires = frozenset({"torch.distributed"})
    Options = Options
    identical_replicas = False  # ranks hold different stages

    @classmethod
    def check(cls, options: Any, run: RunFacts) -> None:
        if options.schedule == INTERLEAVED and run.workers == 1:
            raise InputError(f"strategy.schedule={INTERLEAVED}: needs 2 workers or more")

    @classmethod
    def files(cls, options: Any) -> list[Path]:
        return [] if options.profile is None else [profile_path(options.profile)]

    @classmethod
    def twin(cls, options: Any) -> tuple[str, dict[str, Any]] | None:
        """Our pipeline with the same schedule; none for the interleaved one."""
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
                f"strategy {self.name}: torch's stages send from device memory, and gloo sends from host memory alone; "
                "use device=cpu, or NCCL with a GPU for each rank"
            )
        self.fabric, self.iteration = worker.fabric, 0
        self.first, self.last = worker.rank == 0, worker.rank == worker.workers - 1
        stages = worker.workers * self.options.stages_of_rank
        sample, _ = worker.batches[0]
        microbatch = sample.chunk(worker.accumulate)[0]
        shapes = output_shapes(worker.model_shard.blocks, microbatch)
        self.configuration = configure_stages(replace(worker, workers=stages), self.options.of_pipeline(stages), sample)
        layout = self.configuration.layout.stages
        local_stages = range(worker.rank, stages, worker.workers)
        self._check_training(layout[0].last)
        worker.keep([block for stage in local_stages for block in range(layout[stage].first, layout[stage].last + 1)])
        self.microbatches = worker.workers * worker.accumulate
        self.flush_bytes, at, modules = 0, 0, []
        for stage in local_stages:
            length = 1 + layout[stage].last - layout[stage].first
            inputs, output = torch.empty_like(microbatch, device="meta"), shapes[layout[stage].last]
            if stage > 0:
                before = shapes[layout[stage].first - 1]
                inputs = _like(before)
                self.flush_bytes += self.microbatches * before.nbytes  # gradients to the stage before
            if stage < stages - 1:
                self.flush_bytes += self.microbatches * output.nbytes
            # without the shapes torch would find them by a pass, which changes running statistics
            module = Stage(
                self, Blocks(worker, range(at, at + length)), stage, stages, worker.model_shard.device,
                input_args=inputs, output_args=_like(output), group=self.fabric.process_group(MAIN),
            )  # fmt: skip
            modules.append(module)
            at += length
        self.flush = make_flush(self.options.schedule, modules, self.microbatches, worker.loss_function)

    def _check_training(self, last: int) -> None:
        """InputError if the first stage, up to block `last`, trains nothing: torch has no backward pass then."""
        blocks = self.worker.model_shard.blocks[: last + 1]
        if self.worker.workers > 1 and not any(p.requires_grad for block in blocks for p in block.parameters()):
            raise InputError(f"strategy {self.name}: nothing trains in the first stage, blocks 0 to {last}; set cuts")

    def set_seeds(self, microbatch: int) -> None:
        """Set the microbatch whose random seeds the following passes use."""
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
        """As for our pipelines; stage s is on rank s, or s modulo the ranks."""
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
            raise InputError(f"the checkpoint has cuts {state['cuts']}, and the run has {cuts}")
        self.iteration = state["iteration"]


def _like(shape: Shape) -> torch.Tensor:
    return torch.empty(shape.size, dtype=shape.dtype, device="meta", requires_grad=True)
