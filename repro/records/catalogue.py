"""Every finished run that can be shown: those of the workspace and those of the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from repro.core import safe_files, yaml_files
from repro.core.errors import InputError
from repro.core.paths import reference_root, results_root
from repro.records import identity, reference, tidy
from repro.records.store import run_dir, run_folders, usable_summary

if TYPE_CHECKING:
    import pandas as pd

REFERENCE, WORKSPACE = "reference", "workspace"
# runs that are the same in these look alike in a table
PLACE = ("paper", "experiment", "variant", "testbed", "kind", "scale", "breakdown")


class Found(NamedTuple):
    """A run: where it is from, the file that holds it, its summary; and its resolved configuration, where that is in
    the same file."""

    origin: str
    path: Path
    summary: dict[str, Any]
    config: Mapping[str, Any] | None = None


def runs(paper: str, root: Path | None = None) -> list[Found]:
    """The finished runs of a paper, in the order of experiments and names.

    root: a results folder, or the reference, to be read alone; None: the workspace and the reference. A run of the
    workspace takes the place of the same run (variant, testbed, seed and key) in the reference. A run of the workspace
    whose summary cannot be read is left out, with a warning.
    """
    found = {}
    if root in (None, reference_root()):
        table = reference_root() / paper / "runs.parquet"
        found = {tidy.name(run.summary): Found(REFERENCE, table, *run) for run in reference.read(paper)}
    for folder in run_folders(root or results_root(), paper) if root != reference_root() else ():
        if summary := usable_summary(folder):
            named = {"run": folder.name} | summary
            found["/".join(folder.parts[-2:])] = Found(WORKSPACE, folder / "summary.json", named)
    return [found[name] for name in sorted(found)]


def of_workspace(summary: dict[str, Any]) -> Found:
    """A run of this workspace by its summary."""
    folder = run_dir(summary["paper"], summary["experiment"], summary["run"])
    return Found(WORKSPACE, folder / "summary.json", summary)


def configuration(found: Found) -> Mapping[str, Any]:
    """A run's resolved configuration; empty where there is none that can be read."""
    if found.config is not None:
        return found.config
    if found.origin != WORKSPACE or found.path is None:
        return {}
    try:
        with safe_files.open_file(found.path.with_name("config.yaml")) as file:
            read = yaml_files.parse_plain(file.read(yaml_files.MOST_BYTES + 1))
    except (OSError, ValueError, InputError, yaml.YAMLError):
        return {}
    return read if isinstance(read, dict) else {}


def identities(found: Sequence[Found]) -> list[identity.Identity]:
    """The identity of each run, comparable with those of the same experiment."""
    own = [identity.of(each.summary, configuration(each)) for each in found]
    places: dict[tuple[Any, ...], list[int]] = {}
    for i, each in enumerate(found):
        places.setdefault((each.summary.get("paper"), each.summary.get("experiment")), []).append(i)
    for those in places.values():
        for i, whole in zip(those, identity.completed([own[i] for i in those]), strict=True):
            own[i] = whole
    return own


def table(which: str, found: Sequence[Found]) -> pd.DataFrame:
    """One of the tables of these runs (`repro.records.tidy`); each row says first where it is from, and whose.

    Of `runs` each row says last how many cores its hardware has (`cores`), with `label` where it is not as its
    experiment has it, or what tells it from others that would have the same label, and which configuration it has:
    `configuration`, a digest, and `besides`, the same of all but its strategy and what that may need
    (`identity.STRATEGY`).
    """
    rows = [
        [{"origin": each.origin, "paper": each.summary["paper"]} | row for row in tidy.rows(which, each.summary)]
        for each in found
    ]
    if which == "runs":
        for of_run, more in zip(rows, _identified(found), strict=True):
            of_run[0] |= more
    return tidy.frame([row for of_run in rows for row in of_run])


def _identified(found: Sequence[Found]) -> list[dict[str, Any]]:
    own = identities(found)
    digests = [identity.digest(each) for each in own]
    places = [tuple(each.summary.get(name) for name in PLACE) for each in found]
    changes: dict[tuple[Any, ...], dict[str, None]] = {}  # by configuration, for older runs of it do not say them
    for run, place, digest in zip(found, places, digests, strict=True):
        changes.setdefault((*place, digest), {}).update(dict.fromkeys(identity.changes(configuration(run))))
    paths = [[*changes[*place, digest]] for place, digest in zip(places, digests, strict=True)]
    names = [str(run.summary.get("variant")) for run in found]
    alike: dict[tuple[Any, ...], list[int]] = {}
    for i, (place, name) in enumerate(zip(places, names, strict=True)):
        alike.setdefault((*place, identity.label(name, own[i], paths[i])), []).append(i)
    for those in alike.values():
        apart = identity.differing([own[i] for i in those])
        for i in those:
            paths[i] = [*dict.fromkeys([*paths[i], *apart])]
    made = []
    for i, run in enumerate(found):
        besides = identity.digest(own[i], without=identity.STRATEGY)
        cores = (run.summary.get("hardware") or {}).get("cores")
        label = identity.label(names[i], own[i], paths[i])
        made.append({"label": label, "configuration": digests[i], "besides": besides, "cores": cores})
    return made
