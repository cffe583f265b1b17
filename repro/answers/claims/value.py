"""How ours is computed from the runs, as a claim says it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from repro.answers.tables.columns import Filter
from repro.core.fields import Model, Text


class Value(Model):
    """How ours is computed, a number a seed: by a verb on the rows that `of` and `over` choose of the runs, or by a
    named function of the paper's own (`function`, with its arguments).

    value: of's; best: that of the seed where it is greatest; ratio: of's to over's; speedup: over's to of's;
    difference: of's less over's; reduction: the share of over's that of has less; gain: by which share of over's that
    of has more; at_least: 1 where of's is not below over's, else 0; outside: how far of's lies outside of the range of
    the variants of over. `of` and `over` may themselves be of a verb.
    `each`: the number is computed apart for each value of these columns (for all that `of` lists, if it does), and of
    these is taken what `take` says; `farthest`: from 1. Without it `take` is which variant, where `of` or `over`
    chooses several, by its median over seeds. `phases`: of the breakdown runs, where there are any. column: one of the
    table, or arithmetic on several (`repro.answers.tables.columns`). table: `runs`, or `rows`: what probes found.
    """

    part = "value"

    verb: (
        Literal["value", "best", "ratio", "speedup", "difference", "reduction", "gain", "at_least", "outside"] | None
    ) = None
    function: Text | None = None  # instead
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
    def _with_arguments(cls, given: Any) -> Any:
        """`{function: speedup, over: D-Sync}`: what stands beside a function are its arguments."""
        if isinstance(given, dict) and "function" in given:
            return {"function": given["function"], "arguments": {k: v for k, v in given.items() if k != "function"}}
        return given

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
        """Column and filter of all that a verb's number is computed from."""
        found: list[tuple[str | None, Filter]] = []
        for side in (self.of, self.over):
            if side is not None:
                found += side.sides if isinstance(side, Value) else [(self.column, side)]
        return found

    @property
    def chooses(self) -> set[str]:
        """The columns by which it chooses rows."""
        inner = (side for side in (self.of, self.over) if isinstance(side, Value))
        return {*self.each, *(name for _, of in self.sides for name in of)}.union(*(side.chooses for side in inner))


Side = Annotated[
    Annotated[Value, Tag("verb")] | Annotated[Filter, Tag("rows")],
    Discriminator(lambda given: "verb" if isinstance(given, Value) or "verb" in given else "rows"),
]
