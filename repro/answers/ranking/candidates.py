"""The ranked strategies with their options: `candidates.yaml`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from repro.answers.ranking.form_errors import FormError, committed_errors
from repro.answers.ranking.written import read_written
from repro.core import user_files
from repro.core.fields import Count, Model, Text, Whole, check_fields
from repro.core.not_none import not_none
from repro.core.registry import PLUGINS

if TYPE_CHECKING:
    from repro.algorithms.timing.setting import Place, Setting
    from repro.strategies.base import Strategy

FILE = Path(__file__).with_name("candidates.yaml")
USUAL, PAYS = "ddp", 0.05  # the usual choice; a strategy pays if it is faster by this share
BETTER = 0.01  # a strategy that is faster by this share or less ties, and the simpler or present one is named
OFTEN = 0.75  # a strategy replaces a simpler one if it pays in this share of the draws
LIGHT = 0.2  # communication, hidden or not, is little below this share of the computation
# A family is proven by so many published rows of so many sources. Fixed before an answer was computed by this rule: of
# fewer than ten rows none is expected outside a 90 % interval that holds, and each source is predicted from another.
# Since 2026-11-30 rows with little communication do not count, which say little of a strategy's communication, nor
# those of servers that are elsewhere: an expert had doubted answers that named servers, so the rule was made knowing
# them.
ROWS, SOURCES = 10, 2
KINDS = SYNCHRONOUS, ANY = "synchronous", "any"  # the two comparisons: see `Candidate.counts`
APART = ("larger", "local")  # updates of strategies that are in no comparison


class Candidate(Model):
    """A strategy with options; candidates.yaml explains the entries."""

    part = "candidate"

    name: Text
    label: Text
    strategy: Text
    options: dict[str, Any] = Field(default_factory=dict)
    servers: Literal["machines", "separate"] = "machines"
    family: Literal[
        "allreduces",
        "hierarchical allreduces",
        "servers",
        "compression",
        "delayed gradients",
        "pipelines",
        "local training",
    ]
    keeps: Literal["synchronous", "larger", "compressed", "stale", "local"]
    link: Literal["ring", "two_levels", "all", "machine"]
    vectors: Whole
    accumulate: Count = 1
    modelled: bool = True
    note: Text | None = None

    @property
    def form_error(self) -> FormError | None:
        """How far its form is from its simulation; None: not checked."""
        return committed_errors().get(self.name)

    @property
    def ranked(self) -> bool:
        """Whether its form is good enough to rank by."""
        return self.form_error is not None and self.form_error.good

    @property
    def proven(self) -> bool:
        """Whether published measurements of its family, with much communication and servers in such a place, were
        compared with their intervals (ROWS, SOURCES)."""
        sources = judged_sources().get((self.family, self.servers), [])
        return len(sources) >= ROWS and len(set(sources)) >= SOURCES

    def counts(self, kind: str) -> bool:
        """Whether a comparison includes it. SYNCHRONOUS: proven strategies that keep synchronous SGD's updates, of
        which one is named as the one to use; ANY: all that communicate for every minibatch. One with a form that is not
        good enough is in none."""
        if kind == ANY:
            return self.ranked and self.keeps not in APART
        return self.ranked and self.proven and self.keeps == SYNCHRONOUS

    def in_virtual_time(self) -> tuple[type[Strategy], Any]:
        """(strategy, its options) with the closed form: the twin, or without a simulation the strategy itself."""
        return _in_virtual_time(self.strategy, json.dumps(self.options), self.modelled)

    def place(self, setting: Setting) -> Place:
        """Its ranks and their link."""
        return setting.place(self.link, self.servers == "separate")


@cache
def _in_virtual_time(name: str, values: str, twin: bool) -> tuple[type[Strategy], Any]:
    """values: options as JSON. Cached, as loading a strategy takes ten times as long as a closed form."""
    kind = PLUGINS["strategy"].load(name)
    options = kind.parse(json.loads(values))
    if twin:
        name, of_twin = not_none(kind.twin(options))
        kind = PLUGINS["strategy"].load(name)
        options = kind.parse(of_twin)
    return kind, options


@cache
def read_candidates() -> dict[str, Candidate]:
    """The candidates whose strategy is registered, by name, in the file's order: the simplest to use first."""
    known = PLUGINS["strategy"].names()
    return {
        name: check_fields(Candidate, entries | {"name": name}, f"{FILE.name}: {name}")
        for name, entries in user_files.read_yaml(FILE).items()
        if entries["strategy"] in known
    }


@dataclass(frozen=True)
class Judged:
    """A row of `published.csv`: a measurement whose interval was judged."""

    candidate: str
    source: str
    load: float
    servers: str


@cache
def judged_sources() -> Mapping[tuple[str, str], list[str]]:
    """(family, place of servers) -> the source of each published measurement of it with much communication."""
    sources: dict[tuple[str, str], list[str]] = {}
    for row in read_written(Judged, "published"):
        if row.load >= LIGHT:
            sources.setdefault((read_candidates()[row.candidate].family, row.servers), []).append(row.source)
    return sources


def tied_names(times: Mapping[str, float], lead: float = 1 + BETTER) -> list[str]:
    """The names within the lead of the fastest, in their order: that of the file, the simplest first."""
    return [name for name, seconds in times.items() if seconds <= lead * min(times.values())]
