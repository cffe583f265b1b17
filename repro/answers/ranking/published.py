"""Predictions for throughputs that others measured: `published.yaml`, which also fixes how they are judged."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, Literal

from pydantic import Field

from repro.answers.ranking import answer, workload
from repro.answers.ranking.against import PUBLISHED, Compared
from repro.answers.ranking.candidates import Candidate, read_candidates
from repro.answers.ranking.setting import Setting, cluster_entries
from repro.core import user_files
from repro.core.ethernet import GOODPUT_SHARE
from repro.core.fields import Count, Model, Positive, Text, check_fields
from repro.experiment.testbeds import testbed_of

load = cache(workload.workload_of)


class Measured(Model):
    """A system's throughput, samples/s of all workers; strategy: the candidate that represents it."""

    part = "results"

    system: Text
    strategy: Literal["allreduce", "ddp", "ps", "ps_after", "gpipe", "topk"]
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
    line_gbit: Positive
    goodput_gbit: Positive | None = None
    latency_us: Positive | None = None
    assumed: str = ""
    servers: Literal["machines", "separate"] = "machines"
    local_sum: bool = True
    results: list[Measured] = Field(min_length=1)

    @property
    def bits(self) -> float:
        return 1e9 * (self.goodput_gbit or GOODPUT_SHARE * self.line_gbit)


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


def compare_measured(published: Published) -> list[Compared]:
    return [_compared(published, measured) for measured in published.results]


def _compared(published: Published, measured: Measured) -> Compared:
    samples = published.batch * published.workers
    batch = samples // measured.microbatches if measured.microbatches else published.batch
    work = load(published.model, batch).with_seconds(batch / published.single_per_s, published.source)
    if measured.microbatches:  # torchgpipe computes activations again in the backward pass
        layers = [replace(layer, backward_s=layer.backward_s + layer.forward_s) for layer in work.profile.layers]
        work = replace(work, profile=replace(work.profile, layers=tuple(layers)))
    bed: Any = testbed_of(cluster_entries())
    entries = {"beta_s_per_byte": 8 / published.bits}
    if published.latency_us:
        entries["alpha_s"] = published.latency_us * 1e-6
    gpus_per_node = (
        1 if published.gpus_per_node >= published.workers else published.gpus_per_node
    )  # one machine's own link
    setting = Setting(work.profile, published.workers, bed, gpus_per_node).with_entries(**entries)
    known = [
        "computation",
        *(["local beta"] if gpus_per_node == 1 else []),
        *(["alpha"] if published.latency_us else []),
    ]
    chosen = system_candidate(published, measured)
    (row,) = answer.rank_strategies(setting, work, known, chosen={chosen.name: chosen}, simulating=False).rows
    return Compared(
        published.id,
        published.source,
        published.model,
        published.workers,
        published.goodput_gbit or published.line_gbit,
        measured.system,
        measured.strategy,
        measured.per_s,
        predicted=samples / row.seconds,
        low=samples / row.high_s,
        high=samples / row.low_s,
    )
