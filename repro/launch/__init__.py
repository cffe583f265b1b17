"""Launchers start the ranks of a run; the testbed's `launcher` option selects one."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

from repro.core.errors import InputError, unknown_name
from repro.experiment.testbeds import KINDS, Testbed
from repro.launch import local, shaped, srun  # noqa: F401 - their classes are launchers
from repro.launch.base import Allocation, Launcher


def _launchers(base: Any) -> Iterator[type[Launcher]]:
    """The concrete classes below a launcher."""
    for each in base.__subclasses__():
        yield from () if inspect.isabstract(each) else (each,)
        yield from _launchers(each)


LAUNCHERS: Sequence[type[Launcher]] = [*_launchers(Launcher)]  # of the modules that are imported here


def launcher_for(testbed: Testbed) -> Launcher:
    """The launcher of a testbed; InputError if its name is unknown or belongs to testbeds of another kind."""
    name, kind = testbed.launcher, testbed.kind
    valid = {each.name: each for each in LAUNCHERS if (each.kind, each.limited) == (kind, testbed.limited)}
    if name in valid:
        return valid[name](testbed)
    if elsewhere := [each.kind for each in LAUNCHERS if each.name == name and each.kind != kind]:
        raise InputError(
            f"testbed.launcher={name}: testbed {testbed.name} is {kind}; valid: {', '.join(valid)} "
            f"({name} goes with {elsewhere[0]} testbeds, for instance testbed={KINDS[elsewhere[0]].example})"
        )
    raise unknown_name("testbed.launcher", name, valid)


__all__ = ["LAUNCHERS", "Allocation", "Launcher", "launcher_for"]
