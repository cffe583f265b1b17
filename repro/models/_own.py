"""A class or function of a user's that makes an nn.Module, offered as a model's module is."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

from repro.core import own_code
from repro.core.errors import InputError

ANYTHING = "anything"  # that its forward takes
GIVEN = ("input_shape", "classes", "num_classes")  # arguments that the data set says


def of(name: str, made_by: Any) -> Any:
    """name: its place. InputError for what makes no module, or has arguments that nobody sets."""
    if inspect.ismodule(made_by):
        if not hasattr(made_by, "build"):
            raise InputError(f"model {name}: has no function `build`; name a class or function of it, as {name}:Net")
        return made_by
    if not callable(made_by):
        raise InputError(f"model {name}: must be a class or function that makes an nn.Module")
    try:
        taken = inspect.signature(made_by).parameters
    except ValueError as error:
        raise InputError(f"model {name}: {error}") from None
    options = own_code.options(made_by, GIVEN)

    def build(input_shape: tuple[int, ...], classes: int, **given: Any) -> Any:
        if lacking := [key for key, one in options.items() if one.default is one.empty and key not in given]:
            raise InputError(f"model {name}: its argument {lacking[0]} has no default; set model.{lacking[0]}=VALUE")
        data = {"input_shape": input_shape, "classes": classes, "num_classes": classes}
        return made_by(**{key: value for key, value in data.items() if key in taken}, **given)

    keywords = [one.replace(kind=one.KEYWORD_ONLY, default=None if one.default is one.empty else one.default)
                for one in options.values()]  # fmt: skip
    build.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    return SimpleNamespace(build=build, TAKES=ANYTHING, __file__=inspect.getsourcefile(made_by))
