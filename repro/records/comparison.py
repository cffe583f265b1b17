"""Tables that compare variants: iteration times, times to targets and scores, and ratios between variants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from repro.core.errors import some_of
from repro.core.terminal import one_line
from repro.records import printed
from repro.records.busy import taken_by_others
from repro.records.run_columns import TARGET
from repro.records.variants import PLACE_COLUMNS, SIZE_COLUMNS, newest_rows

if TYPE_CHECKING:
    import pandas as pd

NAMES = ["variant", "variant_name", "strategy"]  # columns by which a side of `compare` is chosen
NONE = float("nan")  # in a column of texts; a table shows it as `-`
NOTES = "notes"  # an attribute of a table: notes on its runs
Numbers = Mapping[str, float]  # column -> the paper's number


def tabulate_ending(
    mine: pd.DataFrame, reference: pd.DataFrame, papers: Mapping[str, Numbers] | None = None
) -> list[tuple[str, pd.DataFrame]]:
    """A title and a table for each place: a row a variant and configuration, medians over seeds.

    mine, reference: tables `runs` of `repro.records.tables`, built together. `ms`: of an iteration; `range`: of its
    seeds; `over`: of several rows the first one's time of a sample over this row's; `busy`: what others took of the
    machine meanwhile; `ms, reference`: the iteration of the committed runs of the same place, variant and
    configuration. papers: name of a run -> the paper's numbers for it, in the columns `final`, `ms` and `over VARIANT`,
    each shown beside ours where we have one.
    """
    tables = []
    known = _medians(reference, PLACE_COLUMNS).droplevel("variant")["ms"].to_dict() if len(reference) else {}
    for place, group in _medians(mine, PLACE_COLUMNS).groupby(PLACE_COLUMNS, sort=False):
        rows = group.reset_index([*PLACE_COLUMNS, "configuration", "variant_name"]).rename_axis(None)
        paper, experiment, model, dataset, testbed, kind, scale = place
        printed = [(papers or {}).get(run, {}) for run in rows["run"]]
        table = rows[["seeds", "ms"]].copy()
        if (rows["seeds"] > 1).any():
            table["range"] = rows["range"]
        _beside(table, "ms", printed)
        sample = rows["ms"] / rows["batch"]
        first = {variant: i for i, variant in reversed(list(enumerate(rows["variant_name"])))}
        compared = (name for numbers in printed for name in numbers if name.startswith("over "))
        own = rows["variant_name"].iloc[:1] if len(rows) > 1 else ()  # alone it is 1 by definition
        bases = [*own, *(name.removeprefix("over ") for name in compared)]
        for base in [base for base in dict.fromkeys(bases) if base in first]:
            table[f"over {base}"] = sample.iloc[first[base]] / sample
            _beside(table, f"over {base}", printed)
        for target in [column for column in _targets(rows) if (rows[column] < math.inf).any()][-1:]:
            unit, by = ("ms", 1e3) if (rows[target] < 1).any() else ("s", 1)
            table[f"{unit} to {target.removeprefix(TARGET).removesuffix('_s')}"] = rows[target] * by
        table["final"] = rows["final"]
        if rows["final"].notna().any():
            _beside(table, "final", printed)
        places = zip(rows["variant_name"], rows["configuration"], strict=True)
        table["busy"] = rows["busy"]
        table["ms, reference"] = [known.get((*place, *which)) for which in places]
        title = f"{paper}/{experiment}: {model}, {dataset}, on {testbed} ({kind}, {scale})"
        table = table.dropna(axis=1, how="all")
        free = dict.fromkeys(rows["variant_name"][rows["free_arithmetic"]])
        costs_nothing = [f"the arithmetic of {', '.join(free)} costs nothing here (repro price)"] if free else []
        shared = sorted({*rows["shared"].dropna()})
        not_a_cluster = [f"{' and '.join(shared)}, so that times are not a cluster's"] if shared else []
        table.attrs[NOTES] = [*not_a_cluster, *costs_nothing]
        tables.append((title, table))
    return tables


def _beside(table: pd.DataFrame, column: str, printed: Sequence[Numbers]) -> None:
    table[f"{column}, paper"] = [numbers.get(column) for numbers in printed]


def compare(runs: pd.DataFrame, first: str, second: str) -> pd.DataFrame:
    """A row for each place and pair of runs that differ only in their strategy: medians over seeds with their range,
    and the first one's time over the second's.

    A name is that of a variant or a strategy; each of its configurations has a row. Two configurations without such a
    partner, such as with learning rates of their own, form a row too; their labels say how they differ. An empty table
    says why in its attribute NOTES.
    """
    import pandas as pd

    place = [*PLACE_COLUMNS, *SIZE_COLUMNS]

    def side(name: str) -> pd.DataFrame:
        return _medians(runs[(runs[NAMES] == name).any(axis=1)], place).reset_index()

    sides = side(first), side(second)
    both = pd.merge(*sides, on=place, suffixes=(" A", " B"))
    both = both[both["variant_name A"] != both["variant_name B"]]
    both = both[_partners(both, place)]
    columns = [*place, *(f"{column} {side}" for column in ("variant", "ms", "range") for side in "AB")]
    shown = both[[*columns, "final A", "final B"]]
    shown.insert(len(columns), "A / B", shown["ms A"] / shown["ms B"])
    shared = zip(both["shared A"], both["shared B"], strict=True)
    busy = zip(both["busy A"], both["busy B"], strict=True)
    warned = zip(both["warned A"], both["warned B"], strict=True)
    for column, pairs in (("cores", shared), ("busy", busy), ("warnings", warned)):
        shown[column] = [
            "; ".join(dict.fromkeys(each for each in pair if isinstance(each, str))) or NONE for pair in pairs
        ]
    shown.attrs[NOTES] = [] if len(shown) else [_why_apart((first, second), sides, place)]
    return shown.reset_index(drop=True)


def no_pairs(why: str) -> pd.DataFrame:
    """What `compare` returns where no runs can be compared."""
    import pandas as pd

    empty = pd.DataFrame()
    empty.attrs[NOTES] = [why]
    return empty


def _why_apart(names: Sequence[str], sides: Sequence[pd.DataFrame], place: list[str]) -> str:
    """Why runs of two sides form no pair, by experiment."""
    if untimed := [name for name, side in zip(names, sides, strict=True) if side.empty]:
        return f"no run of {' or '.join(untimed)} has a time of an iteration"
    of_both = [dict(iter(side.groupby(["paper", "experiment"]))) for side in sides]
    reasons = []
    for paper, experiment in of_both[0].keys() & of_both[1].keys():
        first, second = (of_one[paper, experiment] for of_one in of_both)
        apart = [column for column in place if {*first[column]}.isdisjoint({*second[column]})]
        differ = [f"in {column} ({_values(first[column])}; {_values(second[column])})" for column in apart]
        same = "are of one variant" if {*first["variant_name"]} == {*second["variant_name"]} else ""
        how = f"differ {' and '.join(differ)}" if differ else same or "agree in no pair of configurations"
        reasons.append(f"in {paper}/{experiment} they {how}")
    return "; ".join(sorted(reasons)) or "no experiment has both"


def _values(column: pd.Series) -> str:
    return some_of([f"{value:g}" if isinstance(value, float) else value for value in sorted({*column.dropna()})]) or "-"


def _partners(both: pd.DataFrame, place: list[str]) -> pd.Series:
    """Whether a pair differs only in its strategy, or neither side has such a partner in its place."""
    fits = both["besides A"] == both["besides B"]
    sides = [both.set_index([*place, f"configuration {name}", f"variant_name {name}"]).index for name in "AB"]
    first, second = (side.isin(side[fits.to_numpy()]) for side in sides)
    return fits | ~(first | second)


def _targets(runs: pd.DataFrame) -> list[str]:
    """The columns of `runs` with the seconds to a target."""
    return [str(column) for column in runs if str(column).startswith(TARGET) and str(column).endswith("_s")]


def _medians(runs: pd.DataFrame, place: list[str]) -> pd.DataFrame:
    """Medians over seeds of training runs without breakdown, by place, variant and configuration, in the runs'
    order. Of several runs of one configuration and seed the newest counts, the workspace's before the reference's."""
    trained = runs[runs["step_s"].notna() & ~runs["breakdown"].astype(bool)]
    numbers = ["step_s", "final", *_targets(runs)]  # all null where no accuracy is computed
    named = [*place, "variant_name", "configuration", "variant", "besides", "seed", "batch", "origin", "finished_at",
             "run", "kind", "shared", "free_arithmetic", "warnings"]  # fmt: skip
    floats = [*numbers, "cpu_taken_share"]
    trained = trained[[*dict.fromkeys([*named, *floats])]].astype(dict.fromkeys(floats, "float64"))
    trained = newest_rows(trained, [*place, "variant_name", "configuration", "seed"])
    groups = trained.groupby([*place, "variant_name", "configuration", "variant"], sort=False)
    made = groups[numbers].median()
    made.insert(0, "seeds", groups["seed"].nunique())
    made.insert(1, "ms", 1e3 * made.pop("step_s"))
    ends = zip(groups["step_s"].min(), groups["step_s"].max(), groups.size(), strict=True)
    made["range"] = [f"{1e3 * low:.4g} to {1e3 * high:.4g}" if count > 1 else NONE for low, high, count in ends]
    made["shared"] = groups["shared"].first()
    most_taken = zip(groups["kind"].first(), groups["cpu_taken_share"].max(), strict=True)
    made["busy"] = [taken_by_others(kind, share) or NONE for kind, share in most_taken]
    texts = zip(made.index.get_level_values("variant"), groups["warnings"].first(), strict=True)
    made["warned"] = [f"{variant}: {text}" if isinstance(text, str) else NONE for variant, text in texts]
    made["besides"] = groups["besides"].first()
    made["run"] = groups["run"].first()
    made["free_arithmetic"] = groups["free_arithmetic"].any()
    if "batch" not in place:
        made["batch"] = groups["batch"].median().astype("float64")
    return made


def format_tables(rows: Sequence[tuple[str, pd.DataFrame]]) -> str:
    """The tables as text, under their titles and notes."""
    titles = ["; ".join([title, *table.attrs.get(NOTES, ())]) for title, table in rows]
    tables = (printed.text(table) for _, table in rows)
    return "\n\n".join(f"{one_line(title)}\n{text}" for title, text in zip(titles, tables, strict=True))
