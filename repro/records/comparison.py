"""Runs side by side: what a variant's iterations, targets and scores are, over those of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from repro.records.catalogue import REFERENCE, WORKSPACE

if TYPE_CHECKING:
    import pandas as pd

PLACE = ["paper", "experiment", "model", "dataset", "testbed", "kind", "scale"]  # of the variants of one table
SIZE = ["workers", "batch"]


Numbers = Mapping[str, Mapping[str, float]]  # column -> variant -> what the paper prints


def ending(
    own: pd.DataFrame, reference: pd.DataFrame, papers: Mapping[tuple[Any, ...], Numbers] | None = None
) -> list[tuple[str, pd.DataFrame]]:
    """A title and a table for each place of some runs: a row a variant, medians over seeds.

    own, reference: tables `runs` of `repro.records.tidy` with `paper`. `ms` is of an iteration; `over` the first
    variant's time of a sample over this one's; `ms, reference` what the committed runs of the same place and variant
    took. papers: (paper, experiment, model, data set) -> columns `final`, `ms` and `over VARIANT` as the paper prints
    them, each shown beside ours where we have one.
    """
    found = []
    committed = _medians(reference, PLACE)["ms"].to_dict() if len(reference) else {}
    for place, of in _medians(own, PLACE).groupby(PLACE, sort=False):
        rows = of.reset_index(PLACE, drop=True).rename_axis(None)
        paper, experiment, model, dataset, testbed, kind, scale = place
        printed = (papers or {}).get((paper, experiment, model, dataset), {})
        table = rows[["seeds", "ms"]].copy()
        _beside(table, "ms", printed)
        sample = rows["ms"] / rows["batch"]
        bases = [rows.index[0], *(name.removeprefix("over ") for name in printed if name.startswith("over "))]
        for base in [base for base in dict.fromkeys(bases) if base in rows.index]:
            table[f"over {base}"] = sample[base] / sample
            _beside(table, f"over {base}", printed)
        for target in [column for column in _targets(rows) if rows[column].notna().any()][-1:]:
            table[f"s to {target.removeprefix('to_').removesuffix('_s')}"] = rows[target]
        table["final"] = rows["final"]
        if rows["final"].notna().any():
            _beside(table, "final", printed)
        table["ms, reference"] = [committed.get((*place, variant)) for variant in rows.index]
        title = f"{paper}/{experiment}: {model}, {dataset}, on {testbed} ({kind}, {scale})"
        found.append((title, table.dropna(axis=1, how="all")))
    return found


def _beside(table: pd.DataFrame, column: str, printed: Numbers) -> None:
    table[f"{column}, paper"] = [printed.get(column, {}).get(variant) for variant in table.index]


def compare(runs: pd.DataFrame, first: str, second: str) -> pd.DataFrame:
    """A row a place where both have runs: medians over seeds, and the first one's time over the second's.

    A name is a variant's or a strategy's; of a strategy with several variants in one place each is a row.
    """
    import pandas as pd

    place = [*PLACE, *SIZE]

    def side(name: str) -> pd.DataFrame:
        mine = runs[(runs["variant"] == name) | (runs["strategy"] == name)]
        # yours counts where both have it
        mine = mine.sort_values("origin", key=lambda origin: origin.map({WORKSPACE: 0, REFERENCE: 1}), kind="stable")
        return _medians(mine.drop_duplicates([*place, "variant", "seed"]), place).reset_index()

    both = pd.merge(side(first), side(second), on=place, suffixes=(" A", " B"))
    columns = [*place, "variant A", "variant B", "ms A", "ms B", "final A", "final B"]
    both = both[both["variant A"] != both["variant B"]][columns]
    both.insert(len(columns) - 2, "A / B", both["ms A"] / both["ms B"])
    return both.reset_index(drop=True)


def _targets(runs: pd.DataFrame) -> list[str]:
    return [str(column) for column in runs if str(column).startswith("to_")]


def _medians(runs: pd.DataFrame, place: list[str]) -> pd.DataFrame:
    """Medians over seeds by place and variant, in the order of the runs; throughput runs of training alone."""
    trained = runs[runs["step_s"].notna() & ~runs["breakdown"].astype(bool)]
    numbers = ["step_s", "final", *_targets(runs)]  # nothing but nulls where no accuracy is computed
    trained = trained.astype(dict.fromkeys(numbers, "float64"))
    groups = trained.groupby([*place, "variant"], sort=False)
    made = groups[numbers].median()
    made.insert(0, "seeds", groups["seed"].nunique())
    made.insert(1, "ms", 1e3 * made.pop("step_s"))
    if "batch" not in place:
        made["batch"] = groups["batch"].median().astype("float64")
    return made


def text(table: pd.DataFrame, index: bool = True) -> str:
    """For a terminal; four digits of what is no whole number."""
    return table.to_string(index=index, na_rep="-", float_format=lambda value: f"{value:.4g}")


def of(rows: Sequence[tuple[str, pd.DataFrame]]) -> str:
    """The tables under their titles."""
    return "\n\n".join(f"{title}\n{text(table)}" for title, table in rows)
