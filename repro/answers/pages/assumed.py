"""The table of assumed inputs: what the draws of a paper's experiments were drawn from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from repro.answers.claims.drawn import Drawn
from repro.answers.claims.stats import DASH, format_number
from repro.core.fields import entry_at
from repro.core.input_names import describe_names


def assumed_inputs(paper: str, sweeps: Iterable[Drawn]) -> pd.DataFrame:
    """A row for each input with the same best guess and source: input, entry (the first that it sets), best guess,
    drawn (the least and the most of all draws, or the alternatives), experiments, source."""
    words = describe_names()
    drawn: dict[tuple[str, ...], list[Any]] = defaultdict(list)
    experiments: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for sweep in sweeps:
        identity = sweep.run.identity
        configured, sources = identity.model_dump(mode="json"), identity.testbed.options.get("inputs") or {}
        first: dict[str, list[tuple[str, Any]]] = defaultdict(list)
        for name, entries in (item for draw in sweep.draws for item in draw.values.items()):
            first[name].append(next(iter(entries.items())))
        for name, of_draws in first.items():
            entry = of_draws[0][0]
            source = _source(sources.get(name) or {}) or f"`repro show {paper}/EXPERIMENT --config`"
            row = (words.get(name, name), entry, _text(entry_at(configured, entry)), source)
            drawn[row] += [value for path, value in of_draws if path == entry]
            experiments[row].append(identity.experiment)
    return pd.DataFrame(
        [
            {"input": name, "entry": entry, "best guess": guess, "drawn": _ends(drawn[row])}
            | {"experiments": ", ".join(sorted({*experiments[row]})), "source": source}
            for row in sorted(drawn)
            for name, entry, guess, source in [row]
        ]
    )


def _source(entry: Mapping[str, Any]) -> str:
    """Where an input's range, or each of its hypotheses, comes from; "" if the record does not say."""
    if choices := entry.get("choices"):
        return "; ".join(f"{choice['weight']:g}: {choice['source']}" for choice in choices)
    return str(entry.get("source") or "")


def _ends(values: Sequence[Any]) -> str:
    distinct = list(dict.fromkeys(values))
    if len(distinct) <= 4 or not all(isinstance(value, int | float) for value in distinct):
        return ", ".join(sorted(map(_text, distinct)))
    return f"{_text(min(distinct))} to {_text(max(distinct))}"


def _text(value: Any) -> str:
    return format_number(value, 2) if isinstance(value, int | float) else DASH if value is None else str(value)
