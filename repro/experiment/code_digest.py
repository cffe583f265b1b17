"""Digests of the code that a result depends on.

Imports are parsed from the source, which is not executed. A module that is loaded by name (a registry's
`import_module(f"repro.strategies.{name}")`) must therefore be a root; this keeps an edit of one strategy from
invalidating the runs of the others.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from repro.core import own_code
from repro.core.errors import InputError
from repro.core.not_none import not_none
from repro.core.registry import PLUGINS

PROJECT_PACKAGES = ("repro",)
CHECKING = ("TYPE_CHECKING", "typing.TYPE_CHECKING")
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
# Packages that show, store, start or name a run and cannot change its numbers; what `experiment` makes is in the key
# itself. Their modules that affect measured times (launching of ranks, limits of links) are roots, and count.
LEFT_OUT = (
    *("repro.answers", "repro.cli", "repro.core", "repro.experiment"),
    *("repro.launch", "repro.records", "repro.reports"),
)


def code_fingerprint(roots: Sequence[str]) -> str:
    """The SHA-256, in hexadecimal, of the code of `imported_modules(roots)`.

    Comments, docstrings and layout do not count, nor the path of a module: moving a module changes no key.
    """
    return _digest(imported_modules(roots))


def users_code(plugins: Mapping[str, str]) -> dict[str, str]:
    """Group -> eight digits of the hash of the user's own files, outside of packages, that a plugin consists of; for
    the plugins of which some are. plugins: group -> name."""
    roots_by_group = {
        group: PLUGINS[group].modules(name) for group, name in plugins.items() if PLUGINS[group].takes(name)
    }
    users_roots = {group: [root for root in roots if _is_users(root)] for group, roots in roots_by_group.items()}
    return {
        group: _digest([*filter(_is_users, imported_modules(roots, ()))])[:8]
        for group, roots in users_roots.items()
        if roots
    }


def _is_users(name: str) -> bool:
    source = source_file(name)
    return source is not None and source.parent in own_code.plugin_folders()


def _digest(names: Sequence[str]) -> str:
    digests = sorted(_read(name, not_none(source_file(name))).digest for name in names)
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def imported_modules(roots: Sequence[str], packages: Sequence[str] = PROJECT_PACKAGES) -> list[str]:
    """The roots and the project modules that they import, transitively, outside of LEFT_OUT; sorted.

    Imports inside functions count. Imports under `if TYPE_CHECKING` do not, nor parent packages: `import a.b as c`
    reads `a.b`, not `a`. Imports of roots outside the project (another package's strategy) are followed within their
    own package or folder. packages: of the project. InputError for an unknown root.
    """
    packages = [*packages, *(root.split(".")[0] for root in roots)]
    for root in roots:
        if source_file(root) is None:
            raise InputError(f"cannot find the source of module '{root}'")
    visited: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in visited or not (name in roots or not left_out(name)) or (source := source_file(name)) is None:
            continue
        if name.split(".")[0] not in packages and source.parent not in own_code.plugin_folders():
            continue
        visited.add(name)
        waiting.extend(_read(name, source).imports)
    return sorted(visited)


def left_out(name: str) -> bool:
    """Whether a module cannot change a number: it is in LEFT_OUT, or the project's package itself."""
    return name in PROJECT_PACKAGES or any(name == entry or name.startswith(entry + ".") for entry in LEFT_OUT)


def source_file(name: str) -> Path | None:
    """The file of a module, found without importing any of its parents."""
    package, *rest = name.split(".")
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if not rest and spec.origin and not spec.submodule_search_locations:
        return Path(spec.origin)
    for folder in spec.submodule_search_locations or ():
        place = Path(folder, *rest)
        for path in (place / "__init__.py", place.with_suffix(".py")):
            if path.is_file():
                return path
    return None


class Read(NamedTuple):
    """A parsed module.

    imports: all absolute names in its import statements that may be modules. digest: hash of its code without comments,
    docstrings and layout; of imports from its own project only the imported names count.
    """

    imports: frozenset[str]
    digest: str


def _read(name: str, path: Path) -> Read:
    status = path.stat()
    return _read_at(name, path, status.st_mtime_ns, status.st_size)


@functools.cache
def _read_at(name: str, path: Path, modified_ns: int, size: int) -> Read:
    """Collect the imports, and remove docstrings and imports, in one walk: parsing takes most of a plan's time."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    imports: set[str] = set()
    names: set[str] = set()
    tree = _parsed(path)
    waiting: list[tuple[ast.AST, bool]] = [(tree, True)]
    while waiting:
        node, runs = waiting.pop()  # runs: not below `if TYPE_CHECKING:`
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        if isinstance(node, ast.Constant) and _is_module(node.value):
            node.value = "a module"  # a module loaded by name is a root
        skipped = node.body if isinstance(node, ast.If) and ast.unparse(node.test) in CHECKING else ()
        for child in ast.iter_child_nodes(node):
            if runs and child not in skipped and isinstance(child, ast.Import | ast.ImportFrom):
                imports.update(_imported(child, package))
            waiting.append((child, runs and child not in skipped))
        for field, body in ast.iter_fields(node):
            if isinstance(body, list):
                ours = [child for child in body if isinstance(child, ast.ImportFrom) and _is_ours(child, package)]
                names.update(name for child in ours for name in _names(child, package))
                left = [child for child in body if child not in ours]
                setattr(node, field, left if left or not ours else [ast.Pass()])
    text = "\n".join([*sorted(names), "".join(_written(tree))])
    return Read(frozenset(imports), hashlib.sha256(text.encode()).hexdigest())


def _written(node: Any) -> Iterator[str]:
    """The text of a syntax tree, the same in all versions of Python, unlike `ast.dump` and `ast.unparse`."""
    if isinstance(node, ast.AST):
        yield f"{type(node).__name__}("
        for name, value in sorted(ast.iter_fields(node)):
            if isinstance(node, ast.JoinedStr) and name == "values":  # Python 3.12 adds empty texts
                value = [each for each in value if not (isinstance(each, ast.Constant) and each.value == "")]
            if value is not None and value != []:  # newer versions have further fields, empty in older code
                yield f"{name}="
                yield from _written(value)
        yield ")"
    elif isinstance(node, list):
        yield "["
        for each in node:
            yield from _written(each)
        yield "]"
    else:
        yield f"{node!r},"


def _is_module(value: Any) -> bool:
    """Whether a constant is the name of a module of the project."""
    ours = isinstance(value, str) and value.startswith(tuple(f"{package}." for package in PROJECT_PACKAGES))
    return ours and value.replace(".", "").isidentifier() and source_file(value) is not None


def _is_ours(node: ast.ImportFrom, package: str) -> bool:
    """Whether an import in a module of the package is from its own project, or from this one."""
    return _from(node, package).split(".")[0] in (*PROJECT_PACKAGES, package.split(".")[0])


def _names(node: ast.ImportFrom, package: str) -> Iterator[str]:
    """The names that a statement imports: of a module, which may move, the local name alone; else both names."""
    module = _from(node, package)
    for alias in node.names:
        called = alias.asname or alias.name
        yield called if source_file(f"{module}.{alias.name}") else f"{alias.name} as {called}"


def _from(node: ast.ImportFrom, package: str) -> str:
    """The absolute name of the module that a statement in a module of the package imports from."""
    module = node.module or ""
    if not node.level:
        return module
    base = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*base, module] if module else base)


def _imported(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[str]:
    """The names of one statement in a module of the package."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield (name := alias.name)
            while not alias.asname and (name := name.rpartition(".")[0]):  # binds the top package and its attributes
                yield name
        return
    module = _from(node, package)
    yield module
    for alias in node.names:  # submodules; other names have no file
        yield f"{module}.{alias.name}"


def _parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{path}:{getattr(error, 'lineno', None) or 1}: not Python ({error})") from None
