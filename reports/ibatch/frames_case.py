"""Figures 3 and 4: times of layers from profiles, and an iteration's recorded intervals, as data frames."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from repro.reports.batched_pulls import MODES, pipeline, profile, times
from repro.reports.loading import Summary
from repro.reports.probes import ProbeGroup
from repro.reports.schedules import CLOSE, MAIN, Box, boxes
from repro.reporting.stats import DASH, number

if TYPE_CHECKING:
    import pandas as pd

PULL, STARTUP, TRANSFER, FORWARD, BACKWARD = "pull", "startup", "communicate", "forward", "backward"


def first_run(group: ProbeGroup, variant: str) -> Summary | None:
    """The first seed's run of a variant."""
    return next((one for one in group.summaries if one["setting"] == variant), None)


def layers(group: ProbeGroup) -> pd.DataFrame:
    """Figure 3: a row a layer: startup, transfer and forward milliseconds, of the first mode that has a profile."""
    import pandas as pd

    found = next((p for mode in MODES if (one := first_run(group, mode)) and (p := profile(one))), None)
    columns = ["layer", "name", "parameters", "startup_ms", "transfer_ms", "forward_ms"]
    if found is None:
        return pd.DataFrame(columns=columns)
    names, counts = found.get("layers") or (), found.get("parameters") or ()
    rows = [
        (i + 1, names[i] if names else "", counts[i] if counts else None, 1e3 * found["startup_s"] * (transfer > 0),
         1e3 * transfer, 1e3 * forward)
        for i, (transfer, forward) in enumerate(zip(found["transfer_s"], found["forward_s"], strict=True))
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def layer_table(found: pd.DataFrame) -> pd.DataFrame:
    """The same as text."""
    communication = found["startup_ms"] + found["transfer_ms"]
    return found[["layer", "name"]].astype(str).assign(
        **{
            "parameters": [DASH if count is None else f"{count:,.0f}" for count in found["parameters"]],
            "startup (ms)": found["startup_ms"].map(number),
            "transfer (ms)": found["transfer_ms"].map(number),
            "forward (ms)": found["forward_ms"].map(number),
            "communication over computation": [
                number(a / b) if b else DASH for a, b in zip(communication, found["forward_ms"], strict=True)
            ],
        }
    )  # fmt: skip


# --- Figure 4


@dataclass(frozen=True)
class Procedure:
    """One worker's pulls and forward pass of an iteration: boxes of the line `pull` and of the main line, seconds."""

    pulls: Sequence[Sequence[Box]]  # of each batch its startup (or none) and its transfer
    forward: Sequence[Box]


def procedure(one: Summary, rank: int = 0) -> Procedure | None:
    """The first iteration whose pulls were all recorded; None where there is none.

    An iteration's pulls and forward pass lie between the backward passes of the iteration before and of its own.
    """
    of_rank, batches = _raw(one, rank), len(pipeline(one).get("batches") or ())
    since, forward = -math.inf, []
    for box in of_rank:
        if box.line == MAIN and box.name == FORWARD:
            forward.append(box)
        elif box.line == MAIN and box.name == BACKWARD:
            pulls = _pulls([b for b in of_rank if b.start >= since - CLOSE and b.end <= box.start + CLOSE])
            if forward and len(pulls) == batches:
                return Procedure(pulls, forward)
            since, forward = box.end, []
    return None


def _raw(one: Summary, rank: int) -> list[Box]:
    """Every recorded interval of a rank, as it is: two pulls that follow each other are two."""
    return sorted(
        (Box(i["rank"], i["line"], i["name"], i.get("minibatch"), i["start"], i["end"])
         for i in one.get("trace") or () if i["rank"] == rank and i["end"] > i["start"]),
        key=lambda box: (box.start, box.end),
    )  # fmt: skip


def _pulls(inside: Sequence[Box]) -> list[list[Box]]:
    """Startup and transfer of each pull, in order."""
    found: list[list[Box]] = []
    startup: list[Box] = []
    for box in (box for box in inside if box.line == PULL):
        if box.name == STARTUP:
            startup = [box]
        elif box.name == TRANSFER:
            found.append([*startup, box])
            startup = []
    return found


def timeline(group: ProbeGroup) -> pd.DataFrame:
    """Figure 4: a row a box: mode, line, what, its layers as text, milliseconds from the first pull asked.

    A forward pass may be recorded layer by layer (in virtual time) or batch by batch; else its boxes have no layers.
    """
    import pandas as pd

    rows = []
    for mode in MODES:
        if (one := first_run(group, mode)) is None or (found := procedure(one)) is None:
            continue
        batches = [span(first, last) for first, last in pipeline(one)["batches"]]
        zero = found.pulls[0][0].start  # the first pull asked
        for layers_of, of in zip(batches, found.pulls, strict=True):
            rows += [(mode, PULL, STARTUP if box.name == STARTUP else "transfer", layers_of, box, zero) for box in of]
        each = [str(layer) for layer in range(1, pipeline(one)["batches"][-1][1] + 1)]
        names = next((some for some in (each, batches) if len(some) == len(found.forward)), [""] * len(found.forward))
        rows += [(mode, FORWARD, FORWARD, name, box, zero) for name, box in zip(names, found.forward, strict=True)]
    columns = ["mode", "line", "what", "layers", "start_ms", "end_ms"]
    timed = [(*what, 1e3 * (box.start - zero), 1e3 * (box.end - zero)) for *what, box, zero in rows]
    return pd.DataFrame(timed, columns=columns)


def span(first: int, last: int) -> str:
    """`1-5`, `12`."""
    return str(first) if first == last else f"{first}\N{EN DASH}{last}"


def procedures(group: ProbeGroup) -> pd.DataFrame:
    """A row a mode: batches, what pulls and forward pass took, and what the models of the time say."""
    import pandas as pd

    rows = []
    for mode in MODES:
        if (one := first_run(group, mode)) is None:
            continue
        said, took = pipeline(one), times(one)
        ms = {name: number(1e3 * said[name]) if said.get(name) is not None else DASH
              for name in ("exetime_s", "executed_s", "exact_s")}  # fmt: skip
        batches = said.get("batches") or []
        rows.append(
            {
                "mode": mode,
                "batches": ", ".join(f"[{a}, {b}]" for a, b in batches) or DASH,
                "pulls": str(len(batches)) if batches else DASH,
                "end of the forward pass (ms)": number(1e3 * took.forward_end_s) if took else DASH,
                "all pulls (ms)": number(1e3 * took.pull_s) if took else DASH,
                "overlapping (ms)": number(1e3 * took.overlap_s) if took else DASH,
                "executed time, predicted (ms)": ms["executed_s"],
                "EXETime (ms)": ms["exetime_s"],
                "least possible (ms)": ms["exact_s"],
            }
        )
    return pd.DataFrame(rows)


def chrome(group: ProbeGroup, mode: str) -> pd.DataFrame:
    """All recorded intervals of a mode's run for a Chrome trace."""
    import pandas as pd

    one = first_run(group, mode)
    found = boxes(one.get("trace") or ())
    zero = min((box.start for box in found), default=0.0)
    return pd.DataFrame(
        [(box.rank, box.line, box.name, 1e3 * (box.start - zero), 1e3 * (box.end - zero)) for box in found],
        columns=["rank", "line", "name", "start_ms", "end_ms"],
    )
