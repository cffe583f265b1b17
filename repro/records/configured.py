"""The entries of a run's configuration: each is declared here once, with its neutral value and its role.

`repro.experiment.schema.RunConfig` (a run as configured) and `repro.records.identity.Identity` (as recorded) extend it;
they declare again only what has another form or a narrower range there. An entry's default is its neutral value, as
which it counts in a record from before it was introduced. A plugin declares the role of an option beside it
(`K: Annotated[int, Role(minor=True)] = 2`); the option's default is its neutral value.

Each record stores which of its paths were minor when it was made (`minor`), so that a changed role changes no label.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from repro.core import fields, safe_files
from repro.core.choices import Device
from repro.core.registry import TRAIN

# Bounds of the entries of a record, which may be somebody else's.
MOST = 2**53  # whole numbers up to it are exact in JSON
MOST_PARTS = 10**6  # ranks, threads or cores
Number = int | Annotated[float, Field(allow_inf_nan=False)]
Amount = Annotated[Number, Field(ge=0, le=MOST)]
Whole = Annotated[int, Field(ge=0, le=MOST)]
Count = Annotated[int, Field(ge=1, le=MOST)]
Parts = Annotated[int, Field(ge=1, le=MOST_PARTS)]


def _plain_name(name: str) -> str:
    if not safe_files.is_plain(name):
        raise ValueError("must be a plain name")
    return name


def _short_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
        raise ValueError("must be a plain name: letters, digits, . _ and -, 1 to 100 of them")
    return name


Folder = Annotated[str, AfterValidator(_plain_name)]
Name = Annotated[str, AfterValidator(_short_name)]  # of a paper or an experiment, a folder too


@dataclass(frozen=True)
class Role:
    """What an entry counts for.

    keyed     in a run's key: always; unless neutral, so that a new entry changes no key; or never
    compared  runs that differ in it are not alike; options always are
    minor     in a label only if runs differ in it: it affects what is recorded, or is shown elsewhere
    """

    keyed: Literal["always", "unless neutral", "never"] = "unless neutral"
    compared: bool = True
    minor: bool = False


FIRST = Role("always")  # the entries of the first keys, and so of every key
FIRST_MINOR = Role("always", minor=True)
PLACE = Role("always", compared=False)
NO_RESULT = Role("never", compared=False)  # no result depends on it
# the minor paths of records of before 2026-11-28, which do not store theirs
MINOR_BEFORE = (
    *("targets", "eval_every", "checkpoint_every", "breakdown_steps", "trace_steps", "device"),
    "dataset.standin",
)


class Configured(BaseModel):
    """Every configured value of a run. An entry without a role has `Role()`."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", populate_by_name=True)

    paper: Annotated[Name, PLACE]
    experiment: Annotated[Name, PLACE]
    variant: Annotated[str, NO_RESULT] = ""  # its name in the experiment
    factors: Annotated[dict[str, str | bool | Number], NO_RESULT] = Field(default_factory=dict)
    program: Annotated[fields.Text, FIRST] = TRAIN
    probe: Annotated[Any, FIRST] = None  # the options of a program that is a probe
    strategy: Any
    model: Any
    dataset: Any
    testbed: Any
    imbalance: Any
    workers: Annotated[Parts, FIRST]
    batch: Annotated[Count, FIRST]
    epochs: Annotated[Amount | None, FIRST] = None
    accumulate: Annotated[Count, FIRST] = 1
    optimizer: Any
    numerics: Any
    min_compute_s: Annotated[float, Field(ge=0, le=MOST, allow_inf_nan=False)] | None = None
    metric: Annotated[fields.Text, FIRST] = "top1"
    targets: Annotated[list[fields.Number | int], FIRST_MINOR] = Field(default_factory=list)
    eval_every: Annotated[Amount | None, FIRST_MINOR] = None
    eval_train: Whole = 0
    checkpoint_every: Annotated[Amount | None, FIRST_MINOR] = None
    breakdown: Annotated[bool, FIRST] = False
    breakdown_steps: Annotated[Whole | None, Role(minor=True)] = 300
    trace_steps: Annotated[Whole, FIRST_MINOR] = 0
    device: Annotated[Device, FIRST_MINOR] = "auto"
    scale: Annotated[fields.Text, NO_RESULT] = "custom"
    seed: Annotated[Whole, NO_RESULT]  # a key holds it beside the configuration
    changed: Annotated[list[str], NO_RESULT] = Field(default_factory=list)  # paths that the user's overrides changed
    minor: Annotated[list[str] | None, NO_RESULT] = None  # paths that were minor; None: MINOR_BEFORE


ABOUT_ENTRIES = ("changed", "minor")  # say something of the other entries, and configure nothing


@cache
def roles_of(kind: type[Configured]) -> dict[str, Role]:
    """The role of each entry; one that a subclass declares again keeps its role."""
    roles: dict[str, Role] = {}
    for each in reversed(kind.__mro__):
        if issubclass(each, Configured):
            for name, field in each.model_fields.items():
                declared = (part for part in field.metadata if isinstance(part, Role))
                roles[name] = next(declared, roles.get(name, Role()))
    return roles


def declared_role(annotation: Any) -> Role:
    """The role in an annotation of an option; `Role()` without one."""
    return next((part for part in getattr(annotation, "__metadata__", ()) if isinstance(part, Role)), Role())


def minor_paths(options: Mapping[str, Mapping[str, Role]]) -> Iterator[str]:
    """The paths of all minor entries and options. options: group -> option of the run's plugin -> role."""
    yield from (name for name, role in roles_of(Configured).items() if role.minor)
    for group, roles in options.items():
        yield from (f"{group}.{option}" for option, role in roles.items() if role.minor)
