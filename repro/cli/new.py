"""`repro new`: write a working, tested skeleton of a strategy, model, data set, experiment or paper."""

from __future__ import annotations

import argparse
import importlib.util
import keyword
import re
from datetime import date
from pathlib import Path
from typing import Any

from repro.core.errors import InputError, cannot_access
from repro.core.user_files import check_target_folder

# a folder for each kind; in names and contents of its files NAME is the name, CAMEL the name in CamelCase, TODAY the
# date
SKELETONS = Path(__file__).parent / "skeletons"
KINDS = sorted(folder.name for folder in SKELETONS.iterdir())
NEXT = {
    "experiment": "repro run {out}/{name}.yaml && python -m pytest {out}",
    "paper": "pip install -e {out} && repro run {name} --draws 64; all steps: {out}/README.md",
}
PLUGIN = "pip install -e {out} && python -m pytest {out} && repro run pipesgd/fig4-mnist {kind}={name}"


def add_commands(commands: Any) -> None:
    new = commands.add_parser("new", help="write a tested skeleton of a strategy, model, data set, experiment or paper")
    new.add_argument("kind", choices=KINDS)
    new.add_argument("name", help="its name: a Python name in lower case, for instance my_topk")
    new.add_argument("--out", type=Path, help="folder for its files (default: a new folder NAME)")
    new.set_defaults(command=cmd_new)


def cmd_new(args: argparse.Namespace) -> None:
    check_name(args.kind, args.name)
    out = args.out or Path(args.name)
    check_target_folder("--out", out)
    for path in write_skeleton(args.kind, args.name, out):
        print(path)
    print(f"\nnext: {NEXT.get(args.kind, PLUGIN).format(kind=args.kind, name=args.name, out=out)}")


def check_name(kind: str, name: str) -> None:
    """InputError for a name that is invalid, or in use by Python or the harness."""
    from repro.core.registry import PLUGINS
    from repro.experiment.config import experiment_names

    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise InputError(f"name '{name}': must be small letters, digits and _, begin with a letter, and be no keyword")
    papers = {experiment.split("/")[0] for experiment in experiment_names()}
    if name in (PLUGINS[kind].names() if kind in PLUGINS else papers if kind == "paper" else ()):
        raise InputError(f"name '{name}': a {kind} of that name exists; choose another")
    if kind != "experiment" and importlib.util.find_spec(name):
        raise InputError(f"name '{name}': a Python module of that name exists; choose another")


def write_skeleton(kind: str, name: str, out: Path) -> list[Path]:
    """Write the skeleton's files below a folder, and return them; InputError, before writing, if one exists."""
    camel = "".join(part.capitalize() for part in name.split("_"))

    def filled(text: str) -> str:
        return text.replace("NAME", name).replace("CAMEL", camel).replace("TODAY", date.today().isoformat())

    root = SKELETONS / kind
    sources = [path for path in sorted(root.rglob("*")) if path.is_file() and path.suffix != ".pyc"]
    files = {out / filled(str(path.relative_to(root))): filled(path.read_text(encoding="utf-8")) for path in sources}
    if existing := next((path for path in files if path.exists()), None):
        raise InputError(f"{existing}: exists; choose another name, or another folder by --out")
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise cannot_access("write", out, error) from None
    return list(files)
