"""Plugins that no package registers: a file (`./vit.py:ViT`, `./spectra.npz`), or a name in a module (`my.nets:ViT`).

Only what this process was asked for by its user is imported (`admit`): records name plugins too, and are data.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from repro.core.errors import InputError, unknown

DATA = ".npz"  # of a file that holds data and no code
PLAIN = (bool, int, float, str, list, tuple, type(None))  # of a default that a configuration can have

_admitted: set[str] = set()
_folders: set[Path] = set()


def is_place(name: str) -> bool:
    """Whether a plugin's name says where it is, rather than under which name it is registered."""
    return ":" in name or name.endswith((".py", DATA))


def admit(name: str) -> None:
    """The user named this place; InputError where there is no such file."""
    path, _, _ = name.partition(":")
    if path.endswith((".py", DATA)) and not Path(path).is_file():
        raise InputError(f"{path}: no such file (in {Path.cwd()})")
    _admitted.add(name)


def admit_configured(config: Mapping[str, Any]) -> None:
    """The places that a run's own configuration names, where the run is carried out."""
    for part in config.values():
        name = part.get("name") if isinstance(part, Mapping) else None
        if isinstance(name, str) and is_place(name):
            admit(name)


def folders() -> Collection[Path]:
    """Those of the files that were imported: modules beside them are their users' code too."""
    return _folders


def module_of(name: str) -> str:
    """The module of a place, which can be imported from here on: a file's folder is searched last."""
    path, _, _ = name.partition(":")
    if not path.endswith(".py"):
        return path
    if name not in _admitted:
        raise InputError(f"{name}: a file of code that this command did not name is not imported")
    file = Path(path).resolve()
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    _folders.add(file.parent)
    spec = importlib.util.find_spec(file.stem)
    if spec is None or Path(spec.origin or "").resolve() != file:
        raise InputError(f"{path}: another module is called {file.stem} ({spec and spec.origin}); rename the file")
    return file.stem


def load(name: str) -> Any:
    """The module of a place, or what it has under the name behind the colon; the path of a file of data."""
    path, _, attribute = name.partition(":")
    if path.endswith(DATA):
        return Path(path)
    if name not in _admitted:
        raise InputError(f"{name}: code that this command did not name is not imported")
    module = importlib.import_module(module_of(name))
    if not attribute:
        return module
    if not hasattr(module, attribute):
        public = [own for own, value in vars(module).items() if callable(value) and not own.startswith("_")]
        raise unknown(f"name in {path}", attribute, public, most=3, all_of=path)
    return getattr(module, attribute)


def options(make: Callable[..., Any], given: Collection[str]) -> dict[str, inspect.Parameter]:
    """The arguments of a class or function that a configuration can set: those with a plain default, and those without
    any, which it has to. given: names of the others, which the caller passes."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found = {name: one for name, one in inspect.signature(make).parameters.items() if one.kind in kinds}
    return {
        name: one
        for name, one in found.items()
        if name not in given and (one.default is one.empty or isinstance(one.default, PLAIN))
    }
