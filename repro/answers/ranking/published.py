"""Predictions for throughputs that others measured: `published.yaml`, which also fixes how they are judged."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from repro.answers.ranking import answer, workload
from repro.answers.ranking.against import Compared
from repro.answers.ranking.candidates import Candidate, read_candidates
from repro.answers.ranking.setting import Setting, cluster_entries
from repro.core import user_files
from repro.core.fields import Count, Model, Positive, Text, check_fields
from repro.experiment.testbeds import testbed_of

load = cache(workload.workload_of)
FILE = Path(__file__).with_name("published.yaml")
GOODPUT = 0.95  # share of a line rate that TCP over Ethernet achieves


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
        return 1e9 * (self.goodput_gbit or GOODPUT * self.line_gbit)


def published_settings() -> list[Published]:
    return [
        check_fields(Published, one, f"{FILE.name}: {one.get('id')}") for one in user_files.read_yaml(FILE)["settings"]
    ]


def system_candidate(one: Published, measured: Measured) -> Candidate:
    """The candidate that represents a system, with the setting's servers or microbatches."""
    candidate = read_candidates()[measured.strategy]
    if measured.strategy.startswith("ps"):
        return candidate.model_copy(update={"servers": one.servers, "link": "machine" if one.local_sum else "all"})
    if measured.microbatches:
        return candidate.model_copy(update={"options": candidate.options | {"flush": measured.microbatches}})
    return candidate


def compare_measured(one: Published) -> list[Compared]:
    return [_compared(one, measured) for measured in one.results]


def _compared(one: Published, measured: Measured) -> Compared:
    samples = one.batch * one.workers
    batch = samples // measured.microbatches if measured.microbatches else one.batch
    own = load(one.model, batch).with_seconds(batch / one.single_per_s, one.source)
    if measured.microbatches:  # torchgpipe computes activations again in the backward pass
        layers = [replace(layer, backward_s=layer.backward_s + layer.forward_s) for layer in own.profile.layers]
        own = replace(own, profile=replace(own.profile, layers=tuple(layers)))
    bed: Any = testbed_of(cluster_entries())
    entries = {"beta_s_per_byte": 8 / one.bits}
    if one.latency_us:
        entries["alpha_s"] = one.latency_us * 1e-6
    gpus_per_node = 1 if one.gpus_per_node >= one.workers else one.gpus_per_node  # one machine's own link
    setting = Setting(own.profile, one.workers, bed, gpus_per_node).with_entries(**entries)
    known = ["computation", *(["local beta"] if gpus_per_node == 1 else []), *(["alpha"] if one.latency_us else [])]
    chosen = system_candidate(one, measured)
    (row,) = answer.rank_strategies(setting, own, known, chosen={chosen.name: chosen}, simulating=False).rows
    return Compared(
        one.id,
        one.source,
        one.model,
        one.workers,
        one.goodput_gbit or one.line_gbit,
        measured.system,
        measured.strategy,
        measured.per_s,
        predicted=samples / row.seconds,
        low=samples / row.high_s,
        high=samples / row.low_s,
    )
