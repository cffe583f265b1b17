"""`repro batches`: plan which layers' parameters iBatch pulls together, and predict the time."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from repro.cli.options import as_json

if TYPE_CHECKING:
    from repro.algorithms.batching.profile import PullProfile
    from repro.algorithms.batching.times import Batches

MODES = "greedy (the better of Algorithms 1 and 2), algorithm1, algorithm2, exact, default (one pull) or layerwise"
COMPARED = ("default", "layerwise", "exact")
WIDTH = 60  # characters of the column `batches`


def add_commands(commands: Any) -> None:
    batches = commands.add_parser("batches", help="plan iBatch's batches: group a profile's layers into pulls")
    batches.add_argument(
        "profile",
        help="JSON or YAML file with startup_s, transfer_s: [...] and forward_s: [...] in seconds, one of each list "
        "for a layer; or the summary.json of a run that measured them",
    )
    batches.add_argument("--mode", default="greedy", help=MODES)
    as_json(batches)
    batches.set_defaults(command=cmd_batches)


def cmd_batches(args: argparse.Namespace) -> None:
    from repro.algorithms.batching.decision import decide_batches
    from repro.algorithms.batching.profile import read_pulls
    from repro.experiment import limits

    profile = read_pulls(args.profile)
    limits.check_limit(f"{args.profile}: layers", len(profile.transfer_s), limits.LAYERS)
    batches = decide_batches(profile, args.mode)
    if args.json:
        print(json.dumps(batches_json(profile, args.mode, batches), indent=1))
    else:
        print(batches_table(profile, args.mode, batches))


def batches_json(profile: PullProfile, mode: str, batches: Batches) -> dict[str, Any]:
    """Times in seconds; first and last layers from 1, inclusive.

    exact_s: the least executed time; gap: excess of executed_s over it, as a fraction; exetime_optimum: the optimum of
    Equation (4) under (5) with at least two batches, null if none meet (5).
    """
    from repro.algorithms.batching.decision import exact_exetime, exact_s, optimality_gap
    from repro.algorithms.batching.times import executed_s, exetime_s, meets_constraint

    def times(batches: Batches) -> dict[str, Any]:
        shown = [list(batch) for batch in batches]
        return {"batches": shown, "exetime_s": exetime_s(profile, batches), "executed_s": executed_s(profile, batches)}

    optimum = exact_exetime(profile)
    head = {"model": profile.model, "hardware": profile.hardware, "layers": list(profile.names), "mode": mode}
    return (
        head
        | times(batches)
        | {"meets_constraint": meets_constraint(profile, batches), "exact_s": exact_s(profile)}
        | {"gap": optimality_gap(profile, batches), "exetime_optimum": optimum and times(optimum)}
    )


def batches_table(profile: PullProfile, mode: str, batches: Batches) -> str:
    """A line for each batch, then a line for each compared mode."""
    from tabulate import tabulate

    from repro.algorithms.batching.decision import decide_batches, exact_exetime
    from repro.algorithms.batching.times import as_text

    rows = [_row(profile, mode, batches)]
    rows += [_row(profile, other, decide_batches(profile, other)) for other in COMPARED if other != mode]
    if optimum := exact_exetime(profile):
        rows.append(_row(profile, "(4) under (5)", optimum))
    head = ["mode", "pulls", "batches", "EXETime ms", "executed ms", "(5) holds", "over exact"]
    lines = [
        f"profile    {describe_profile(profile)}",
        f"batches    {as_text(batches)}",
        _each(profile, batches),
        "",
        tabulate(rows, head, floatfmt=".6g", colalign=("left", "right", "left", "right", "right", "left", "right")),
        "EXETime: Equation (4) of the paper, too small where (5) fails; executed: until the forward pass ends, if",
        "each pull follows the one before; (4) under (5): the least EXETime of two or more batches that meet (5)"
        + ("" if optimum else ": none do"),
    ]
    return "\n".join(lines)


def describe_profile(profile: PullProfile) -> str:
    """A summary of a profile in one line."""
    layers, pulled = len(profile.transfer_s), sum(seconds > 0 for seconds in profile.transfer_s)
    model = f"{profile.model}, " if profile.model else ""
    parameters = "" if pulled == layers else f", {pulled} with parameters"
    machines = ((profile.workers, "workers"), (profile.servers, "dedicated servers"))
    cluster = " and ".join(f"{count} {role}" for count, role in machines if count)
    more = [f"; {text}" for text in (cluster, profile.hardware, profile.source) if text]
    return f"{model}{layers} layer{'' if layers == 1 else 's'}{parameters}{''.join(more)}"


def _each(profile: PullProfile, batches: Batches) -> str:
    """A table of the times at which each batch is pulled and computed."""
    from tabulate import tabulate

    from repro.algorithms.batching.times import batch_timeline, number_batches

    ends_ms: dict[tuple[bool, int], float] = {}  # (computed, batch) -> end
    for interval in batch_timeline(profile, batches):
        ends_ms[interval.kind == "forward", interval.batch] = 1e3 * interval.end
    names = [f"{layer} {name}" for layer, name in enumerate(profile.layers, 1)] or profile.names
    rows = [
        [number, names[first - 1], names[last - 1], ends_ms.get((False, number)), ends_ms[True, number]]
        for number, (first, last) in number_batches(profile, batches)
    ]
    head = ["batch", "first layer", "last layer", "pulled by ms", "computed by ms"]
    return tabulate(rows, head, floatfmt=".6g", colalign=("right", "left", "left", "right", "right"))


def _row(profile: PullProfile, name: str, batches: Batches) -> list[Any]:
    from repro.algorithms.batching.decision import optimality_gap
    from repro.algorithms.batching.times import as_text, count_pulls, executed_s, exetime_s, meets_constraint

    text = as_text(batches)
    return [
        name,
        count_pulls(profile, batches),
        text if len(text) <= WIDTH else text[: WIDTH - 4].rsplit(" [", 1)[0] + " ...",
        1e3 * exetime_s(profile, batches),
        1e3 * executed_s(profile, batches),
        "yes" if meets_constraint(profile, batches) else "no",
        f"{100 * optimality_gap(profile, batches):.2f} %",
    ]
