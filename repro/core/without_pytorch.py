"""Checks of plugins' code without PyTorch, whose import takes longer than all else that comes before a run.

Plugins import PyTorch, but few of their checks use it. A child process imports them with a placeholder in PyTorch's
place: a definition may name it, call it or derive from it. A check that needs a value of it, or more time than CHECK_S,
ends the child without an answer; the plan makes the same checks with PyTorch.
"""

from __future__ import annotations

import glob
import importlib.abc
import inspect
import json
import os
import resource
import select
import signal
import sys
import threading
from abc import ABCMeta
from collections.abc import Callable
from functools import cache
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from repro.core import errors
from repro.core.errors import ReproError

CHECK_S = 2  # CPU seconds of the child
LONG_S = 2.0  # seconds without a line on the screen; most wrong input is answered sooner
REPLACED = ("torch", "torchvision")
# NVIDIA's, those of its small computers, AMD's, and those that Windows lends to Linux
GPU_DEVICES = ("/dev/nvidia[0-9]*", "/dev/nvhost-gpu", "/dev/kfd", "/dev/dxg")

_used: list[str] = []  # the names that were taken from the placeholder


class NeedsPyTorch(BaseException):
    """Only PyTorch knows. No Exception, since those of a plugin's code are reported as its author's errors."""


def check_early(
    check: Callable[[], object], when_long: Callable[[], object] | None = None, limit_s: int = CHECK_S
) -> None:
    """Raise the ReproError that a check would raise, if it can be known without PyTorch; this process does not import
    what the check imports. Nothing is checked if PyTorch is imported, or if a fork is not safe.

    when_long: called if the answer takes longer than LONG_S. limit_s: CPU seconds, after which there is no answer.
    """
    if is_imported() or threading.active_count() > 1:
        return
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _answer(check, writing, limit_s)
    os.close(writing)
    try:
        with open(reading, encoding="utf-8") as answer:
            if when_long and not select.select([answer], [], [], LONG_S)[0]:
                when_long()
            found = answer.read()
    finally:
        os.kill(child, signal.SIGKILL)  # it waits for nothing after its answer
        os.waitpid(child, 0)
    if found:
        name, message = json.loads(found)
        raise getattr(errors, name)(message)


def is_imported() -> bool:
    """Whether this process has PyTorch itself."""
    return "torch" in sys.modules and not isinstance(sys.modules["torch"], _Module)


def gpu_devices() -> list[str]:
    """The device files of this machine's GPUs; without any of them PyTorch sees no GPU."""
    return sorted(path for pattern in GPU_DEVICES for path in glob.glob(pattern))


def require_pytorch() -> None:
    """End a check without PyTorch here, before a step that it would make in vain or that should not be made twice."""
    if isinstance(sys.modules.get("torch"), _Module):
        raise NeedsPyTorch


def _answer(check: Callable[[], object], writing: int, limit_s: int) -> NoReturn:
    """Write the name and message of the error that a check raises to a pipe, and end this process."""
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        silent = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):  # the same messages come again
            os.dup2(silent, stream)
        sys.meta_path.insert(0, _Placeholders())
        try:
            check()
        except ReproError as error:
            # an error of other code may be due to the placeholder
            if isinstance(error.__cause__, ReproError | None) or not _used:
                os.write(writing, json.dumps([type(error).__name__, str(error)]).encode())
    finally:
        os._exit(0)


def _needed(*arguments: Any, **named: Any) -> NoReturn:
    raise NeedsPyTorch


class _Placeholder:
    """What PyTorch has under a name: a class, function, module or constant."""

    def __init__(self, name: str):
        self._name = name
        _used.append(name)

    def __call__(self, *arguments: Any, **named: Any) -> _Placeholder:
        return _Placeholder(f"{self._name}()")

    def __getattr__(self, name: str) -> _Placeholder:
        return _attribute(self._name, name)

    def __getitem__(self, item: Any) -> _Placeholder:
        return self

    def __or__(self, other: Any) -> _Placeholder:
        return self

    __ror__ = __or__

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return (_base_class(self._name),)

    def __subclasscheck__(self, other: type) -> bool:
        bases = [each for each in other.__mro__ if type(each) is _Derived and "_name" in vars(each)]
        if bases and all(each._name != self._name for each in bases):
            raise NeedsPyTorch
        return bool(bases)

    def __instancecheck__(self, other: object) -> bool:
        return self.__subclasscheck__(type(other))

    def __eq__(self, other: object) -> bool:
        if self is not other and isinstance(other, _Placeholder | bool | int | float | str):
            raise NeedsPyTorch
        return self is other

    __hash__ = object.__hash__
    __bool__ = __len__ = __iter__ = __contains__ = __int__ = __index__ = __float__ = __str__ = __repr__ = _needed
    __lt__ = __le__ = __gt__ = __ge__ = __format__ = __setitem__ = __enter__ = __exit__ = _needed


class _Derived(ABCMeta):
    """Of classes that derive from PyTorch's, whose attributes are unknown."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):  # inspect asks for some
            raise AttributeError(name)
        raise NeedsPyTorch

    @property
    def __signature__(cls) -> inspect.Signature:
        """That of the class's own `__init__`, which inspect finds itself; unknown without one."""
        if next(each for each in cls.__mro__ if "__init__" in vars(each)) is object:
            raise NeedsPyTorch
        raise AttributeError


@cache
def _base_class(name: str) -> type:
    return _Derived(name.rpartition(".")[2], (), {"_name": name})


def _attribute(owner: str, name: str) -> _Placeholder:
    if name.startswith("__"):
        _used.append(name)
        raise AttributeError(name)
    return _Placeholder(f"{owner}.{name}")


class _Module(ModuleType):
    __path__ = __file__ = __cached__ = None  # type: ignore[assignment] # asked for by the import itself

    def __getattr__(self, name: str) -> _Placeholder:
        return _attribute(self.__name__, name)


class _Placeholders(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules that are replaced."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in REPLACED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: attributes are made when they are used."""
