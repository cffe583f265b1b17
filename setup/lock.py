"""The versions of every package that the project's requirements reach, as pip's constraints (`make lock`).

lock.py FILE   writes FILE from what is installed in the environment of the Python that runs it

A build's own label is left out (torch 2.13.0+cpu is torch==2.13.0), so that which build is installed stays the choice
of `setup/torch.sh`. What was built against the environment, Horovod, is none of the project's requirements.
"""

from __future__ import annotations

import platform
import sys
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

PROJECT = Path(__file__).resolve().parents[1]
HEADER = """\
# The versions with which the tests were run: Python {python}, {machine}, torch's CPU build.
# `make setup LOCKED=1` installs these, `make lock` writes them anew from .venv: run the tests first.
"""


def project_requirements(project: dict) -> list[Requirement]:
    """The dependencies of the project and of its tests."""
    return [Requirement(line) for line in [*project["dependencies"], *project["optional-dependencies"]["dev"]]]


def installed_versions(wanted: list[Requirement]) -> dict[str, str]:
    """Name -> installed version of what is wanted and of what that needs, in turn, on this platform."""
    versions: dict[str, str] = {}
    seen: set[str] = set()
    waiting = list(wanted)
    while waiting:
        requirement = waiting.pop()
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        package = metadata.distribution(requirement.name)
        versions[canonicalize_name(requirement.name)] = Version(package.version).public
        for line in package.requires or ():
            needed = Requirement(line)
            extras = requirement.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(needed)
    return versions


def too_new(names: Iterable[str], python: str) -> list[str]:
    """A line for each installed package that does not run on `python`, such as the oldest that the project admits."""
    needs = {name: metadata.metadata(name)["Requires-Python"] for name in names}
    return [
        f"{name} {metadata.version(name)} needs Python {need}"
        for name, need in needs.items()
        if python not in SpecifierSet(need or "")
    ]


def main(target: Path) -> None:
    with open(PROJECT / "pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    try:
        versions = installed_versions(project_requirements(project))
    except metadata.PackageNotFoundError as error:
        sys.exit(f"setup: {error.name} is not installed: `make setup` installs what pyproject.toml asks for")
    (oldest,) = SpecifierSet(project["requires-python"])
    for line in too_new(versions, f"{oldest.version}.0"):
        print(f"setup: {line}; the project admits {oldest.version}: install an older version", file=sys.stderr)
    header = HEADER.format(python=platform.python_version(), machine=f"{platform.system()} on {platform.machine()}")
    target.write_text(header + "".join(f"{name}=={versions[name]}\n" for name in sorted(versions)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
