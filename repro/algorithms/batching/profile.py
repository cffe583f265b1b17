"""What iBatch's decision knows of a network on a cluster (section "Problem Formulation"): T_s, T_t and C in seconds.

On disk a profile is a mapping in JSON or YAML. Three entries are needed, the others describe what was measured:

    startup_s: 0.001
    transfer_s: [0.002, 0.004]
    forward_s: [0.01, 0.005]
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from repro.core import strict_json
from repro.core.atomic import write_atomically
from repro.core.errors import InputError, unknown
from repro.core.user_files import read_text

T = TypeVar("T")


@dataclass(frozen=True)
class PullProfile:
    """A network's layers, first to last; L of them. InputError for what no network can have.

    startup_s   T_s, of each pull, whatever its size
    transfer_s  T_t of each layer, (L,); 0: a layer without parameters, of which nothing is pulled
    forward_s   C of each layer, (L,)
    layers      their names, (L,); empty: not given
    parameters  elements to train in each layer, (L,); empty: not given
    workers, servers, batch  of the cluster: servers of their own (0: workers are servers too), samples of a worker's
                minibatch; None: not given
    hardware, source  what was measured on and how, in words
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
        """Of the layers; their numbers, from 1, where no names are given."""
        return self.layers or tuple(str(layer) for layer in range(1, len(self.transfer_s) + 1))

    @classmethod
    def parse(cls, given: Any, where: str) -> PullProfile:
        """The profile in a decoded mapping; InputError, which begins with `where`, for anything else."""
        try:
            return cls(**_values(given))
        except InputError as error:
            raise InputError(f"{where}: {error}") from None

    def as_dict(self) -> dict[str, Any]:
        """All fields, as JSON takes them; `parse` reads it."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def merged(profile: PullProfile) -> tuple[PullProfile, list[tuple[int, int]]]:
    """Layers without parameters joined to the one before: (the joined layers, each one's first and last original).

    A layer with transfer_s of 0 computes along with the layer before it, as the paper's Figure 3 counts pooling layers.
    Those at the front, with no layer before them that is pulled, are one joined layer, of which nothing is pulled.
    """
    found = groups(profile)

    def cut(values: tuple[T, ...]) -> list[tuple[T, ...]]:
        return [values[first - 1 : last] for first, last in found]

    joined = replace(
        profile,
        transfer_s=tuple(map(math.fsum, cut(profile.transfer_s))),
        forward_s=tuple(map(math.fsum, cut(profile.forward_s))),
        layers=tuple(map("+".join, cut(profile.names))),
        parameters=tuple(map(sum, cut(profile.parameters))) if profile.parameters else (),
    )
    return joined, found


def groups(profile: PullProfile) -> list[tuple[int, int]]:
    """The first and last layer, from 1, of each of `merged`'s layers."""
    with_parameters = [layer for layer, seconds in enumerate(profile.transfer_s, 1) if seconds > 0]
    firsts = sorted({1, *with_parameters})
    return list(zip(firsts, [*(first - 1 for first in firsts[1:]), len(profile.transfer_s)]))


def read(path: Path | str) -> PullProfile:
    """The profile in a JSON or YAML file, or in the summary of a run that measured one; InputError for all others."""
    path = Path(path)
    try:
        text = read_text(path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such profile; must be a JSON or YAML file") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{path}: not a readable profile ({reason})") from None
    found = _decoded(text, path)
    if isinstance(found, Mapping) and "pipeline" in found:
        pipeline = found["pipeline"]
        found = pipeline.get("profile") if isinstance(pipeline, Mapping) else None
        if found is None:
            raise InputError(f"{path}: a summary of a run that measured no profile of its pulls")
    return PullProfile.parse(found, str(path))


def write(path: Path | str, profile: PullProfile) -> None:
    """As JSON, atomically; InputError where there is no folder for it."""
    path = Path(path)
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}")
    if path.is_dir():
        raise InputError(f"{path}: is a folder; must be a file")
    write_atomically(path, json.dumps(profile.as_dict(), indent=1, allow_nan=False) + "\n")


def _decoded(text: str, path: Path) -> Any:
    """What stands in a file, JSON or YAML, whichever it is; InputError where it is neither."""
    try:
        return strict_json.parse(text)
    except ValueError:
        pass
    import yaml

    try:
        return yaml.load(text, Loader=_loader())
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: of a date that there is not
        mark = getattr(error, "problem_mark", None)
        at = "" if mark is None else f" (line {mark.line + 1}: {getattr(error, 'problem', None) or 'cannot be read'})"
        raise InputError(f"{path}: not a profile: neither JSON nor YAML{at}") from None


def _loader() -> type:
    """YAML's safe loader, which also takes 1e-3 for a number, as everybody but YAML 1.1 does."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    number = re.compile(r"^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$")
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", number, list("-+.0123456789"))
    return Loader


def _values(given: Any) -> dict[str, Any]:
    """The fields of a mapping; InputError for one that is missing, unknown, or not of its kind."""
    names = [field.name for field in fields(PullProfile)]
    needed = [field.name for field in fields(PullProfile) if field.default is MISSING]
    if not isinstance(given, Mapping):
        raise InputError(f"not a profile: must be a mapping with {', '.join(needed)}")
    missing = [name for name in needed if name not in given]
    for name in given:
        if name not in names and missing != needed:  # all missing: it is another kind of file
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
    except OverflowError:  # a whole number beyond all floats
        right = False
    if not right:
        raise InputError(f"{what}={_short(value)}: must be a number of seconds, 0 or more")


def _check_whole(what: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(f"{what}={_short(value)}: must be a whole number, {least} or more")


def _layers(count: int) -> str:
    return "1 layer" if count == 1 else f"{count} layers"


def _short(value: Any) -> str:
    """A value as it stands in a message: on one line."""
    text = repr(value) if isinstance(value, str) else " ".join(str(value).split())
    return text if len(text) <= 60 else text[:57] + "..."
