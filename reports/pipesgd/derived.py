"""Pipe-SGD's claims: numbers that no verb computes, from the timing model and from compression inside the ring.

Runs of a probe share experiment, kind and place; they differ in model, number of workers and testbed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from repro.answers.claims.compute import COMPUTING, by_seed, function, paired, probe_function
from repro.answers.claims.evaluate import Outcome, safe_ratio
from repro.answers.claims.stats import median_or_none
from repro.answers.tables.runs import Runs
from repro.core.not_none import not_none
from repro.records.record import Found

Entry = dict[str, Any]  # an entry of a timing result's `variants`


def entries(runs: list[Found], variant: str | None = None) -> Iterator[tuple[Found, Entry]]:
    """(run, entry) of every variant of timing runs, or of one variant."""
    for run in runs:
        for entry in run.probe.found["variants"]:
            if variant is None or entry["variant"] == variant:
                yield run, entry


def compute_bound(entry: Entry) -> bool:
    """Whether the prediction is that computation hides communication: l_up + l_comp >= l_comm."""
    terms = entry["terms"]
    return terms["l_up"] + terms["l_comp"] >= terms["l_comm"]


def segments(entry: Entry) -> int:
    """L of equation (6): the number of pieces in which the gradient is communicated."""
    return int(entry["options"].get("segments") or 1)


def dependency(entry: Entry) -> int:
    """K: by default 2 for Pipe-SGD; 1 for synchronous strategies."""
    return int(entry["options"].get("K", 2)) if entry["strategy"] == "pipe_sgd" else 1


# --- the timing model


@function
def over_equation_4(group: Runs, variant: str) -> Outcome:
    """Seconds of an iteration over max(l_up + l_comp, l_comm), by the breakdown runs where there are any."""

    def ratio_of(run: Found) -> float:
        result = run.training
        computing = sum(result.phases[name] for name in (*COMPUTING, "compress"))
        return not_none(result.final["train_s"]) / result.iterations / max(computing, result.communication.total_s)

    return paired(group, [variant], ratio_of)


@probe_function("timing")
def sequential_over_pipelined(group: Runs) -> Outcome:
    """Step time of the best L > 1 / that of L = 1, with K = 2: the median over codecs where communication is the bound.

    Above 1, sequential communication of the gradient is faster.
    """

    def ratios(runs: list[Found]) -> Iterator[float]:
        for run in runs:
            by_codec: dict[str, list[Entry]] = {}
            for entry in run.probe.found["variants"]:
                if entry["strategy"] == "pipe_sgd" and dependency(entry) == 2:
                    by_codec.setdefault(str(entry["options"].get("codec", "none")), []).append(entry)
            for some in by_codec.values():
                whole = [entry for entry in some if segments(entry) == 1]
                parts = [entry["observed_s"]["median"] for entry in some if segments(entry) > 1]
                if whole and parts and not compute_bound(whole[0]):
                    yield safe_ratio(min(parts), whole[0]["observed_s"]["median"])

    return by_seed(group, lambda runs: median_or_none(ratios(runs)), "no communication-bound run with L = 1 and L > 1")


@probe_function("timing")
def scaling_efficiency(group: Runs, variant: str) -> Outcome:
    """Observed efficiency (7) at the most workers for which the prediction is compute bound; median over models."""

    def largest(runs: list[Found]) -> Iterator[float]:
        bound = [(run.identity.workers, entry) for run, entry in entries(runs, variant) if compute_bound(entry)]
        top = max((workers for workers, _ in bound), default=0)
        for workers, entry in bound:
            if workers == top and entry["efficiency_observed"] is not None:
                yield entry["efficiency_observed"]

    return by_seed(group, lambda runs: median_or_none(largest(runs)), f"{variant} is predicted compute bound nowhere")


# --- compression inside the ring


UNRELIABLE = 0.1  # share of hidden work that the measure reports for the native ring, which hides nothing


@probe_function("ring")
def hidden_in_ring(group: Runs, variant: str) -> Outcome:
    """The share of the work between transfers (decompress, sum, compress) that a variant hides behind them; median.

    There is no number where the same measure reports hidden work in the native ring, which by construction hides none:
    then the scatter of the measured waiting times exceeds the work of a short ring.
    """

    def shares(runs: list[Found], name: str = variant) -> list[float]:
        variants = [v for run in runs for v in run.probe.found["variants"] if v["name"] == name]
        return [v["overlapped_s"] / v["work_s"] for v in variants if v["work_s"]]

    native = median_or_none(shares(list(group.records.values()), variant.replace("pipelined", "native")))
    if native is not None and native > UNRELIABLE:
        share = f"{100 * native:.0f} %"
        return Outcome(reason=f"the measure cannot tell: it finds {share} hidden in the native ring too")
    return by_seed(group, lambda runs: median_or_none(shares(runs)), f"no results for the ring '{variant}'")
