"""The inputs of iBatch's decision (section "Problem Formulation"): T_s, T_t and C in seconds.

A profile's file is a mapping in JSON or YAML. Three entries are required; the others describe the measurement:

    startup_s: 0.001
    transfer_s: [0.002, 0.004]
    forward_s: [0.01, 0.005]
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

from repro.core import strict_json
from repro.core.atomic import write_atomically
from repro.core.errors import InputError, unknown
from repro.core.user_files import check_target, read_profile


@dataclass(frozen=True)
class PullProfile:
    """The L layers of a network, first to last; InputError for impossible values.

    startup_s   T_s of each pull, for any size
    transfer_s  T_t of each layer, (L,); 0: a layer without parameters, which is not pulled
    forward_s   C of each layer, (L,)
    layers      their names, (L,); empty: unknown
    parameters  trainable elements of each layer, (L,); empty: unknown
    workers, servers, batch  of the cluster: servers besides the workers (0: each worker is a server too), and samples
                             of a
                worker's minibatch; None: unknown
    hardware, source  of the measurement, in words
    """

    startup_s: float
    transfer_s: tuple[float, ...]
    forward_s: tuple[float, ...]
    layers: tuple[str, ...] = ()
    model: str | None = None
    workers: int | None = None
    servers: int | None = None
    parameters: tuple[int, ...] = ()
    batch: int | None = None
    hardware: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        _check_time("startup_s", self.startup_s)
        for name in ("transfer_s", "forward_s"):
            for layer, seconds in enumerate(getattr(self, name), 1):
                _check_time(f"{name} of layer {layer}", seconds)
        if not self.transfer_s:
            raise InputError("transfer_s: has no layers; must have at least one")
        for name in ("forward_s", "layers", "parameters"):
            found = len(getattr(self, name))
            if found != len(self.transfer_s) and (found or name == "forward_s"):
                raise InputError(
                    f"{name}: has {_layers(found)}, but transfer_s has {len(self.transfer_s)}; must be as many"
                )
        if not self.startup_s * len(self.transfer_s) + sum(self.transfer_s) + sum(self.forward_s) < math.inf:
            raise InputError("times: must together be a finite number of seconds")
        for layer, count in enumerate(self.parameters, 1):
            _check_whole(f"parameters of layer {layer}", count, 0)
        for name, least in (("workers", 1), ("servers", 0), ("batch", 1)):
            if (value := getattr(self, name)) is not None:
                _check_whole(name, value, least)
        texts = [("model", self.model or ""), ("hardware", self.hardware), ("source", self.source)]
        for name, value in [*texts, *((f"name of layer {layer}", one) for layer, one in enumerate(self.layers, 1))]:
            if not isinstance(value, str):
                raise InputError(f"{name}={value}: must be a text")

    @property
    def names(self) -> tuple[str, ...]:
        """The layers' names; without names their numbers, from 1."""
        return self.layers or tuple(str(layer) for layer in range(1, len(self.transfer_s) + 1))

    @classmethod
    def parse(cls, given: Any, where: str) -> PullProfile:
        """The profile in a decoded mapping; InputError that starts with `where` for anything else."""
        try:
            return cls(**_values(given))
        except InputError as error:
            raise InputError(f"{where}: {error}") from None

    def as_dict(self) -> dict[str, Any]:
        """All fields for JSON; `parse` is the inverse."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def groups(profile: PullProfile) -> list[tuple[int, int]]:
    """The first and last layer, counted from 1, of each group: a layer with parameters and the layers without that
    follow.

    A layer without parameters computes along with the layer before it, as the paper's Figure 3 counts pooling layers.
    Those at the front are a group of their own, of which nothing is pulled.
    """
    with_parameters = [layer for layer, seconds in enumerate(profile.transfer_s, 1) if seconds > 0]
    firsts = sorted({1, *with_parameters})
    return list(zip(firsts, [*(first - 1 for first in firsts[1:]), len(profile.transfer_s)]))


def read(path: Path | str) -> PullProfile:
    """The profile in a JSON or YAML file, or in the summary of a run that measured one; InputError otherwise."""
    path = Path(path)
    text = read_profile(path, "must be a JSON or YAML file")
    found = _decoded(text, path)
    if isinstance(found, Mapping) and isinstance(result := found.get("result"), Mapping):
        pipeline = result.get("pipeline")
        found = pipeline.get("profile") if isinstance(pipeline, Mapping) else None
        if found is None:
            raise InputError(f"{path}: a summary of a run that measured no profile of its pulls")
    return PullProfile.parse(found, str(path))


def write(path: Path | str, profile: PullProfile) -> None:
    """Write a profile as JSON, atomically; InputError if no file can be created there."""
    path = Path(path)
    check_target(path)
    write_atomically(path, json.dumps(profile.as_dict(), indent=1, allow_nan=False) + "\n")


def _decoded(text: str, path: Path) -> Any:
    """The value of a JSON or YAML text; InputError if it is neither."""
    try:
        return strict_json.parse(text)
    except ValueError:
        pass
    import yaml

    try:
        return yaml.load(text, Loader=_loader())
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError for impossible dates
        mark = getattr(error, "problem_mark", None)
        at = "" if mark is None else f" (line {mark.line + 1}: {getattr(error, 'problem', None) or 'cannot be read'})"
        raise InputError(f"{path}: not a profile: neither JSON nor YAML{at}") from None


def _loader() -> type:
    """YAML's safe loader, extended to read 1e-3 as a number, which YAML 1.1 does not."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    number = re.compile(r"^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$")
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", number, list("-+.0123456789"))
    return Loader


def _values(given: Any) -> dict[str, Any]:
    """The entries of a profile; InputError for missing and unknown ones, and for wrong types."""
    names = [field.name for field in fields(PullProfile)]
    needed = [field.name for field in fields(PullProfile) if field.default is MISSING]
    if not isinstance(given, Mapping):
        raise InputError(f"not a profile: must be a mapping with {', '.join(needed)}")
    missing = [name for name in needed if name not in given]
    for name in given:
        if name not in names and missing != needed:  # if all are missing, it is another kind of file
            raise unknown("entry of a profile", str(name), names)
    if missing:
        raise InputError(f"lacks {' and '.join(missing)}")
    found = dict(given)
    for name in ("transfer_s", "forward_s", "layers", "parameters"):
        value = found.get(name, [])
        if not isinstance(value, list | tuple):
            raise InputError(f"{name}={_short(value)}: must be a list with an entry for each layer")
        found[name] = tuple(value)
    _check_time("startup_s", found["startup_s"])
    found["startup_s"] = float(found["startup_s"])
    for name in ("transfer_s", "forward_s"):
        for layer, seconds in enumerate(found[name], 1):
            _check_time(f"{name} of layer {layer}", seconds)
        found[name] = tuple(map(float, found[name]))
    return found


def _check_time(what: str, value: Any) -> None:
    right = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        right = right and 0 <= float(value) < math.inf
    except OverflowError:  # an integer beyond the range of floats
        right = False
    if not right:
        raise InputError(f"{what}={_short(value)}: must be a number of seconds, 0 or more")


def _check_whole(what: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(f"{what}={_short(value)}: must be a whole number, {least} or more")


def _layers(count: int) -> str:
    return "1 layer" if count == 1 else f"{count} layers"


def _short(value: Any) -> str:
    """A value for an error message, on one line."""
    text = repr(value) if isinstance(value, str) else " ".join(str(value).split())
    return text if len(text) <= 60 else text[:57] + "..."
