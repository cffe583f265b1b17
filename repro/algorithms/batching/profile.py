"""The inputs of iBatch's decision (section "Problem Formulation"): T_s, T_t and C in seconds.

A profile's file is a mapping in JSON or YAML. Three entries are required; the others describe the measurement:

    startup_s: 0.001
    transfer_s: [0.002, 0.004]
    forward_s: [0.01, 0.005]
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import yaml
from pydantic import ConfigDict

from repro.core import user_files
from repro.core.atomic import write_atomically
from repro.core.errors import InputError
from repro.core.fields import Count, NonNegative, Whole, check_fields
from repro.core.user_files import check_target, read_profile


@dataclass(frozen=True)
class PullProfile:
    """The L layers of a network, first to last; InputError for impossible values.

    startup_s   T_s of each pull, for any size
    transfer_s  T_t of each layer, (L,); 0: a layer without parameters, which is not pulled
    forward_s   C of each layer, (L,)
    layers      the layers' names, (L,); empty: unknown
    parameters  trainable elements of each layer, (L,); empty: unknown
    servers     server ranks besides the workers; 0: each worker is a server too; None: unknown
    batch       samples of a worker's minibatch; None: unknown
    hardware, source  of the measurement, in words
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    startup_s: NonNegative
    transfer_s: tuple[NonNegative, ...]
    forward_s: tuple[NonNegative, ...]
    layers: tuple[str, ...] = ()
    model: str | None = None
    workers: Count | None = None
    servers: Whole | None = None
    parameters: tuple[Whole, ...] = ()
    batch: Count | None = None
    hardware: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        if not self.transfer_s:
            raise InputError("transfer_s: has no layers; must have at least one")
        for name in ("forward_s", "layers", "parameters"):
            entries = len(getattr(self, name))
            if entries != len(self.transfer_s) and (entries or name == "forward_s"):
                raise InputError(f"{name}: must have an entry for each of {len(self.transfer_s)} layers, has {entries}")
        if not self.startup_s * len(self.transfer_s) + sum(self.transfer_s) + sum(self.forward_s) < math.inf:
            raise InputError("times: must together be a finite number of seconds")

    @property
    def names(self) -> tuple[str, ...]:
        """The layers' names; without names their numbers, from 1."""
        return self.layers or tuple(str(layer) for layer in range(1, len(self.transfer_s) + 1))

    @classmethod
    def parse(cls, decoded: Any, where: str) -> PullProfile:
        """The profile in a decoded mapping; InputError that starts with `where` for anything else."""
        if not isinstance(decoded, Mapping):
            raise InputError(f"{where}: not a profile: must be a mapping with startup_s, transfer_s, forward_s")
        try:
            return check_fields(cls, decoded)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None

    def as_dict(self) -> dict[str, Any]:
        """All fields for JSON; `parse` is the inverse."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def layer_groups(profile: PullProfile) -> list[tuple[int, int]]:
    """(first, last) layer from 1 of each group: a layer with parameters, and the layers without that follow it.

    The paper's Figure 3 counts pooling layers this way. Layers without parameters at the front are one group, which is
    not pulled.
    """
    with_parameters = [layer for layer, seconds in enumerate(profile.transfer_s, 1) if seconds > 0]
    firsts = sorted({1, *with_parameters})
    return list(zip(firsts, [*(first - 1 for first in firsts[1:]), len(profile.transfer_s)]))


def read_pulls(path: Path | str) -> PullProfile:
    """The profile in a JSON or YAML file, or in the summary of a run that measured one; InputError otherwise."""
    path = Path(path)
    decoded = _decoded(read_profile(path, "must be a JSON or YAML file"), path)
    if isinstance(decoded, Mapping) and isinstance(result := decoded.get("result"), Mapping):
        pipeline = result.get("pipeline")
        decoded = pipeline.get("profile") if isinstance(pipeline, Mapping) else None
        if decoded is None:
            raise InputError(f"{path}: a summary of a run that measured no profile of its pulls")
    return PullProfile.parse(decoded, str(path))


def write_pulls(path: Path | str, profile: PullProfile) -> None:
    """Write a profile as JSON, atomically; InputError if no file can be created there."""
    path = Path(path)
    check_target(path)
    write_atomically(path, json.dumps(profile.as_dict(), indent=1, allow_nan=False) + "\n")


def _decoded(text: str, path: Path) -> Any:
    """The value of a JSON or YAML text; InputError if it is neither."""
    with contextlib.suppress(ValueError):
        return user_files.parse_json(text)
    try:
        return user_files.parse_plain(text.encode())
    except (yaml.YAMLError, ValueError) as error:  # ValueError for impossible dates
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: not a profile: neither JSON nor YAML ({reason})") from None
