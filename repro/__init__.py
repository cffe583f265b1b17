"""A reproduction harness for distributed deep-learning training: five papers, measured and simulated.

    repro.run("pipesgd/fig4-mnist", {"strategy": "pipe_sgd"}, seeds=2)     -> records, which a notebook shows as a table
    repro.show("pipesgd/fig4-mnist")                                       -> its runs and their states
    repro.results("pipesgd"), repro.compare("pipe_sgd", "dsync")           -> pandas DataFrames
    repro.list(), repro.claims("pipesgd"), repro.frame(records)            -> pandas DataFrames
    repro.recommend(...)

Each function does the same as the command of its name (docs/api.md). PyTorch and pandas are imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from inspect import signature
from numbers import Integral, Real
from typing import Any

__version__ = "0.1.0"

# function -> its module, and its name there
API = {
    "list": ("repro.cli.listing", "list_names"),
    "run": ("repro.launch.run", "run"),
    "show": ("repro.launch.show", "show"),
    "frame": ("repro.records.record_list", "frame"),
    "results": ("repro.records.results", "results"),
    "compare": ("repro.records.results", "compare"),
    "claims": ("repro.answers.pages.claims_frame", "read_claims"),
    "recommend": ("repro.answers.ranking", "recommend"),
}
__all__ = ["claims", "compare", "frame", "list", "recommend", "results", "run", "show"]

NUMBERS = {"int": (Integral, "a whole number"), "float": (Real, "a number")}  # annotation -> type, and what it must be


def __getattr__(name: str) -> Any:
    if name not in API:
        raise AttributeError(f"module 'repro' has no attribute '{name}'")
    module, function = API[name]
    globals()[name] = call = _with_known_names(getattr(import_module(module), function))
    return call


def _with_known_names(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function; InputError for an argument that it does not have (`seed=`), that is missing, and that is no number
    where its annotation has only numbers."""

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        from repro.core.errors import InputError, unknown_name

        names = signature(function).parameters
        for name in named:
            if name not in names:
                raise unknown_name("argument", name, names)
        try:
            bound = signature(function).bind(*arguments, **named).arguments
        except TypeError as error:
            raise InputError(f"repro.{function.__name__}: {error}; its arguments: {', '.join(names)}") from None
        for name, value in bound.items():
            if kinds := NUMBERS.get(str(names[name].annotation).removesuffix(" | None")):
                left_out = value is None and names[name].default is None
                if not left_out and (isinstance(value, bool) or not isinstance(value, kinds[0])):
                    raise InputError(f"{name}={value!r:.60}: must be {kinds[1]}")
        return function(*arguments, **named)

    return call


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
