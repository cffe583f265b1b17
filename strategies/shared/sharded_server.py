"""What strategies with a sharded parameter server share: a step is pull, forward, backward, push (iBatch, Figure 2)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import Field

from repro.algorithms.batching.profile import PullProfile
from repro.algorithms.batching.times import Batches
from repro.algorithms.parameter_server import profiler
from repro.algorithms.parameter_server.client import Client
from repro.algorithms.parameter_server.dropping import Dropping
from repro.algorithms.parameter_server.pulling import Pulling
from repro.algorithms.parameter_server.server import Server
from repro.algorithms.parameter_server.shard import Shard
from repro.algorithms.parameter_server.shards import Shards
from repro.algorithms.parameter_server.wire import Wire
from repro.core.errors import InputError, unknown
from repro.core.fields import Whole
from repro.core.not_none import not_none
from repro.strategies.base import StepReport, Strategy
from repro.strategies.shared.pull_schedule import PullSchedule
from repro.strategies.shared.push_schedule import PUSHES
from repro.training.buckets import block_sizes
from repro.training.worker import Worker


@dataclass
class ServerOptions:
    """Options of all strategies with a sharded parameter server."""

    push: str = "after"  # which of `repro.strategies.shared.push_schedule`
    sync: Literal["bsp", "ssp", "asp"] = "bsp"
    bound: Whole = 3  # of ssp: iterations that a worker may be ahead of the slowest
    servers: Whole = 0  # ranks that serve and do not compute; 0: every worker is a server too, as in BigDL
    placement: Literal["layers", "vector"] = "layers"
    wire: Literal["float32", "truncate16"] = "float32"  # of parameters, and of gradients that are sent whole
    # the fraction of the gradients that is not sent (gradient dropping); 0: all are
    drop: Annotated[float, Field(ge=0, lt=1)] = 0.0
    measure: bool = False  # measure the profile also where no decision needs it

    def __post_init__(self) -> None:
        if self.push not in PUSHES:
            raise unknown("strategy.push", self.push, PUSHES)


class ShardedServer(Strategy):
    """A worker's step is pull, forward, backward, push. Authors say in which batches parameters are pulled: `decide`.

    Every worker pulls an iteration's parameters batch after batch on a task of its own; the forward pass of a layer
    waits for its own batch alone, and one without parameters at the front for none. How they are batched does not
    change what is computed: the servers' weights have the same bits in all modes (in BSP, where they do not depend on
    who is faster).

    At a stop of the run (an evaluation, a checkpoint) all workers have done the same number of iterations. In SSP and
    ASP nobody is further ahead than from one stop to the next, so evaluating more often changes who is first.
    """

    requires = frozenset({"threads", "tags", "any_source"})
    Options = ServerOptions

    @property
    def deterministic(self) -> bool:
        """In BSP alone: in SSP and ASP a server applies each push as it comes in."""
        return self.options.sync == "bsp"

    @abstractmethod
    def decide(self, profile: PullProfile) -> Batches:
        """The batches of the layers of a profile: (first, last) from 1, both included."""

    @property
    def measures(self) -> bool:
        """Whether the decision needs measured times."""
        return self.options.measure

    def profile(self) -> PullProfile | None:
        """A profile from elsewhere, in the place of a measured one."""

    @classmethod
    def ranks(cls, options: ServerOptions, workers: int) -> int:
        return workers + options.servers

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        options, part, fabric = self.options, worker.model_shard, worker.fabric
        servers = list(range(worker.workers, fabric.size)) if options.servers else list(range(fabric.size))
        if part.clip_norm is not None and (len(servers) > 1 or options.push != "after"):
            raise InputError(
                f"strategy {self.name}: optimizer.clip_norm needs the gradient of the whole model, which no server has"
            )
        self.sizes = block_sizes(part.blocks)
        self.shards = Shards.of(self.sizes, len(servers), options.placement)
        wire = Wire(fabric, options.wire)
        self.server: Server | None = None
        if fabric.rank in servers:
            shard = Shard(part.weights, self.shards, servers.index(fabric.rank), *part.configured)
            how = worker.workers, options.sync, options.bound, options.drop, worker.arithmetic, wire
            self.server = Server(fabric, worker.clock, shard, *how)
        self.client: Client | None = None
        if not worker.is_server:
            dropping = None
            if options.drop:
                dropping = Dropping(fabric, worker.clock, self.shards, part.weights, options.drop)
            where = self.shards, servers, part.weights, self.server
            self.client = Client(fabric, worker.clock, *where, dropping, wire)
        self.iteration = 0
        self.schedule(self._profile())

    def _profile(self) -> PullProfile:
        """Given, or measured by all ranks together, or one of sizes alone, whose times mean nothing."""
        worker = self.worker
        if given := self.profile():
            return given
        if self.measures:
            return profiler.measured(worker, self.client, self.sizes, self.options.servers)
        return profiler.of_sizes(worker, self.sizes, self.options.servers)

    def schedule(self, profile: PullProfile) -> None:
        """Decide how to batch, and get ready for it."""
        self.pull_schedule = PullSchedule(profile, self.decide(profile))
        if self.client:
            self.pulls = Pulling(self.client, self.pull_schedule.runs)
            self.pushes = PUSHES[self.options.push](self.worker, self.client, self.pull_schedule.runs)

    # --- the run
    def step(self) -> StepReport:
        report = self.serve() if self.worker.is_server else self.work()
        self.iteration += 1
        return report

    def serve(self) -> StepReport:
        server = not_none(self.server)
        with self.worker.clock.phase("communicate"):
            server.settled(self.iteration + 1).wait()
        return StepReport(None, (), 0, server.take_staleness())

    def work(self) -> StepReport:
        worker, pulls, pushes = self.worker, self.pulls, self.pushes
        minibatch = self.iteration * worker.workers + worker.rank
        pulls.begin(self.iteration)
        loss = worker.gradients(minibatch, pulls.before_block, pushes.gradient_ready, pulls.watched)
        pushes.behind_backward()
        staleness = self.server.take_staleness() if self.server else ()
        return StepReport(loss, (minibatch,), worker.batches.size, staleness)

    def settle(self) -> None:
        with self.worker.clock.phase("communicate"):
            if self.client:
                self.client.sent()
            if self.server:
                self.server.settled(self.iteration).wait()

    def drain(self) -> None:
        self.settle()

    def eval_weights(self) -> dict[str, torch.Tensor]:
        """The servers' weights, which no worker has yet; every rank calls it."""
        values = self.worker.fabric.exchange(self.server.shard.values.cpu() if self.server else None)
        self.shards.assemble([held for held in values if held is not None], self.worker.model_shard.weights)
        return self.worker.model_shard.snapshot()

    def describe(self) -> dict[str, Any]:
        """The profile, the batches decided, and what the paper's equation and the pipeline model say of them."""
        return self.pull_schedule.describe() | {
            "mode": self.mode,
            "push": self.options.push,
            "sync": self.options.sync,
            "servers": self.options.servers,
            "placement": self.options.placement,
            "wire": self.options.wire,
            "drop": self.options.drop,
        }

    @property
    def mode(self) -> str:
        """How the batches are decided."""
        return self.name

    def describe_rank(self) -> dict[str, Any]:
        return {"role": "server"} if self.worker.is_server else {"role": "worker"} | self.pulls.describe()

    def state_dict(self) -> dict:
        return {
            "iteration": self.iteration,
            "server": self.server.state_dict() if self.server else None,
            "residual": self.client.dropping.residual.clone() if self.client and self.client.dropping else None,
        } | self.pull_schedule.state_dict()

    def load_state_dict(self, state: dict) -> None:
        self.iteration = state["iteration"]
        if self.server:
            self.server.load_state_dict(state["server"])
        if self.client and self.client.dropping:
            self.client.dropping.residual.copy_(state["residual"])
        if self.client:
            self.pulls.close()
        self.schedule(PullSchedule.profile_of(state))

    def close(self) -> None:
        if self.client:
            self.pulls.close()
            self.client.leave()
        if self.server:
            self.server.close()
