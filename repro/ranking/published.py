"""The tool held against throughputs that others measured: `published.yaml`, which also says how that is judged."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from repro.core import yaml_files
from repro.core.fields import Count, Model, Positive, Text, checked
from repro.experiment.testbeds import testbed_of
from repro.ranking import answer, workload
from repro.ranking.against import Compared
from repro.ranking.candidates import Candidate, every
from repro.ranking.setting import Setting, cluster
from repro.ranking.workload import Workload

FILE = Path(__file__).with_name("published.yaml")
HEADERS = 0.95  # of a line rate that TCP over Ethernet leaves
GIVEN = ("computation", "local beta")


class Measured(Model):
    """A system's throughput, samples/s of all workers; strategy: the candidate that stands for it."""

    part = "results"

    system: Text
    strategy: Literal["allreduce", "ddp", "ps", "ps_after", "gpipe", "topk"]
    per_s: Positive
    microbatches: Count | None = None


class Published(Model):
    """A setting: the entries are explained in the file."""

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
        return 1e9 * (self.goodput_gbit or HEADERS * self.line_gbit)


def settings() -> list[Published]:
    return [checked(Published, one, f"{FILE.name}: {one.get('id')}") for one in yaml_files.read(FILE)["settings"]]


@cache
def load(model: str, batch: int) -> Workload:
    """The model's sizes, on the meta device."""
    return workload.of(model, batch)


def candidate(one: Published, measured: Measured) -> Candidate:
    """What stands for a system, as the file says."""
    found = every()[measured.strategy]
    if measured.strategy.startswith("ps"):
        return found.model_copy(update={"servers": one.servers, "link": "machine" if one.local_sum else "all"})
    if measured.microbatches:
        return found.model_copy(update={"options": found.options | {"flush": measured.microbatches}})
    return found


def compare(one: Published) -> list[Compared]:
    return [_compared(one, measured) for measured in one.results]


def _compared(one: Published, measured: Measured) -> Compared:
    samples = one.batch * one.workers
    batch = samples // measured.microbatches if measured.microbatches else one.batch
    own = load(one.model, batch).taking(batch / one.single_per_s, one.source)
    if measured.microbatches:  # torchgpipe computes activations again in the backward pass
        layers = [replace(layer, backward_s=layer.backward_s + layer.forward_s) for layer in own.profile.layers]
        own = replace(own, profile=replace(own.profile, layers=tuple(layers)))
    bed: Any = testbed_of(cluster())
    entries = {"beta_s_per_byte": 8 / one.bits}
    if one.latency_us:
        entries["alpha_s"] = one.latency_us * 1e-6
    inside = one.gpus_per_node >= one.workers  # the link that is named is the machine's own
    setting = Setting(own.profile, one.workers, bed, 1 if inside else one.gpus_per_node).with_entries(**entries)
    given = [*GIVEN[: 2 if one.gpus_per_node == 1 or inside else 1], *(["alpha"] if one.latency_us else [])]
    chosen = candidate(one, measured)
    (row,) = answer.ranked(setting, own, given, chosen={chosen.name: chosen}, simulating=False).rows
    place = one.id, one.source, one.model, one.workers, one.goodput_gbit or one.line_gbit
    what = measured.system, measured.strategy, measured.per_s
    return Compared(*place, *what, samples / row.seconds, samples / row.high_s, samples / row.low_s)
