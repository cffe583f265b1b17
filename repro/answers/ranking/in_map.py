"""Where the papers' headlines lie in the map of strategies, in words; the page `recommend` has the map.

It does not import PyTorch: pages are built from the files that `repro map --out reports/recommend` writes.
"""

from __future__ import annotations

import math

from repro.answers.claims.stats import format_percent
from repro.answers.figures.looks import display_name
from repro.answers.ranking.candidates import PAYS, read_candidates
from repro.answers.ranking.cells import Placed
from repro.answers.ranking.written import read_written


def describe_headline(paper: str) -> str:
    """Sentences on where a paper's headline lies in the map and where its strategy pays; "" if it is not in the map."""
    headline = next((row for row in read_written(Placed, "headlines") if row.page == paper), None)
    if headline is None:
        return ""
    candidate, best = read_candidates()[headline.candidate], read_candidates()[headline.any].label
    options = ", ".join(f"{name} {value}" for name, value in candidate.options.items())
    strategy = candidate.label + (f" ({options})" if options else "")
    unsure = "" if candidate.ranked else ", by a form too far from its simulation to be ranked"
    first = (
        f"{strategy} is the fastest that is ranked"
        if headline.candidate == headline.any
        else f"{strategy} takes {1e3 * headline.seconds:,.0f} ms an iteration{unsure}; the fastest that is ranked, "
        f"{best}, takes {1e3 * headline.any_s:,.0f} ms, the fastest proven, "
        f"{read_candidates()[headline.synchronous].label}, {1e3 * headline.synchronous_s:,.0f} ms"
    )
    late = f", one worker late by {format_percent(headline.late)} of that in each iteration" if headline.late else ""
    pays = (
        f" {candidate.label} is at least {100 * PAYS:g} % faster than PyTorch's DistributedDataParallel "
        f"{describe_pays(headline.stops_bits)} (**simulated**, by closed forms)."
    )
    return (
        "By the [forms behind the map of strategies](recommend.md#the-papers-headlines-on-the-map), with the paper's "
        f"testbed and {display_name(headline.model)} ({headline.gbit:.3g} Gbit/s, {headline.workers} workers; "
        f"computation {headline.ratio:.2g} times as long as sending the gradient twice{late}): {first}."
        + (pays if candidate.ranked else "")
    )


def describe_pays(stops_bits: float | None) -> str:
    """The bandwidths at which a strategy pays. stops_bits: as in `Placed`."""
    if stops_bits is None:
        return "at no bandwidth"
    if math.isinf(stops_bits):
        return "at any bandwidth up to 400 Gbit/s"
    return f"up to {stops_bits / 1e9:.0f} Gbit/s"
