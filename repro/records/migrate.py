"""Records of an older schema, brought to today's: one step a schema, each tested; a step never changes a number.

Schema 2 calls a run `run`, a variant `variant` and an experiment `experiment`, in summaries, in what probes found and
in configurations; schema 1 had `cell`, `setting` and `figure`.

    python -m repro.records.migrate [FOLDER]    rewrite the tables of a reference (results/reference) in today's schema
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

SCHEMA = 2
PLACES = ("variants", "rows")  # of a probe's result: lists whose entries name a variant


def summary(old: Any) -> Any:
    """A summary as today's schema has it; what is none is left alone."""
    if not isinstance(old, dict) or old.get("schema", 1) != 1:
        return old
    new = _renamed(old, {"cell": "run", "setting": "variant"}) | {"schema": SCHEMA}
    new["program"] = new.get("program", "train")
    if isinstance(result := new.get("result"), dict):
        result = _renamed(result, {"settings": "variants"})
        of_variants = {name: result[name] for name in PLACES if isinstance(result.get(name), list)}
        renamed = {name: [_renamed(row, {"setting": "variant"}) for row in rows] for name, rows in of_variants.items()}
        new["result"] = result | renamed
    return new


def config(old: Any) -> Any:
    """The resolved configuration of a run of schema 1."""
    new = _renamed(old, {"figure": "experiment", "setting": "variant"})
    if isinstance(new, dict):
        new.pop("settings", None)  # what there was before an experiment had a grid
    return new


def _renamed(old: Any, names: dict[str, str]) -> Any:
    return {names.get(name, name): value for name, value in old.items()} if isinstance(old, dict) else old


def main(folder: Path) -> None:
    """Rewrite the tables of each paper in a reference."""
    from repro.records import reference

    for paper in reference.papers(folder):
        runs = reference.read(paper, folder)
        print(f"{reference.write(paper, runs, folder)}: {len(runs)} runs")


if __name__ == "__main__":
    from repro.core.paths import reference_root

    main(Path(sys.argv[1]) if sys.argv[1:] else reference_root())
