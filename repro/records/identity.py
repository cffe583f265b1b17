"""The identity of a run: every configured value by its path (`strategy.K`, `optimizer.lr`, `epochs`).

Runs belong to one variant if they differ only in the seed; only such runs may be averaged. The run's key covers in
addition data, hardware and code. `repro.records.variants` says which runs are alike, and labels them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from repro.core import safe_files
from repro.core.registry import TRAIN
from repro.records import kinds
from repro.records.units import METADATA, check_units

Values = dict[str, Any]  # path -> value: a number, a text, true, false, or a list
# Bounds of the entries of a record, which may be somebody else's.
MOST = 2**53  # whole numbers up to it are exact in JSON
MOST_PARTS = 10**6  # ranks, threads or cores
Number = int | Annotated[float, Field(allow_inf_nan=False)]
Amount = Annotated[Number, Field(ge=0, le=MOST)]
Whole = Annotated[int, Field(ge=0, le=MOST)]
Count = Annotated[int, Field(ge=1, le=MOST)]
Parts = Annotated[int, Field(ge=1, le=MOST_PARTS)]

# the parts of a configuration that can affect a result; the others are names of the run and paths of its data
PARTS = (
    *("program", "probe", "strategy", "model", "dataset", "testbed", "imbalance", "workers", "batch", "epochs"),
    *("accumulate", "optimizer", "numerics", "min_compute_s", "metric", "targets", "eval_every", "eval_train"),
    *("checkpoint_every", "breakdown", "breakdown_steps", "trace_steps", "device"),
)
DESCRIPTION = "testbed.network"  # text for display
OF_SIMULATION = ("testbed.fair", "testbed.share_spread")  # unused by emulated testbeds, which inherit them
DEEPEST = 20  # levels of nested mappings


def _plain_name(name: str) -> str:
    if not safe_files.is_plain(name):
        raise ValueError("must be a plain name")
    return name


Folder = Annotated[str, AfterValidator(_plain_name)]


class Part(BaseModel):
    """A part of a record: frozen, with strict types."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", populate_by_name=True)


class NamedPart(Part):
    """A plugin's name with its options: strategy, model, data set, testbed, imbalance."""

    model_config = ConfigDict(extra="allow")

    name: str

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})

    @model_validator(mode="after")
    def _numbers(self) -> NamedPart:
        check_units(self.options)
        return self


class RecordedTestbed(NamedPart):
    """The testbed of a run; of a modelled one every parameter."""

    kind: kinds.OfTestbed
    launcher: str
    threads_per_rank: Parts = 1


class Identity(Part):
    """Every configured value. Runs whose identities differ only in the seed belong to one variant."""

    paper: Folder
    experiment: Folder
    variant: str  # its label in the experiment
    factors: dict[str, str | bool | Number] = {}
    program: str = TRAIN
    probe: Any = None  # the options of a program that is a probe
    strategy: NamedPart
    model: NamedPart | None = None
    dataset: NamedPart | None = None
    testbed: RecordedTestbed
    imbalance: NamedPart = Field(default_factory=lambda: NamedPart(name="none"))
    workers: Parts
    batch: Count
    epochs: Amount | None = None
    accumulate: Count = 1
    optimizer: dict[str, Any] = {}
    numerics: dict[str, Any] = {}
    min_compute_s: Amount | None = None
    metric: str = "top1"
    targets: list[Number] = []
    eval_every: Amount | None = None
    eval_train: Whole = 0
    checkpoint_every: Amount | None = None
    breakdown: bool = False
    breakdown_steps: Whole | None = 300
    trace_steps: Whole = 0
    device: str = "auto"
    scale: str = "custom"
    seed: Whole
    changed: list[str] = []  # paths at which the user's overrides differ from the experiment's own values

    @cached_property
    def values(self) -> Values:
        """Every configured value by its path."""
        return values_of(self.plain())

    @property
    def trains(self) -> bool:
        return self.program == TRAIN

    def plain(self) -> dict[str, Any]:
        """As plain data, as in a file."""
        return {**self.model_dump(mode="json"), "testbed": self.testbed.model_dump(mode="json", exclude_unset=True)}


def values_of(config: Mapping[str, Any]) -> Values:
    """The values of an identity, or of a resolved configuration, by their paths."""
    values: Values = {}
    for name in PARTS:
        values.update(_flat(name, config.get(name)))
    ignored = (DESCRIPTION, *(OF_SIMULATION if values.get("testbed.kind") == kinds.EMULATED else ()))
    values = {path: value for path, value in values.items() if path not in ignored}
    if isinstance(targets := values.get("targets"), list):
        values["targets"] = sorted(targets, key=str)
    return values


def _flat(path: str, value: Any, deep: int = 0) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and deep < DEEPEST:
        for name, entry in value.items():
            if name not in METADATA:
                yield from _flat(f"{path}.{name}", entry, deep + 1)
    elif value is not None:
        yield path, value


def plain_value(value: Any) -> Any:
    """A value for comparisons, with whole numbers converted to float."""
    if isinstance(value, list | tuple):
        return [plain_value(each) for each in value]
    if isinstance(value, dict):
        return {str(name): plain_value(each) for name, each in sorted(value.items(), key=str)}
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value) if abs(value) < 2**53 else str(value)
    return value if isinstance(value, bool | float | str) or value is None else str(value)
