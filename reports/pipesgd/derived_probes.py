"""What Pipe-SGD's claims need of the probes: the timing model, compression inside the ring, rates of convergence.

These functions take a ProbeGroup: runs of one experiment, kind and place, of several models, world sizes and testbeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from repro.reporting.evaluate import Outcome
from repro.reporting.evaluate import ratio as _ratio
from repro.reporting.stats import TIMES, number, spread
from repro.reports.compute import probe_function
from repro.reports.compute_timing import _range, by_seed, median
from repro.reports.loading import Summary
from repro.reports.probes import ProbeGroup, bandwidth, model

Entry = dict[str, Any]  # an entry of a timing result's `settings`


def entries(runs: list[Summary], variant: str | None = None) -> Iterator[tuple[Summary, Entry]]:
    """(run, entry) of every variant of timing runs, or of one variant."""
    for run in runs:
        for entry in run["result"]["settings"]:
            if variant is None or entry["setting"] == variant:
                yield run, entry


def computing(entry: Entry) -> float:
    """l_up + l_comp of equation (4)."""
    return entry["terms"]["l_up"] + entry["terms"]["l_comp"]


def compute_bound(entry: Entry) -> bool:
    """Does the prediction say that computation hides communication: l_up + l_comp >= l_comm?"""
    return computing(entry) >= entry["terms"]["l_comm"]


def segments(entry: Entry) -> int:
    """L of equation (6): in how many pieces the gradient is communicated."""
    return int(entry["options"].get("segments") or 1)


def dependency(entry: Entry) -> int:
    """K: 2 of Pipe-SGD unless said otherwise, 1 of everything synchronous."""
    return int(entry["options"].get("K", 2)) if entry["strategy"] == "pipe_sgd" else 1


def where(run: Summary) -> str:
    """`MNIST-MLP, p = 4` and, simulated, the testbed."""
    place = f", {run['testbed']}" if run["kind"] == "simulated" else ""
    return f"{model(run)}, p = {run['workers']}{place}"


# --- sequential against pipelined gradient communication (equations (5) and (6))


def communication_pairs(runs: list[Summary], K: int = 2) -> list[tuple[Summary, Entry, Entry]]:
    """(run, entry with L = 1, fastest entry with L > 1) of Pipe-SGD with this K, a codec at a time."""
    pairs = []
    for run in runs:
        by_codec: dict[str, list[Entry]] = {}
        for entry in run["result"]["settings"]:
            options = entry["options"]
            if entry["strategy"] == "pipe_sgd" and dependency(entry) == K and not options.get("staleness_lr"):
                by_codec.setdefault(str(options.get("codec", "none")), []).append(entry)
        for some in by_codec.values():
            whole = [entry for entry in some if segments(entry) == 1]
            parts = [entry for entry in some if segments(entry) > 1]
            if whole and parts:
                pairs.append((run, whole[0], min(parts, key=lambda entry: entry["observed_s"]["median"])))
    return pairs


def pipelined_over_sequential(pair: tuple[Summary, Entry, Entry]) -> float:
    """Step time of the fastest L > 1 / that of L = 1."""
    return _ratio(pair[2]["observed_s"]["median"], pair[1]["observed_s"]["median"])


@probe_function("timing")
def sequential_over_pipelined(group: ProbeGroup, network: str | None = None) -> Outcome:
    """Step time of the best L > 1 / that of L = 1, K = 2, where communication is the bound: median over those runs.

    Above 1: sequential gradient communication is faster. network: only this testbed.
    """

    def wanted(runs: list[Summary]) -> list[Summary]:
        return [run for run in runs if network in (None, run["testbed"])]

    def ratios(runs: list[Summary]) -> list[float]:
        return [
            pipelined_over_sequential(pair) for pair in communication_pairs(wanted(runs)) if not compute_bound(pair[1])
        ]

    every = ratios(list(group.summaries))
    return by_seed(
        group,
        lambda runs: median(ratios(runs)),
        "no communication-bound run with L = 1 and L > 1" + (f" on {network}" if network else ""),
        f"{_range(every, TIMES)} over {len(every)} communication-bound runs; {turning_point(group)}" if every else "",
    )


ROUNDING = 1e-6  # simulated times that are equal differ by less


def turning_point(group: ProbeGroup) -> str:
    """Where pipelined gradient communication becomes the faster one, from slow networks to fast."""
    pairs = sorted(communication_pairs(list(group.summaries)), key=lambda pair: bandwidth(pair[0]))
    faster = [pair for pair in pairs if pipelined_over_sequential(pair) < 1 - ROUNDING]
    if not faster:
        return "pipelined is faster nowhere"
    places = list(dict.fromkeys(f"{where(run)} (L = {segments(part)})" for run, _, part in faster))
    more = f" and {len(places) - 4} more" if len(places) > 4 else ""
    bound = sum(compute_bound(whole) for _, whole, _ in faster)
    return f"pipelined is faster at {'; '.join(places[:4])}{more}: {bound} of {len(faster)} compute bound"


# --- the timing model


@probe_function("timing")
def scaling_efficiency(group: ProbeGroup, setting: str) -> Outcome:
    """Observed efficiency (7) at the largest world size where the prediction says compute bound; median over models."""

    def largest(runs: list[Summary]) -> list[tuple[Summary, Entry]]:
        bound = [(run, entry) for run, entry in entries(runs, setting) if compute_bound(entry)]
        top = max((run["workers"] for run, _ in bound), default=0)
        return [(run, entry) for run, entry in bound if run["workers"] == top]

    places = dict.fromkeys(where(run) for run, _ in largest(list(group.summaries)))
    return by_seed(
        group,
        lambda runs: median(
            entry["efficiency_observed"] for _, entry in largest(runs) if entry["efficiency_observed"] is not None
        ),
        f"{setting} is predicted compute bound at no world size",
        f"at {'; '.join(places)}",
    )


@probe_function("timing")
def model_error(group: ProbeGroup, setting: str | None = None) -> Outcome:
    """Observed step time / predicted, median over models, world sizes and variants (or over one variant's runs)."""

    def ratios(runs: list[Summary]) -> list[float]:
        return [
            _ratio(entry["observed_s"]["median"], entry["predicted_s"])
            for _, entry in entries(runs, setting)
            if entry["predicted_s"]
        ]

    every = ratios(list(group.summaries))
    return by_seed(
        group,
        lambda runs: median(ratios(runs)),
        f"no results for {setting}" if setting else "no predictions",
        f"{_range(every)} over {len(every)} runs" if every else "",
    )


# --- compression inside the ring


@probe_function("ring")
def terngrad_overhead(group: ProbeGroup, over: str) -> Outcome:
    """(Decompressing, summing, compressing) / communicating, uncompressed or compressed (`over`); median of benchmarks.

    At the paper's four workers where there are such runs.
    """
    if over not in ("uncompressed", "compressed"):
        return Outcome(reason=f"over is '{over}', not uncompressed or compressed")

    def of(runs: list[Summary]) -> dict[str, float]:
        runs = [run for run in runs if run["workers"] == 4] or runs
        return {
            f"{entry['benchmark']}, p = {run['workers']}": entry[f"per_{over}"]
            for run in runs
            for entry in run["result"]["overheads"]
            if "tern" in entry["codec"].lower() and entry[f"per_{over}"] is not None
        }

    every = of(list(group.summaries))
    note = f"{_range(list(every.values()), TIMES)} over {', '.join(every)}" if every else ""
    return by_seed(group, lambda runs: median(of(runs).values()), "no TernGrad overheads recorded", note)


CANNOT_TELL = 0.1  # share of its work that the native ring seems to hide


@probe_function("ring")
def hidden_in_ring(group: ProbeGroup, variant: str) -> Outcome:
    """Share of the work between transfers (decompress, sum, compress) that a variant hides behind them; median.

    None where the same measure finds work hidden in the native ring too, which hides nothing by construction: then it
    cannot tell (measured, the work of a short ring drowns in the scatter of the waiting times).
    """

    def shares(runs: list[Summary], name: str = variant) -> list[float]:
        variants = [v for run in runs for v in run["result"]["variants"] if v["name"] == name]
        return [v["overlapped_s"] / v["work_s"] for v in variants if v["work_s"]]

    native = median(shares(list(group.summaries), variant.replace("pipelined", "native")))
    if native is not None and native > CANNOT_TELL:
        share = f"{100 * native:.0f} %"
        return Outcome(reason=f"the measure cannot tell: it finds {share} hidden in the native ring too")
    every = shares(list(group.summaries))
    note = f"{_range([100 * share for share in every], ' %')} over {len(every)} runs" if every else ""
    return by_seed(group, lambda runs: median(shares(runs)), f"no results for the ring '{variant}'", note)


# --- convergence rates


def _rates(group: ProbeGroup, objective: str) -> dict[int, list[Summary]]:
    """K -> runs of an objective."""
    found: dict[int, list[Summary]] = {}
    for run in group.summaries:
        if run["result"]["objective"] == objective:
            found.setdefault(run["result"]["K"], []).append(run)
    return dict(sorted(found.items()))


def _at_K2(group: ProbeGroup, objective: str, value: Callable[[Summary], float], show: Callable) -> Outcome:
    runs = _rates(group, objective)
    note = ", ".join(f"K = {K}: {show(some)}" for K, some in runs.items() if K != 2)
    return by_seed(
        group,
        lambda mine: median(value(c) for c in runs.get(2, ()) if c in mine and not math.isnan(value(c))),
        f"no results for K = 2 on a {objective} objective",
        note,
    )


@probe_function("convergence")
def convergence_slope(group: ProbeGroup, objective: str) -> Outcome:
    """Slope of log regret (or suboptimality) against log T at K = 2; other K in the note."""
    return _at_K2(
        group,
        objective,
        lambda run: math.nan if run["result"]["slope"] is None else run["result"]["slope"],
        lambda some: number(spread(c["result"]["slope"] for c in some if c["result"]["slope"] is not None).median),
    )


@probe_function("convergence")
def within_bound(group: ProbeGroup, objective: str) -> Outcome:
    """1 where the regret at K = 2 stays below the stated bound at every recorded T, else 0; other K in the note."""
    return _at_K2(
        group,
        objective,
        lambda run: float(run["result"]["within_bound"]),
        lambda some: "within" if all(c["result"]["within_bound"] for c in some) else "not within",
    )
