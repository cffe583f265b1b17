"""The base class of strategies with a sharded parameter server (iBatch, Figure 2)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import Field

from repro.algorithms.batching.profile import PullProfile
from repro.algorithms.batching.times import Batches
from repro.algorithms.parameter_server import profiler
from repro.algorithms.parameter_server.client import Client, Pulling
from repro.algorithms.parameter_server.server import Server
from repro.algorithms.parameter_server.shards import Shard, Shards
from repro.algorithms.parameter_server.wire import Dropping, WireFormat
from repro.algorithms.timing.setting import Place, Setting
from repro.core.errors import InputError, unknown_name
from repro.core.fields import Whole
from repro.core.not_none import not_none
from repro.strategies.base import StepReport, Strategy
from repro.strategies.shared.push_schedule import PUSHES
from repro.training.buckets import block_sizes
from repro.training.worker import Worker


@dataclass
class ServerOptions:
    """Options of all strategies with a sharded parameter server."""

    push: str = "after"  # `repro.strategies.shared.push_schedule`
    sync: Literal["bsp", "ssp", "asp"] = "bsp"
    bound: Whole = 3  # of ssp: iterations that a worker may be ahead of the slowest
    servers: Whole = 0  # ranks that serve and do not compute; 0: every worker is a server too, as in BigDL
    placement: Literal["layers", "vector"] = "layers"
    wire: Literal["float32", "truncate16"] = "float32"  # number format of parameters and dense gradients
    drop: Annotated[float, Field(ge=0, lt=1)] = 0.0  # the fraction of gradients that is not sent (gradient dropping)
    requests: Literal["staggered", "in_order"] = "staggered"  # in which order a worker asks the servers (`Client`)
    measure: bool = False  # measure the profile also if no decision needs it

    def __post_init__(self) -> None:
        if self.push not in PUSHES:
            raise unknown_name("strategy.push", self.push, PUSHES)


class ShardedServer(Strategy):
    """A worker's step is pull, forward, backward, push. Subclasses `decide` in which batches workers pull parameters.

    Every worker pulls an iteration's parameters batch after batch on a separate task; a layer's forward pass waits only
    for the layer's batch. In BSP the batches do not change the results: the servers' weights have the same bits.

    At an evaluation or a checkpoint all workers have done the same number of iterations, so in SSP and ASP evaluating
    more often changes the order of pushes.

    pull_profile  the input of the decision
    batches       its result: (first, last) layers from 1, inclusive, in the order of the pulls
    """

    requires = frozenset({"threads", "tags", "any_source"})
    Options = ServerOptions

    @property
    def deterministic(self) -> bool:
        """Only in BSP: in SSP and ASP a server applies each push on arrival."""
        return self.options.sync == "bsp"

    @abstractmethod
    def decide(self, profile: PullProfile) -> Batches:
        """The batches of the layers of a profile."""

    @property
    def measures(self) -> bool:
        """Whether the decision needs measured times."""
        return self.options.measure

    def profile(self) -> PullProfile | None:
        """A profile to use instead of a measured one."""

    @classmethod
    def pull_seconds(cls, setting: Setting, place: Place) -> list[float]:
        """Of each layer on a network card, and of its push; for closed forms. A worker's own shard is not sent."""
        moved = 1.0 if place.servers else (place.workers - 1) / place.workers
        return [moved * layer.parameter_bytes * place.beta for layer in setting.profile.layers]

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
        wire = WireFormat(fabric, options.wire)
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
            in_order = options.requests == "in_order"
            self.client = Client(fabric, worker.clock, *where, dropping, wire, in_order)
        self.iteration = 0
        self.schedule(self.profile() or self._profile())

    def _profile(self) -> PullProfile:
        """Measured by all ranks together; or, for decisions without times, of the layers' sizes."""
        if self.measures:
            return profiler.measure_profile(self.worker, self.client, self.sizes, self.options.servers)
        return profiler.of_sizes(self.worker, self.sizes, self.options.servers)

    def schedule(self, profile: PullProfile) -> None:
        """Decide on batches, and prepare pulls and pushes."""
        self.pull_profile, self.batches = profile, self.decide(profile)
        if self.client:
            runs = [(first - 1, last - 1) for first, last in self.batches]
            self.pulls = Pulling(self.client, runs)
            self.pushes = PUSHES[self.options.push](self.worker, self.client, runs)

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
        pushes.after_backward()
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
        """The servers' latest weights; every rank calls it."""
        values = self.worker.fabric.exchange(self.server.shard.values.cpu() if self.server else None)
        self.shards.assemble([part for part in values if part is not None], self.worker.model_shard.weights)
        return self.worker.model_shard.snapshot()

    def describe(self) -> dict[str, Any]:
        """The profile, the batches, and their times by the paper's equation and the pipeline model."""
        return profiler.describe_decision(self.pull_profile, self.batches) | {
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
        """The name of the decision."""
        return self.name

    def describe_rank(self) -> dict[str, Any]:
        return {"role": "server"} if self.worker.is_server else {"role": "worker"} | self.pulls.describe()

    def state_dict(self) -> dict:
        return {
            "iteration": self.iteration,
            "server": self.server.state_dict() if self.server else None,
            "residual": self.client.dropping.residual.clone() if self.client and self.client.dropping else None,
            "profile": self.pull_profile.as_dict(),
        }

    def load_state_dict(self, state: dict) -> None:
        self.iteration = state["iteration"]
        if self.server:
            self.server.load_state_dict(state["server"])
        if self.client and self.client.dropping:
            self.client.dropping.residual.copy_(state["residual"])
        if self.client:
            self.pulls.close()
        self.schedule(PullProfile.parse(state["profile"], "checkpoint"))  # a profile measured again would differ

    def close(self) -> None:
        if self.client:
            self.pulls.close()
            self.client.leave()
        if self.server:
            self.server.close()
