"""Our rings and `auto` against the library's own allreduce: OpenMPI's and gloo's, 4 ranks, in turns.

On this machine (shared memory; loopback), and between hosts with limited links where it has them, there beside the
wire: 2 (P-1)/P n bytes at the rate that is left of the line. OpenMPI's own ring, which it does not choose by itself,
stands beside its default in launches of their own: its settings are an environment.
"""

from __future__ import annotations

import statistics
from typing import Any, NamedTuple

from repro.bench.allreduce_program import BLOCKING
from repro.bench.goals import Goal, of_ratio, ratio
from repro.bench.ranks import run_jobs
from repro.launch.namespaces import network
from repro.launch.namespaces.links import GOODPUT_SHARE

PROGRAM = "repro.bench.allreduce_program"
RANKS, RATE_GBIT = 4, 1.0
SIZES = (4_000, 1_000_000, 10_000_000, 40_000_000)  # bytes
OURS = ("ring", "ring_pipelined", "auto", "native")
# OpenMPI's settings: of MPI_Allreduce alone, whose default is a choice by size and ranks
TUNED = "OMPI_MCA_coll_tuned_use_dynamic_rules", "OMPI_MCA_coll_tuned_allreduce_algorithm"
MPI_RINGS = {"MPI's ring": "4", "MPI's segmented ring": "5"}
LARGE = 10_000_000  # bytes from which a vector is large
AUTO = Goal("auto over the faster of the library's own and the pipelined ring", 1.1)
WIRE = Goal("the wire's time over auto's", 0.95, at_least=True)


class Network(NamedTuple):
    """rate_gbit: of links between hosts; None: this machine alone."""

    fabric: str
    rate_gbit: float | None

    def __str__(self) -> str:
        where = "this machine" if self.rate_gbit is None else f"{self.rate_gbit:g} Gbit/s"
        return f"{self.fabric}, {where}"


NETWORKS = tuple(Network(fabric, rate) for rate in (None, RATE_GBIT) for fabric in ("mpi", "torch"))


def measure(sizes: tuple[int, ...] = SIZES, networks: tuple[Network, ...] = NETWORKS) -> dict[str, Any]:
    """{ranks, rows, not_here, against_goals}; not_here: why there are no limited links.

    rows: {fabric, rate_gbit, setting (of OpenMPI), bytes, seconds {name: {median, min}}, over_native {name: ratio},
    wire_s (None on this machine alone)}.
    """
    missing = network.why_not()
    rows = []
    for place in networks:
        if place.rate_gbit and missing:
            continue
        blocking = (BLOCKING,) if place.fabric == "mpi" else ()
        rows += timed(place, (*OURS, *blocking), sizes, "default", {})
        for setting, number in MPI_RINGS.items() if blocking else ():
            variables = dict(zip(TUNED, ("1", number), strict=True))
            rows += timed(place, ("ring_pipelined", "native", BLOCKING), sizes, setting, variables)
    return {"ranks": RANKS, "rows": rows, "not_here": missing, "against_goals": goals(rows)}


def timed(
    place: Network, names: tuple[str, ...], sizes: tuple[int, ...], setting: str, variables: dict[str, str]
) -> list[dict[str, Any]]:
    """A row a size, of one launch."""
    jobs: list[dict[str, Any]] = [{"names": names, "bytes": nbytes, "turns": turns(nbytes)} for nbytes in sizes]
    found = run_jobs(place.fabric, RANKS, jobs, 1, PROGRAM, place.rate_gbit, variables)
    return [row(place, setting, job["bytes"], each) for job, each in zip(jobs, found, strict=True)]


def turns(nbytes: int) -> int:
    """More of short ones, which a busy machine disturbs most."""
    return max(5, min(20, 40_000_000 // nbytes))


def row(place: Network, setting: str, nbytes: int, found: list[dict[str, float]]) -> dict[str, Any]:
    by_name = {name: [turn[name] for turn in found] for name in found[0]}
    return {
        "fabric": place.fabric,
        "rate_gbit": place.rate_gbit,
        "setting": setting,
        "bytes": nbytes,
        "seconds": {name: {"median": statistics.median(all_), "min": min(all_)} for name, all_ in by_name.items()},
        "over_native": {name: ratio(all_, by_name["native"]) for name, all_ in by_name.items() if name != "native"},
        "auto_over_best": auto_over_best(found) if "auto" in by_name else None,
        "wire_s": place.rate_gbit and 2 * (RANKS - 1) / RANKS * nbytes * 8e-9 / (place.rate_gbit * GOODPUT_SHARE),
    }


def auto_over_best(found: list[dict[str, float]]) -> dict[str, float]:
    """Over the one that is the faster of the two that it chooses from, by their medians."""
    best = min(("native", "ring_pipelined"), key=lambda name: statistics.median(turn[name] for turn in found))
    return ratio([turn["auto"] for turn in found], [turn[best] for turn in found])


def goals(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for one in rows:
        if not one["auto_over_best"]:
            continue
        where = f", {one['bytes']} bytes, {Network(one['fabric'], one['rate_gbit'])}"
        found.append(of_ratio(AUTO._replace(what=AUTO.what + where), one["auto_over_best"]))
        if one["wire_s"] and one["bytes"] >= LARGE:
            found.append(WIRE._replace(what=WIRE.what + where).of(one["wire_s"] / one["seconds"]["auto"]["min"]))
    return found


def table(result: dict[str, Any]) -> str:
    lines = [f"allreduce, {result['ranks']} ranks in turns: ms (medians), and over the library's own (native)"]
    shown = None
    for one in result["rows"]:
        place = f"{Network(one['fabric'], one['rate_gbit'])}, {BLOCKING} by {one['setting']}"
        if place != shown:
            lines.append(f"  {place if one['fabric'] == 'mpi' else place.split(', MPI')[0]}")
            heads = "".join(f"{name:>22}" for name in one["seconds"])
            lines.append(f"  {'bytes':>10}{heads}" + (f"{'wire':>10}" if one["wire_s"] else ""))
            shown = place
        cells = ""
        for name, seconds in one["seconds"].items():
            over = one["over_native"].get(name)
            cells += f"{1e3 * seconds['median']:>13.3f}" + (f" ({over['median']:>6.2f})" if over else " " * 9)
        wire = f"{1e3 * one['wire_s']:>10.3f}" if one["wire_s"] else ""
        lines.append(f"  {one['bytes']:>10}{cells}{wire}")
    if result["not_here"]:
        lines.append(f"  no limited links here: {result['not_here']}")
    return "\n".join(lines)
