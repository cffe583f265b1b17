"""Predictions for throughputs that others measured: `published.yaml`, which also fixes how they are judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from pydantic import Field

from repro.algorithms.timing.setting import Setting
from repro.answers.ranking import answer, question
from repro.answers.ranking.against import PUBLISHED, Compared
from repro.answers.ranking.answer import Row
from repro.answers.ranking.arguments import Question
from repro.answers.ranking.calibration import Calibration, fit_calibration
from repro.answers.ranking.candidates import Candidate, read_candidates
from repro.answers.ranking.cluster import cluster_entries
from repro.answers.ranking.links import Link, Transport
from repro.answers.ranking.own_runs import Run
from repro.answers.ranking.stored_workloads import find_workload
from repro.answers.ranking.workload import Workload
from repro.core import user_files
from repro.core.fields import Count, Model, Positive, Text, check_fields
from repro.core.not_none import not_none
from repro.experiment.testbeds import testbed_of

load = cache(find_workload)


class Measured(Model):
    """A system's throughput, samples/s of all workers; strategy: the candidate that represents it."""

    part = "results"

    system: Text
    strategy: Literal["allreduce", "ddp", "horovod", "ps", "ps_after", "gpipe", "topk"]
    per_s: Positive
    microbatches: Count | None = None


class Published(Model):
    """A setting; published.yaml explains the entries."""

    part = "settings"

    id: Text
    source: Text
    place: Text
    model: Text
    batch: Count
    workers: Count
    gpus_per_node: Count
    single_per_s: Positive
    line_gbit: Positive | None = None
    goodput_gbit: Positive | None = None
    transport: Transport = "tcp"
    intra: Link | None = None
    latency_us: Positive | None = None
    assumed: str = ""
    servers: Literal["machines", "separate"] = "machines"
    local_sum: bool = True
    results: list[Measured] = Field(min_length=1)

    @property
    def samples(self) -> int:
        """Of an iteration."""
        return self.batch * self.workers

    @property
    def like(self) -> tuple[Any, ...]:
        """What rows share of which one may be the user's own run."""
        line = self.line_gbit and (self.line_gbit, self.transport)
        return self.source, self.model, self.batch, self.single_per_s, line

    @property
    def asked(self) -> Question:
        """The question that the tool is asked; it gets the computation apart."""
        line, goodput, latency = self.line_gbit, self.goodput_gbit, self.latency_us
        return Question(
            self.model, None if goodput or not line else 1e9 * line, self.workers, goodput and 1e9 * goodput,
            self.transport, latency and latency * 1e-6, self.gpus_per_node, self.intra, batch=self.batch,
        )  # fmt: skip


def published_settings() -> list[Published]:
    return [
        check_fields(Published, each, f"{PUBLISHED.name}: {each.get('id')}")
        for each in user_files.read_yaml(PUBLISHED)["settings"]
    ]


def system_candidate(published: Published, measured: Measured) -> Candidate:
    """The candidate that represents a system, with the setting's servers or microbatches."""
    candidate = read_candidates()[measured.strategy]
    if measured.strategy.startswith("ps"):
        return candidate.model_copy(
            update={"servers": published.servers, "link": "machine" if published.local_sum else "all"}
        )
    if measured.microbatches:
        return candidate.model_copy(update={"options": candidate.options | {"flush": measured.microbatches}})
    return candidate


@dataclass(frozen=True)
class Compares:
    """A row that is being compared: its setting, and the candidate that stands for the system."""

    published: Published
    measured: Measured
    candidate: Candidate
    work: Workload
    setting: Setting
    known: tuple[str, ...]

    @classmethod
    def of(cls, published: Published, measured: Measured) -> Compares:
        batch = published.samples // measured.microbatches if measured.microbatches else published.batch
        work = load(published.model, batch).with_seconds(batch / published.single_per_s, published.source)
        if measured.microbatches:  # torchgpipe computes activations again in the backward pass
            layers = [replace(layer, backward_s=layer.backward_s + layer.forward_s) for layer in work.profile.layers]
            work = replace(work, profile=replace(work.profile, layers=tuple(layers)))
        asked = published.asked
        asked.check()
        bed: Any = testbed_of(cluster_entries())
        links = question.links_of(asked)
        setting = Setting(work.profile, published.workers, bed, published.gpus_per_node, links=links)
        known = ["computation", *(["alpha"] if published.latency_us or asked.in_one_machine else [])]
        entries = question.link_entries(asked, links)
        return cls(published, measured, system_candidate(published, measured), work, setting.with_entries(**entries),
                   tuple(known))  # fmt: skip

    @property
    def samples(self) -> int:
        """Of an iteration: a minibatch, of a pipeline a microbatch, for each worker."""
        return not_none(self.work.profile.batch) * self.published.workers

    @property
    def run(self) -> Run:
        """The row as a user's own run."""
        seconds = self.samples / self.measured.per_s
        return Run(seconds, self.candidate, self.published.workers, self.published.gpus_per_node)

    @property
    def formula_s(self) -> float:
        """By hand: the computation, then the gradient over the line."""
        p, line = self.published.workers, self.published.goodput_gbit or self.published.line_gbit
        wire = 2 * (p - 1) / p * self.setting.nbytes * 8e-9 / line if line and self.setting.uses_network else 0.0
        return self.setting.computation_s + wire

    def row(self, calibration: Calibration | None, runs: Sequence[Run] = ()) -> Row:
        among = {self.candidate.name: self.candidate}
        (row,) = answer.rank_strategies(
            self.setting, self.work, self.known, chosen=among, calibration=calibration, runs=runs
        ).rows
        return row


def compare_published() -> list[Compared]:
    """Every published throughput beside its predictions."""
    every = [Compares.of(setting, measured) for setting in published_settings() for measured in setting.results]
    forms = [_form(each) for each in every]
    return [_compared(each, row, every, forms) for each, row in zip(every, forms)]


def _form(each: Compares) -> Compared:
    published, samples = each.published, each.samples
    step = each.row(None).step
    rate = samples / step.seconds
    gbit = published.goodput_gbit or published.line_gbit or 0.0
    return Compared(
        published.id,
        published.source,
        published.model,
        published.workers,
        gbit,
        each.measured.system,
        each.measured.strategy,
        each.measured.per_s,
        step.load,
        rate,
        samples / each.formula_s,
        rate,
        rate,
        rate,
        servers=each.candidate.servers,
    )


def _compared(each: Compares, form: Compared, every: Sequence[Compares], forms: Sequence[Compared]) -> Compared:
    samples, calibration = each.samples, fit_calibration(forms, without=each.published.source)
    row = each.row(calibration)
    compared = replace(form, predicted=samples / row.seconds, low=samples / row.high_s, high=samples / row.low_s)
    given = own_run([other for other in every if other.published.like == each.published.like])
    if given is each:
        return compared
    own = each.row(calibration, [given.run])
    return replace(compared, own_run=samples / own.seconds, own_low=samples / own.high_s, own_high=samples / own.low_s)


def own_run(like: Sequence[Compares]) -> Compares:
    """Of rows of one model and network, the one that is given as the user's own run."""
    return min(like, key=lambda each: each.published.workers)
