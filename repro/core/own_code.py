"""Plugins in a user's own files or modules: `./vit.py:ViT`, `./spectra.npz`, `my.nets:ViT`.

Only code that the user named in this process's command is imported (`admit_plugin`): records, experiments' files and
run folders name plugins too, and may come from somebody else.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from repro.core.errors import InputError, shorten_path, unknown_name

DATA = ".npz"  # suffix of a file that contains data and no code
FROM_DATA = ("input_shape", "classes", "num_classes")  # arguments of a model that the data set determines
PLAIN = (bool, int, float, str, list, tuple, type(None))  # types of defaults that a configuration can contain

_admitted: set[str] = set()
_folders: set[Path] = set()


def is_place(name: str) -> bool:
    """Whether a plugin's name is a file or `module:NAME`, not the name of a registered plugin."""
    return ":" in name or name.endswith((".py", DATA))


def admit_plugin(name: str) -> None:
    """Allow this process to import a plugin that its user named; InputError for a missing file, for one that is no
    Python, and for a name that its code does not have, without importing it and PyTorch."""
    path, _, attribute = name.partition(":")
    _admit_file(name)
    names = _assigned_names(Path(path)) if path.endswith(".py") else None
    if names is not None and attribute and attribute not in names:
        raise unknown_name(f"name in {path}", attribute, [each for each in names if names[each]], all_of=path)


def _admit_file(name: str) -> None:
    path = name.partition(":")[0]
    if path.endswith((".py", DATA)):
        try:
            exists = Path(path).is_file()
        except OSError as error:  # a name that no file can have
            raise InputError(f"{shorten_path(path)}: {error.strerror}") from None
        if not exists:
            raise InputError(f"{path}: no such file (in {Path.cwd()})")
    _admitted.add(name)


def _assigned_names(file: Path) -> dict[str, bool] | None:
    """name -> whether it is a public class or function, of all names of a module; None if only executing it can tell:
    it imports `*` or has `__getattr__`, or cannot be read, which the import reports. InputError for no Python."""
    try:
        tree = ast.parse(file.read_bytes())
    except SyntaxError as error:
        raise InputError(f"{file}:{error.lineno}: SyntaxError: {error.msg}") from None
    except (OSError, ValueError):
        return None
    names: dict[str, bool] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names[node.name] = node in tree.body and not node.name.startswith("_")
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.setdefault(node.id, False)
        elif isinstance(node, ast.alias):
            names.setdefault((node.asname or node.name).partition(".")[0], False)
    return None if {"*", "__getattr__"} & {*names} or "globals" in ast.dump(tree) else names


def declared_name(place: str) -> str | None:
    """The text that the class of a plugin in a user's file calls its `name`, without importing it; None if no file
    says so."""
    path, _, attribute = place.partition(":")
    try:
        tree = ast.parse(Path(path).read_bytes() if path.endswith(".py") and Path(path).is_file() else b"")
    except (OSError, ValueError, SyntaxError):
        return None
    for each in tree.body:
        if isinstance(each, ast.ClassDef) and attribute in ("", each.name):
            for target, value in _class_attributes(each):
                if isinstance(target, ast.Name) and target.id == "name" and isinstance(value, ast.Constant):
                    return str(value.value)
    return None


def _class_attributes(definition: ast.ClassDef) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The assignments in a class, those of tuples by element."""
    for each in (each for each in definition.body if isinstance(each, ast.Assign)):
        for target in each.targets:
            if isinstance(target, ast.Tuple) and isinstance(value := each.value, ast.Tuple):
                yield from zip(target.elts, value.elts, strict=False)
            else:
                yield target, each.value


def admit_configured(config: Mapping[str, Any]) -> None:
    """Allow the process that executes a run to import the plugins that its configuration names; InputError for a
    missing file. What the files hold is not read: their digest is compared first."""
    for part in config.values():
        name = part.get("name") if isinstance(part, Mapping) else None
        if isinstance(name, str) and is_place(name):
            _admit_file(name)


def plugin_folders() -> Collection[Path]:
    """Folders of the imported files; modules beside these files are the user's code too."""
    return _folders


def module_of(name: str) -> str:
    """The module of a plugin. The folder of a file, or the current folder for a module, is appended to `sys.path`, so
    that the module can be imported."""
    path, _, _ = name.partition(":")
    if name not in _admitted:
        raise _not_named(name)
    file = Path(path).resolve()  # of a module: a name in the current folder
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    if not path.endswith(".py"):
        return path
    _folders.add(file.parent)
    spec = importlib.util.find_spec(file.stem)
    if spec is None or Path(spec.origin or "").resolve() != file:
        raise InputError(f"{path}: another module is called {file.stem} ({spec and spec.origin}); rename the file")
    return file.stem


def _not_named(name: str) -> InputError:
    return InputError(f"{name}: code that this command did not name is not imported; name it there: GROUP={name}")


def load_plugin(name: str) -> Any:
    """The module, or its attribute behind the colon; the path of a data file."""
    path, _, attribute = name.partition(":")
    if path.endswith(DATA):
        return Path(path)
    if name not in _admitted:
        raise _not_named(name)
    module = importlib.import_module(module_of(name))
    if not attribute:
        return module
    if not hasattr(module, attribute):
        raise unknown_name(f"name in {path}", attribute, _offered(module, path), all_of=path)
    return getattr(module, attribute)


def _offered(module: ModuleType, path: str) -> list[str]:
    """Public classes and functions of a module. A package's module may re-export names; a user's file only imports
    what its own code uses."""
    public = {name: value for name, value in vars(module).items() if callable(value) and not name.startswith("_")}
    defined = [name for name, value in public.items() if getattr(value, "__module__", "") == module.__name__]
    return defined if path.endswith(".py") and defined else list(public)


def plugin_parameters(make: Callable[..., Any], passed: Collection[str]) -> dict[str, inspect.Parameter]:
    """The parameters of a class or function that a configuration can set: those whose default is plain data, and
    required ones. passed: names of parameters that the caller passes itself."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {
        name: parameter
        for name, parameter in inspect.signature(make).parameters.items()
        if parameter.kind in kinds
        and name not in passed
        and (parameter.default is parameter.empty or isinstance(parameter.default, PLAIN))
    }


def plugin_annotations(make: Callable[..., Any]) -> dict[str, Any]:
    """Parameter -> its type, of a class or function that declares them in a readable way."""
    try:
        return get_type_hints(make.__init__ if inspect.isclass(make) else make, include_extras=True)
    except (NameError, TypeError, AttributeError):  # annotations for type checkers only
        return {}
