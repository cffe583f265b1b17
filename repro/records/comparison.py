"""Runs side by side: what a variant's iterations, targets and scores are, over those of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

from repro.core.warnings import one_line
from repro.records import printed
from repro.records.catalogue import REFERENCE
from repro.records.kinds import MEASURED, PADDED

if TYPE_CHECKING:
    import pandas as pd

PLACE = ["paper", "experiment", "model", "dataset", "testbed", "kind", "scale"]  # of the variants of one table
SIZE = ["workers", "batch", "epochs"]
NONE = float("nan")  # in a column of texts: a table shows it as `-`
NOTES = "notes"  # an attribute of a table: what to know of its runs
CLUSTER = "srun"  # the launcher whose ranks are on several machines


Numbers = Mapping[str, Mapping[str, float]]  # column -> variant -> what the paper prints


def ending(
    own: pd.DataFrame, reference: pd.DataFrame, papers: Mapping[tuple[Any, ...], Numbers] | None = None
) -> list[tuple[str, pd.DataFrame]]:
    """A title and a table for each place of some runs: a row a configuration of a variant, medians over seeds.

    own, reference: tables `runs` of `repro.records.catalogue`, made together. `ms` is of an iteration, `range` that of
    its seeds; `over` the first row's time of a sample over this one's; `ms, reference` what the committed runs of the
    same place, variant and configuration took. papers: (paper, experiment, model, data set) -> columns `final`, `ms`
    and `over VARIANT` as the paper prints them, each shown beside ours where we have one.
    """
    found = []
    committed = _medians(reference, PLACE) if len(reference) else None
    known = {} if committed is None else committed.droplevel("label")["ms"].to_dict()
    for place, of in _medians(own, PLACE).groupby(PLACE, sort=False):
        rows = of.reset_index([*PLACE, "configuration", "variant"]).rename_axis(None)
        paper, experiment, model, dataset, testbed, kind, scale = place
        printed = (papers or {}).get((paper, experiment, model, dataset), {})
        table = rows[["seeds", "ms"]].copy()
        if (rows["seeds"] > 1).any():
            table["range"] = rows["range"]
        _beside(table, "ms", printed, rows)
        sample = rows["ms"] / rows["batch"]
        first = {variant: i for i, variant in reversed(list(enumerate(rows["variant"])))}
        bases = [rows["variant"].iloc[0], *(name.removeprefix("over ") for name in printed if name.startswith("over "))]
        for base in [base for base in dict.fromkeys(bases) if base in first]:
            table[f"over {base}"] = sample.iloc[first[base]] / sample
            _beside(table, f"over {base}", printed, rows)
        for target in [column for column in _targets(rows) if rows[column].notna().any()][-1:]:
            unit, by = ("ms", 1e3) if rows[target].max() < 1 else ("s", 1)
            table[f"{unit} to {target.removeprefix('to_').removesuffix('_s')}"] = rows[target] * by
        table["final"] = rows["final"]
        if rows["final"].notna().any():
            _beside(table, "final", printed, rows)
        places = zip(rows["variant"], rows["configuration"], strict=True)
        table["ms, reference"] = [known.get((*place, *which)) for which in places]
        title = f"{paper}/{experiment}: {model}, {dataset}, on {testbed} ({kind}, {scale})"
        table = table.dropna(axis=1, how="all")
        free = dict.fromkeys(rows["variant"][rows["free_arithmetic"]])
        costs_nothing = [f"the arithmetic of {', '.join(free)} costs nothing here (repro price)"] if free else []
        table.attrs[NOTES] = [*sorted({*rows["shared"].dropna()}), *costs_nothing]
        found.append((title, table))
    return found


def _beside(table: pd.DataFrame, column: str, printed: Numbers, rows: pd.DataFrame) -> None:
    table[f"{column}, paper"] = [printed.get(column, {}).get(variant) for variant in rows["variant"]]


def compare(runs: pd.DataFrame, first: str, second: str) -> pd.DataFrame:
    """A row a place where both have runs that differ in their strategy alone: medians over seeds with their range, and
    the first one's time over the second's.

    A name is a variant's or a strategy's; every configuration of one is a row. Where neither of two has a partner like
    that, as where each was given a learning rate of its own, they are set side by side, and their labels say how they
    differ.
    """
    import pandas as pd

    place = [*PLACE, *SIZE]

    def side(name: str) -> pd.DataFrame:
        return _medians(runs[(runs["variant"] == name) | (runs["strategy"] == name)], place).reset_index()

    both = pd.merge(side(first), side(second), on=place, suffixes=(" A", " B"))
    both = both[both["variant A"] != both["variant B"]]
    both = both[_partners(both, place)]
    columns = [*place, *(f"{column} {of}" for column in ("label", "ms", "range") for of in "AB")]
    shown = both[[*columns, "final A", "final B"]].rename(columns={f"label {of}": f"variant {of}" for of in "AB"})
    shown.insert(len(columns), "A / B", shown["ms A"] / shown["ms B"])
    shared = zip(both["shared A"], both["shared B"], strict=True)
    shown["cores"] = [
        "; ".join(dict.fromkeys(each for each in pair if isinstance(each, str))) or NONE for pair in shared
    ]
    return shown.reset_index(drop=True)


def _partners(both: pd.DataFrame, place: list[str]) -> pd.Series:
    """Which pairs differ in their strategy alone; and those of which neither side has such a partner in its place."""
    fits = both["besides A"] == both["besides B"]
    taken = [both[fits].set_index([*place, f"configuration {of}", f"variant {of}"]).index for of in "AB"]
    alone = [
        ~both.set_index([*place, f"configuration {of}", f"variant {of}"]).index.isin(taken[of == "B"]) for of in "AB"
    ]
    return fits | (alone[0] & alone[1])


def _targets(runs: pd.DataFrame) -> list[str]:
    return [str(column) for column in runs if str(column).startswith("to_")]


def _medians(runs: pd.DataFrame, place: list[str]) -> pd.DataFrame:
    """Medians over seeds by place, variant, configuration and label, in the order of the runs; throughput runs of
    training alone. Of several runs of one configuration and seed one counts: yours, and of these the latest."""
    trained = runs[runs["step_s"].notna() & ~runs["breakdown"].astype(bool)]
    numbers = ["step_s", "final", *_targets(runs)]  # nothing but nulls where no accuracy is computed
    machine = ["kind", "launcher", "ranks", "cores"]
    named = [*place, "variant", "configuration", "label", "besides", "seed", "batch", "origin", "finished_at", *machine]
    named.append("free_arithmetic")
    trained = trained[[*dict.fromkeys([*named, *numbers])]].astype(dict.fromkeys(numbers, "float64"))
    order = trained.assign(theirs=trained["origin"] == REFERENCE, at=trained["finished_at"].fillna("").astype(str))
    latest = order.sort_values(["theirs", "at"], ascending=[False, True], kind="stable")
    counted = latest.drop_duplicates([*place, "variant", "configuration", "seed"], keep="last").index
    trained = trained[trained.index.isin(counted)]
    machines = zip(*(trained[column] for column in machine), strict=True)
    trained = trained.assign(shared=[_shared(*each) for each in machines])
    groups = trained.groupby([*place, "variant", "configuration", "label"], sort=False)
    made = groups[numbers].median()
    made.insert(0, "seeds", groups["seed"].nunique())
    made.insert(1, "ms", 1e3 * made.pop("step_s"))
    ends = zip(groups["step_s"].min(), groups["step_s"].max(), groups.size(), strict=True)
    made["range"] = [f"{1e3 * low:.4g} to {1e3 * high:.4g}" if count > 1 else NONE for low, high, count in ends]
    made["shared"] = groups["shared"].first()
    made["besides"] = groups["besides"].first()
    made["free_arithmetic"] = groups["free_arithmetic"].any()
    if "batch" not in place:
        made["batch"] = groups["batch"].median().astype("float64")
    return made


def _shared(kind: str, launcher: str, ranks: Any, cores: Any) -> str | float:
    """`4 ranks share 2 cores`, of ranks that compute on one machine with less than one each; `NONE` of others."""
    counts = isinstance(ranks, Integral) and isinstance(cores, Integral)
    if kind not in (MEASURED, PADDED) or launcher == CLUSTER or not counts or ranks <= cores:
        return NONE
    return f"{ranks} ranks share {cores} core{'' if cores == 1 else 's'}"


def of(rows: Sequence[tuple[str, pd.DataFrame]]) -> str:
    """The tables under their titles, with what to know of their runs."""
    titles = ["; ".join([title, *table.attrs.get(NOTES, ())]) for title, table in rows]
    return "\n\n".join(
        f"{one_line(title)}\n{printed.text(table)}" for title, (_, table) in zip(titles, rows, strict=True)
    )
