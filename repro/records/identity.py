"""The identity of a run: every configured value by its path (`strategy.K`, `optimizer.lr`, `epochs`).

Runs belong to one variant if they differ only in the seed; only such runs may be averaged. The run's key covers in
addition data, hardware and code. `repro.records.variants` says which runs are alike, and labels them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from repro.core.registry import TRAIN
from repro.records import kinds
from repro.records.configured import MINOR_BEFORE, MOST, Configured, Parts, roles_of
from repro.records.units import METADATA, check_units

Values = dict[str, Any]  # path -> value: a number, a text, true, false, or a list
DESCRIPTION = "testbed.network"  # text for display
OF_SIMULATION = ("testbed.fair", "testbed.share_spread")  # unused by emulated testbeds, which inherit them
# entries of an emulated testbed alone, and those that say which it is
OF_EMULATION = ("slow_down", "shrink", "send_buffer", "name", "kind", "launcher", "network")
OF_PAPERS = ("paper", "emulated")  # folders of testbeds that stand for papers' clusters
ASSUMED = ("inputs", "bounds")  # those of METADATA that hold the uncertainty of a testbed's parameters
DEEPEST = 20  # levels of nested mappings


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

    @property
    def parameters(self) -> dict[str, Any]:
        """What a modelled testbed has, without what only describes it; {} of a measured one."""
        entries = {} if self.kind == kinds.MEASURED else self.model_dump(exclude_unset=True)
        return {name: value for name, value in entries.items() if name not in METADATA}

    @property
    def shared_constants(self) -> dict[str, Any]:
        """The parameters that an emulated run shares with its simulation."""
        alone = {path.removeprefix("testbed.") for path in OF_SIMULATION} | {*OF_EMULATION}
        return {name: value for name, value in self.parameters.items() if name not in alone}

    @property
    def of_paper(self) -> bool:
        """Whether it stands for a paper's cluster."""
        return self.folder in OF_PAPERS

    @property
    def folder(self) -> str:
        """The folder of its file, as a testbed is named by its path in the configuration; "" of one in none."""
        return self.name.rpartition("/")[0]

    @property
    def assumed(self) -> bool:
        """Whether some parameters are assumed; old records of a paper's testbed do not say."""
        if self.kind == kinds.MEASURED:
            return False
        old = "inputs" not in self.options and self.of_paper
        return old or any(self.options.get(name) for name in ASSUMED)


class Identity(Configured):
    """A run as recorded. Runs whose identities differ only in the seed belong to one variant."""

    strategy: NamedPart
    model: NamedPart | None = None
    dataset: NamedPart | None = None
    testbed: RecordedTestbed
    imbalance: NamedPart = Field(default_factory=lambda: NamedPart(name="none"))
    optimizer: dict[str, Any] = Field(default_factory=dict)
    numerics: dict[str, Any] = Field(default_factory=dict)

    @cached_property
    def values(self) -> Values:
        """Every configured value by its path."""
        return values_of(self.plain())

    @property
    def minor_paths(self) -> Sequence[str]:
        """The paths that are in the run's label only if it differs in them from other runs."""
        return MINOR_BEFORE if self.minor is None else self.minor

    @property
    def trains(self) -> bool:
        return self.program == TRAIN

    def plain(self) -> dict[str, Any]:
        """As plain data, as in a file."""
        older = {"minor"} if self.minor is None else set()  # as it was written
        plain = self.model_dump(mode="json", exclude=older)
        return {**plain, "testbed": self.testbed.model_dump(mode="json", exclude_unset=True)}


def values_of(config: Mapping[str, Any]) -> Values:
    """The values of an identity, or of a resolved configuration, by their paths."""
    values: Values = {}
    for name, role in roles_of(Configured).items():
        if role.compared:
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
        return float(value) if abs(value) < MOST else str(value)
    return value if isinstance(value, bool | float | str) or value is None else str(value)
