"""The ring probe's tables: time of each variant of the allreduce, and what compression inside it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repro.reporting.stats import DASH, TIMES, Spread, number, show, spread
from repro.reports.loading import Summary
from repro.reports.probes import ProbeGroup

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd


def variants(group: ProbeGroup) -> pd.DataFrame:
    """A row a world size, testbed and variant: milliseconds of one allreduce, its parts, and the closed form's."""
    import pandas as pd

    rows = []
    for runs in _places(group):
        names = list(dict.fromkeys(v["name"] for run in runs for v in run["result"]["variants"]))
        for name in names:
            some = [v for run in runs for v in run["result"]["variants"] if v["name"] == name]
            closed = [v["closed_form_s"] for v in some if v["closed_form_s"] is not None]
            seconds = _over_runs(v["seconds"] for v in some)
            rows.append(
                {
                    "kind": group.kind, "ranks": runs[0]["workers"], "testbed": runs[0]["testbed"], "ring": name,
                    "codec": some[0]["codec"], "MB": number(some[0]["bytes"] / 1e6),
                    "allreduce (ms)": _ms(seconds),
                    "communicating (ms)": _ms(spread(v["communication_s"] for v in some)),
                    "work on blocks (ms)": _ms(spread(v["work_s"] for v in some)),
                    "of both at once (ms)": _ms(spread(v["overlapped_s"] for v in some)),
                    "closed form (ms)": number(1e3 * closed[0], 4) if closed else DASH,
                    "seeds": len({run["seed"] for run in runs}),
                }
            )  # fmt: skip
    return pd.DataFrame(rows).astype(str)


def overheads(group: ProbeGroup) -> pd.DataFrame:
    """A row a world size, testbed, benchmark and codec: work / communication, uncompressed and compressed."""
    import pandas as pd

    rows = []
    for runs in _places(group):
        entries = [entry for run in runs for entry in run["result"]["overheads"]]
        for benchmark, codec in dict.fromkeys((entry["benchmark"], entry["codec"]) for entry in entries):
            some = [e for e in entries if (e["benchmark"], e["codec"]) == (benchmark, codec)]
            rows.append(
                {
                    "kind": group.kind, "ranks": runs[0]["workers"], "testbed": runs[0]["testbed"],
                    "benchmark": benchmark, "codec": codec, "MB": number(some[0]["bytes"] / 1e6),
                    "work (ms)": _ms(spread(e["work_s"] for e in some)),
                    "communication, uncompressed (ms)": _ms(spread(e["communication_uncompressed_s"] for e in some)),
                    "communication, compressed (ms)": _ms(spread(e["communication_compressed_s"] for e in some)),
                    "work / uncompressed": _ratio(some, "per_uncompressed"),
                    "work / compressed": _ratio(some, "per_compressed"),
                }
            )  # fmt: skip
    return pd.DataFrame(rows).astype(str)


def _places(group: ProbeGroup) -> Iterator[list[Summary]]:
    """The runs of each world size and testbed, their seeds together."""
    places = dict.fromkeys((run["workers"], run["testbed"]) for run in group.summaries)
    for workers, testbed in sorted(places):
        yield [run for run in group.summaries if (run["workers"], run["testbed"]) == (workers, testbed)]


def _over_runs(found) -> Spread:
    """The median over seeds; the spread is that of the repetitions, too."""
    found = list(found)
    middle = spread(one["median"] for one in found)
    low, high = min(one["min"] for one in found), max(one["max"] for one in found)
    return Spread(middle.median, low, high, middle.n, "min-max of repetitions") if found else middle


def _ms(found: Spread) -> str:
    scaled = Spread(1e3 * found.median, 1e3 * found.low, 1e3 * found.high, max(2, found.n), found.interval)
    return show(scaled, 4, seeds=False) if found.n else DASH


def _ratio(entries: list[dict], key: str) -> str:
    return show(spread(e[key] for e in entries if e[key] is not None), seeds=False, unit=TIMES)
