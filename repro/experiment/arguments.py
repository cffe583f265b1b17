"""Arguments of the Python API as the overrides `key=value` that commands take."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from repro.core.errors import InputError

Override = str | Mapping[str, Any]
PLAIN = re.compile(r"[\w./:+-]+")  # text that needs no quotes; Hydra would split the rest


def as_overrides(overrides: Sequence[Override], seeds: int | Sequence[int] | None = None) -> list[str]:
    """`"epochs=3"` and `{"strategy": ["pipe_sgd", "dsync"], "epochs": 3}` alike as `key=value`.

    In a mapping a list or tuple is several values, a run each. seeds: their number, or a list of them. InputError for
    an argument of another type.
    """
    words: list[str] = []
    for override in overrides:
        if isinstance(override, str):
            words.append(override)
        elif isinstance(override, Mapping):
            words += [f"{key}={_several(str(key), value)}" for key, value in override.items()]
        else:
            raise InputError(f"override {override!r}: must be text such as 'epochs=3', or a dictionary")
    if seeds is None:
        return words
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        return [*words, f"seeds={seeds}"]
    if not isinstance(seeds, list | tuple | range):
        raise InputError(f"seeds={seeds!r:.60}: must be a whole number, or a list of whole numbers")
    return [*words, f"seeds=choice({_several('seeds', seeds)})"]


def check_arguments(scale: object, **switches: object) -> None:
    """InputError for a scale that is no text, and for a switch that is neither True nor False."""
    if not isinstance(scale, str):
        raise InputError(f"scale {scale!r:.60}: must be a text: quick, full or paper")
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise InputError(f"{name} {value!r:.60}: must be True or False")


def _several(key: str, value: Any) -> str:
    if not isinstance(value, list | tuple | range):
        return _text(key, value)
    if not value:
        raise InputError(f"{key}: has no values")
    return ",".join(_text(key, each) for each in value)


def _text(key: str, value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return value if PLAIN.fullmatch(value) else "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    raise InputError(f"{key}: {value!r} must be a number, text, true or false, None, or a list of these")
