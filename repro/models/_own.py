"""Adapts a user's class or function that makes an nn.Module to the interface of a model's module."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

from repro.core import own_code
from repro.core.errors import InputError

ANYTHING = "anything"  # TAKES of a user's model, whose forward may take any inputs
FROM_DATA = ("input_shape", "classes", "num_classes")  # arguments that the data set determines


def adapt_module(name: str, factory: Any) -> Any:
    """The model's module. name: FILE:NAME or MODULE:NAME; factory: the object there, a module itself returned as it is.

    InputError if it cannot make a module."""
    if inspect.ismodule(factory):
        if not hasattr(factory, "build"):
            raise InputError(
                f"model {name}: has no function `build`; name a class or function of it, as {name.rstrip(':')}:Net"
            )
        return factory
    if not callable(factory):
        raise InputError(f"model {name}: must be a class or function that makes an nn.Module")
    try:
        parameters = inspect.signature(factory).parameters
    except ValueError as error:
        raise InputError(f"model {name}: {error}") from None
    options = own_code.plugin_parameters(factory, FROM_DATA)

    def build(input_shape: tuple[int, ...], classes: int, **values: Any) -> Any:
        if missing := [
            key for key, parameter in options.items() if parameter.default is parameter.empty and key not in values
        ]:
            raise InputError(f"model {name}: its argument {missing[0]} has no default; set model.{missing[0]}=VALUE")
        data = {"input_shape": input_shape, "classes": classes, "num_classes": classes}
        return factory(**{key: value for key, value in data.items() if key in parameters}, **values)

    defaults = {key: None if option.default is option.empty else option.default for key, option in options.items()}
    keywords = [option.replace(kind=option.KEYWORD_ONLY, default=defaults[key]) for key, option in options.items()]
    build.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    return SimpleNamespace(build=build, TAKES=ANYTHING, __file__=inspect.getsourcefile(factory))
