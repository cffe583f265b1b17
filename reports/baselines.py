"""The page of what a user would pick instead: libraries beside our own strategies, the same experiment in one table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from repro.reports.page import Files, Part, Section, not_run

from repro.reporting.stats import DASH, TIMES, show, show_target, spread
from repro.reports import compute, groups
from repro.reports.groups import finished
from repro.reports.loading import Summary, load, origin
from repro.reports.render import template, write_page
from repro.reports.validation import commit

if TYPE_CHECKING:
    import pandas as pd

PAPER = "baselines"
TITLE = "Libraries side by side"
BASE = "D-Sync"
# experiment -> heading
EXPERIMENTS = {"side-by-side": "MNIST-MLP", "side-by-side-resnet20": "ResNet-20 on CIFAR-10"}


def build(results: Path | None, out: Path) -> tuple[list[Path], list[Path], str]:
    """(pages, other files, a line for the overview): the page under `out`."""
    found, files = load(PAPER, results), Files(PAPER, out)
    sections = [section(name, [s for s in found if s["experiment"] == name], files) for name in EXPERIMENTS]
    text = template("baselines.md.j2", title=TITLE, sections=[each.markdown() for each in sections])
    variants = list(dict.fromkeys(s["setting"] for s in found))
    line = (
        f"{', '.join(variants)}: the same runs in one table." if variants else "No results yet: `repro run baselines`."
    )
    return write_page(text, PAPER, out, files.written), files.written, line


def section(name: str, found: Sequence[Summary], files: Files) -> Section:
    """A table a testbed."""
    made = Section(EXPERIMENTS[name])
    if not found:
        made.text = not_run(f"{PAPER}/{name}")
    for i, runs in enumerate(together(found)):
        first = runs[0]
        text = (
            f"**{first['kind']}** on {first['testbed']} ({first['hardware']['network']}), "
            f"{first['hardware']['class']}; {first['dataset']['name']}, {first['model']['name']}, {first['workers']} "
            f"workers, global batch {first['batch']}, {first['epochs']:g} epochs, scale {first.get('scale')}; "
            f"{origin(runs)}, commit {', '.join(sorted({commit(c) for c in runs}))}, "
            f"{max(map(finished, runs))[:10]}."
        )
        table = files.table(rows(runs), f"{name}-{i}", ["setting", "launcher, fabric", "options"])
        made.parts.append(Part(f"{first['testbed']}", tables=[(text, table)]))
    return made


def together(found: Sequence[Summary]) -> list[list[Summary]]:
    """Runs that may stand in one table: everything equal but strategy and launcher; of each variant the latest."""

    def place(one: Summary) -> tuple:
        key = list(groups.key_of(one))
        key.remove(one["launcher"])
        return tuple(map(str, key))

    tables: dict[tuple, dict[tuple, Summary]] = {}
    for one in sorted((s for s in found if not s["breakdown"]), key=finished):
        tables.setdefault(place(one), {})[(one["setting"], one["seed"])] = one
    return [sorted(runs.values(), key=lambda c: (c["strategy"], c["setting"])) for _, runs in sorted(tables.items())]


def rows(runs: Sequence[Summary]) -> pd.DataFrame:
    """A row a variant."""
    import pandas as pd

    of = {name: [c for c in runs if c["setting"] == name] for name in dict.fromkeys(c["setting"] for c in runs)}
    base = spread(c["step"]["mean_s"] for c in of.get(BASE, [])).median
    targets = sorted({goal for c in runs for goal in c["targets"]}, key=float)
    made = []
    for name, mine in of.items():
        first = mine[0]
        step = spread(c["step"]["mean_s"] for c in mine)
        line = {
            "setting": name,
            "launcher, fabric": f"{first['launcher']}, {first['fabric']}",
            "seeds": len(mine),
            f"final {first['metric']}": show(spread(map(compute.final, mine)), decimals=4, seeds=False),
            "iteration (ms)": show(spread(1e3 * c["step"]["mean_s"] for c in mine), seeds=False),
            f"over {BASE}": f"{base / step.median:.2f}{TIMES}" if base == base else DASH,
            "exposed comm. (ms)": show(spread(1e3 * c["communication"]["exposed_s"] for c in mine), seeds=False),
            "sent (kB)": f"{spread(c['bytes_sent'] for c in mine).median / 1e3:,.0f}",
        }
        for goal in targets:
            line[f"to {goal} (s)"] = show_target([compute.target_s(c, goal) for c in mine if goal in c["targets"]])
        made.append(line)
    return pd.DataFrame(made).astype(str)
