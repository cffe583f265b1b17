"""A plugin's options as its source declares them, read without importing it: it imports PyTorch, which takes seconds.

Of the source only the annotations and defaults of the options are executed, and the imports that these name, from
modules that import no PyTorch. What else the code checks (`__post_init__`) is checked when it is imported.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import importlib
import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from repro.core import own_code, registry
from repro.core.errors import InputError, unknown_name
from repro.core.fields import check_fields

LIGHT = (*sys.stdlib_module_names, "pydantic", "repro.core", "repro.experiment.limits", "repro.fabric.option_names")


class Unreadable(Exception):
    """Only importing the plugin tells its options."""


def check_declared(group: str, name: str, values: Mapping[str, Any]) -> None:
    """InputError for an option that a plugin does not declare, or a value that its declaration does not allow; values
    are of single options. Whatever the source alone does not tell is not checked."""
    try:
        options = declared_options(group, name)
    except (Unreadable, OSError, SyntaxError, ValueError):
        return
    for option, value in values.items():
        if option not in options:
            wrong = unknown_name("option", f"{group}.{option}", [f"{group}.{each}" for each in options])
            raise InputError(f"{registry.PLUGINS[group].kind} {name}: {wrong}")
        kind = dataclasses.make_dataclass("Options", [(option, options[option], None)])
        check_fields(kind, {option: value}, group)


def declared_options(group: str, name: str) -> dict[str, Any]:
    """Option -> annotation: the fields of a strategy's `Options`, the arguments of a model's `build`, or those of a
    user's class or function that makes a model. Unreadable if the source alone does not tell."""
    plugins = registry.PLUGINS[group]
    file, attribute = plugins.source_of(name)
    if file is None or group == "dataset":
        raise Unreadable
    source = Source(file)
    if group == "model":
        return source.arguments(attribute or "build")
    owner, options = source.options_of(attribute or source.only_class(name))
    return owner.fields_of(options)


class Found(NamedTuple):
    """A class and the file that defines it."""

    source: Source
    node: ast.ClassDef


class Source:
    """A parsed file."""

    def __init__(self, file: Path):
        self.file = file
        self.tree = ast.parse(file.read_bytes())
        self.values: dict[str, Any] = {}

    @cached_property
    def defined(self) -> dict[str, ast.stmt]:
        """Name -> the class, function or assignment of the module that defines it."""
        names: dict[str, ast.stmt] = {}
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                names[node.name] = node
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                names[node.targets[0].id] = node
        return names

    @cached_property
    def imported(self) -> dict[str, tuple[str, str]]:
        """Name -> the module that it is imported from, and its name there."""
        froms = [node for node in self.tree.body if isinstance(node, ast.ImportFrom) and not node.level and node.module]
        return {each.asname or each.name: (str(node.module), each.name) for node in froms for each in node.names}

    def only_class(self, name: str) -> str:
        """The class of a strategy of this name, or the only one with a name in a user's file."""
        classes = [each for each, node in self.defined.items() if isinstance(node, ast.ClassDef)]
        named = {each: getattr(_attribute(self.defined[each], "name"), "value", None) for each in classes}
        fitting = [each for each, value in named.items() if value == name or (value and own_code.is_place(name))]
        if len(fitting) != 1:
            raise Unreadable
        return fitting[0]

    def find(self, name: str) -> Found:
        """The class of a name."""
        if isinstance(node := self.defined.get(name), ast.ClassDef):
            return Found(self, node)
        module, there = self.imported.get(name, ("", ""))
        folder = registry.module_folder(module.rpartition(".")[0]) if module.startswith("repro.") else self.file.parent
        file = folder and folder / f"{module.rpartition('.')[2]}.py"
        if not module or file is None or not file.is_file():
            raise Unreadable
        return Source(file).find(there)

    def options_of(self, name: str) -> Found:
        """The class that is a plugin's `Options`, its own or that of its first base class."""
        source, node = self.find(name)
        if isinstance(value := _attribute(node, "Options"), ast.Name):
            return source.find(value.id)
        if value is None and node.bases and isinstance(base := node.bases[0], ast.Name):
            return source.options_of(base.id)
        raise Unreadable

    def fields_of(self, node: ast.ClassDef) -> dict[str, Any]:
        """Field -> annotation of a dataclass, with those of its base classes."""
        fields: dict[str, Any] = {}
        for base in node.bases:
            if not isinstance(base, ast.Name):
                raise Unreadable
            source, inherited = self.find(base.id)
            fields |= source.fields_of(inherited)
        for each in node.body:
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                fields[each.target.id] = self.evaluate(each.annotation)
        return fields

    def arguments(self, name: str) -> dict[str, Any]:
        """Argument -> annotation of a function, or of a class's own `__init__`, that a configuration can set."""
        node = self.defined.get(name)
        if isinstance(node, ast.ClassDef):
            node = next((each for each in node.body if getattr(each, "name", "") == "__init__"), None)
        if not isinstance(node, ast.FunctionDef) or node.decorator_list or node.args.kwarg or node.args.vararg:
            raise Unreadable
        places = [] if name == "build" else node.args.args
        settable = [each for each in places if each.arg not in ("self", *own_code.FROM_DATA)]
        return {each.arg: self.evaluate(each.annotation) for each in (*settable, *node.args.kwonlyargs)}

    def evaluate(self, node: ast.expr | None) -> Any:
        """The value of an annotation; Any if it takes what only importing the source has."""
        try:
            return self._evaluate(node) if node else Any
        except Exception:  # of the plugin's own code
            return Any

    def _evaluate(self, node: ast.expr) -> Any:
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        code = compile(ast.Expression(node), str(self.file), "eval", dont_inherit=True)
        return eval(code, {name: self._value(name) for name in names if not hasattr(builtins, name)})

    def _value(self, name: str) -> Any:
        if name in self.imported:
            module, there = self.imported[name]
            if not _is_light(f"{module}.{there}"):
                raise Unreadable
            found = getattr(importlib.import_module(module), there, None)
            return importlib.import_module(f"{module}.{there}") if found is None else found
        if not isinstance(node := self.defined.get(name), ast.Assign):
            raise Unreadable
        return self._evaluate(node.value)


def _is_light(name: str) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in LIGHT)


def _attribute(node: ast.stmt, name: str) -> ast.expr | None:
    """The value that a class's body assigns to a name."""
    for each in node.body if isinstance(node, ast.ClassDef) else ():
        if not isinstance(each, ast.Assign | ast.AnnAssign) or each.value is None:
            continue
        target = each.targets[0] if isinstance(each, ast.Assign) else each.target
        pairs = [(target, each.value)]
        if isinstance(target, ast.Tuple) and isinstance(each.value, ast.Tuple):
            pairs = [*zip(target.elts, each.value.elts, strict=True)]
        for to, value in pairs:
            if isinstance(to, ast.Name) and to.id == name:
                return value
    return None
