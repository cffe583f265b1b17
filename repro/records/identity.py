"""What a run is: every value that was configured for it, by its path (`strategy.K`, `optimizer.lr`, `epochs`).

Two runs are of one variant where these are the same but for the seed; nothing else may be averaged. What the values do
not say (the data that were found, the hardware, the code) is in the run's key. What several runs have in common, and
what tells them apart, is in `repro.records.variants`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from repro.core import safe_files
from repro.core.registry import TRAIN
from repro.records import kinds
from repro.records.units import SAID, check_units

Values = dict[str, Any]  # path -> value: a number, a text, true, false, or a list
Number = int | Annotated[float, Field(allow_inf_nan=False)]

# of a configuration, what can change a result; the others name a run, or say where its data lie
PARTS = (
    *("program", "probe", "strategy", "model", "dataset", "testbed", "imbalance", "workers", "batch", "epochs"),
    *("accumulate", "optimizer", "numerics", "min_compute_s", "metric", "targets", "eval_every", "eval_train"),
    *("checkpoint_every", "breakdown", "breakdown_steps", "trace_steps", "device"),
)
DESCRIPTION = "testbed.network"  # words for people
OF_SIMULATION = ("testbed.fair", "testbed.share_spread")  # an emulated testbed has them of its simulated twin, unused
# how a value is shown, in this order; others as `NAME=value`, by the last part of their path where that is one's alone
WORDS = {
    "strategy.name": "{}",
    "workers": "{} workers",
    "batch": "batch {}",
    "epochs": "{} epochs",
    "model.name": "{}",
    "dataset.name": "on {}",
    "imbalance.name": "imbalance {}",
    "testbed.name": "{}",
}
# shown only where runs differ in them: how often is looked, and what is seen elsewhere
MINOR = ("dataset.standin", "eval_every", "checkpoint_every", "trace_steps", "targets", "device", "breakdown_steps")
DEEPEST, LONGEST = 20, 40  # mappings in one another; characters of a value that is shown in full


def _plain_name(name: str) -> str:
    if not safe_files.is_plain(name):
        raise ValueError("must be a plain name")
    return name


Folder = Annotated[str, AfterValidator(_plain_name)]


class Part(BaseModel):
    """A part of a record: unchangeable, each entry of its type."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", populate_by_name=True)


class NamedPart(Part):
    """A part that a name chooses, with its options: strategy, model, data set, testbed, imbalance."""

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
    """Where the ranks ran: of a modelled one every parameter."""

    kind: kinds.OfTestbed
    launcher: str
    threads_per_rank: int = 1


class Identity(Part):
    """Every configured value. Runs whose identities differ in the seed alone are of one variant."""

    paper: Folder
    experiment: Folder
    variant: str  # the label that the experiment gives it
    factors: dict[str, str | bool | Number] = {}
    program: str = TRAIN
    probe: Any = None  # the options of the program, where it is a probe
    strategy: NamedPart
    model: NamedPart | None = None
    dataset: NamedPart | None = None
    testbed: RecordedTestbed
    imbalance: NamedPart = Field(default_factory=lambda: NamedPart(name="none"))
    workers: int
    batch: int
    epochs: Number | None = None
    accumulate: int = 1
    optimizer: dict[str, Any] = {}
    numerics: dict[str, Any] = {}
    min_compute_s: Number | None = None
    metric: str = "top1"
    targets: list[Number] = []
    eval_every: Number | None = None
    eval_train: int = 0
    checkpoint_every: Number | None = None
    breakdown: bool = False
    breakdown_steps: int | None = 300
    trace_steps: int = 0
    device: str = "auto"
    scale: str = "custom"
    seed: int
    changed: list[str] = []  # the paths at which the user's overrides made it another than the experiment's own

    @cached_property
    def values(self) -> Values:
        """Every configured value by its path."""
        return values_of(self.plain())

    @property
    def changes(self) -> list[str]:
        """The paths at which it is not as its experiment has it, if they matter."""
        return [path for path in self.changed if path not in MINOR]

    @property
    def trains(self) -> bool:
        return self.program == TRAIN

    def plain(self) -> dict[str, Any]:
        """As a file has it."""
        return {**self.model_dump(mode="json"), "testbed": self.testbed.model_dump(mode="json", exclude_unset=True)}


def values_of(config: Mapping[str, Any]) -> Values:
    """The values of an identity, or of a resolved configuration, by their paths."""
    found: Values = {}
    for name in PARTS:
        found.update(_flat(name, config.get(name)))
    found.pop(DESCRIPTION, None)
    if found.get("testbed.kind") == kinds.EMULATED:
        for name in OF_SIMULATION:
            found.pop(name, None)
    if isinstance(targets := found.get("targets"), list):
        found["targets"] = sorted(targets, key=str)
    return found


def _flat(path: str, value: Any, deep: int = 0) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and deep < DEEPEST:
        for name, entry in value.items():
            if name not in SAID:
                yield from _flat(f"{path}.{name}", entry, deep + 1)
    elif value is not None:
        yield path, value


def described(values: Values, paths: Sequence[str]) -> str:
    """What an identity has at some paths, in words: `H=40, 9 epochs, tiny_vit on shapes16`."""
    there = [path for path in paths if path in values]
    ordered = [path for path in WORDS if path in there] + [path for path in there if path not in WORDS]
    ordered.sort(key=lambda path: not path.startswith("strategy."))
    last = [path.rpartition(".")[2] for path in ordered]
    words = []
    for path, name in zip(ordered, last, strict=True):
        text = _text(values[path])
        name = name if last.count(name) == 1 and name != "name" else path
        words.append(WORDS[path].format(text) if path in WORDS else f"{name}={text}")
    return ", ".join(words).replace(", on ", " on ") if "model.name" in there else ", ".join(words)


def label(variant: str, values: Values, paths: Sequence[str]) -> str:
    """A variant's name, and what tells this run of it from others."""
    return ", ".join(filter(None, [variant, described(values, paths)]))


def plain_value(value: Any) -> Any:
    """A value for comparison: whole numbers as others."""
    if isinstance(value, list | tuple):
        return [plain_value(each) for each in value]
    if isinstance(value, dict):
        return {str(name): plain_value(each) for name, each in sorted(value.items(), key=str)}
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value) if abs(value) < 2**53 else str(value)
    return value if isinstance(value, bool | float | str) or value is None else str(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.12g}"
    plain = plain_value(value) if isinstance(value, dict) else value
    text = value if isinstance(value, str) else json.dumps(plain, default=str)
    return text if len(text) <= LONGEST else f"#{hashlib.sha256(text.encode()).hexdigest()[:6]}"
