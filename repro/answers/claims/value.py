"""The schema of a claim's `value`: how our number is computed from runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from repro.answers.tables.columns import Filter
from repro.core.fields import Model, Text


class Value(Model):
    """How our number is computed, one a seed: by a verb on the rows that the filters `of` and `over` choose, or by one
    of the paper's own functions (`function`, with its arguments).

    value: `of`; best: the greatest `of` over seeds; ratio: `of` / `over`; speedup: `over` / `of`; difference: `of` -
    `over`; reduction: 1 - `of` / `over`; gain: `of` / `over` - 1; at_least: 1 where `of` >= `over`, else 0; outside:
    the distance of `of` from the range of `over`'s variants. `of` and `over` may themselves have a verb.
    each: compute the number for each value of these columns (for all that `of` lists, if it does) and let `take` choose
    one; `farthest`: from 1. Without `each`, `take` chooses the variant by its median over seeds, where a filter matches
    several. phases: read breakdown runs, where there are any. column: a column of the table, or arithmetic on several
    (`repro.answers.tables.columns`). table: `runs`, or `rows` for the results of probes.
    """

    part = "value"

    verb: (
        Literal["value", "best", "ratio", "speedup", "difference", "reduction", "gain", "at_least", "outside"] | None
    ) = None
    function: Text | None = None  # instead of a verb
    arguments: dict[str, Any] = Field(default_factory=dict)
    table: Literal["runs", "rows"] = "runs"
    column: Text | None = None
    of: Side = Field(default_factory=dict)
    over: Side | None = None
    each: list[Text] = Field(default_factory=list)
    take: Literal["min", "max", "mean", "median", "farthest"] = "min"
    phases: bool = False

    @model_validator(mode="before")
    @classmethod
    def _with_arguments(cls, entry: Any) -> Any:
        """In `{function: speedup, over: D-Sync}`, entries beside `function` are its arguments."""
        if isinstance(entry, dict) and "function" in entry:
            return {"function": entry["function"], "arguments": {k: v for k, v in entry.items() if k != "function"}}
        return entry

    @model_validator(mode="after")
    def _one_way(self) -> Value:
        if (self.verb is None) == (self.function is None):
            raise ValueError("needs verb or function, and not both")
        if self.verb and any(column is None for column, _ in self.sides):
            raise ValueError(f"{self.verb} needs column")
        if self.verb and (self.verb in ("value", "best")) != (self.over is None):
            raise ValueError(f"{self.verb} {'has no over' if self.over else 'needs over'}")
        return self

    @property
    def sides(self) -> list[tuple[str | None, Filter]]:
        """The column and filter of every side of the verb, and of verbs within it."""
        sides = (side for side in (self.of, self.over) if side is not None)
        return [each for s in sides for each in (s.sides if isinstance(s, Value) else [(self.column, s)])]

    @property
    def chooses(self) -> set[str]:
        """The columns that choose rows."""
        inner = (side for side in (self.of, self.over) if isinstance(side, Value))
        return {*self.each, *(name for _, where in self.sides for name in where)}.union(
            *(side.chooses for side in inner)
        )


Side = Annotated[
    Annotated[Value, Tag("verb")] | Annotated[Filter, Tag("rows")],
    Discriminator(lambda side: "verb" if isinstance(side, Value) or "verb" in side else "rows"),
]
