"""The data behind figures 1, 2 and 3: recorded intervals, in milliseconds, as the boxes of the paper's pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from repro.reports.groups import Group
from repro.reports.loading import Summary
from repro.reports.probes import ProbeGroup

if TYPE_CHECKING:
    import pandas as pd

MAIN = "main"
UPDATE, COMPUTE, COMMUNICATE, IDLE = "update", "compute", "communicate", "idle"
# phase of the main line -> box of figure 1; `wait`, `other` and blocked stretches are no box
BOXES = {"update": UPDATE, "forward": COMPUTE, "backward": COMPUTE, "data": COMPUTE, "compress": COMPUTE,
         "communicate": COMMUNICATE}  # fmt: skip
SEND_BACK = "send back"
Interval = dict[str, Any]  # as in a summary's `trace`, seconds
Box = tuple[str, float, float]  # name, start, end


def recorded(group: Group, variant: str) -> Summary | None:
    """The first seed's run of a variant that has recorded intervals."""
    return next((run for run in group.phase_runs(variant).values() if run.get("trace")), None)


def lines(trace: list[Interval]) -> dict[tuple[int, str], list[Interval]]:
    """(rank, line) -> its intervals in order of time; a rank's main line first, empty intervals left out."""
    found: dict[tuple[int, str], list[Interval]] = {}
    for interval in sorted(trace, key=lambda i: (i["rank"], i["line"] != MAIN, i["line"], i["start"])):
        if interval["end"] > interval["start"]:
            found.setdefault((interval["rank"], interval["line"]), []).append(interval)
    return found


def figure1(group: Group) -> pd.DataFrame:
    """A row a box: panel, variant, seed, rank, who, line, name (update, compute or communicate), start and end.

    A worker with a communication line of its own does not communicate on its main line: it is blocked there, idle. Of
    the server only its updates are boxes. Neighbouring pieces of one gradient computation are one box.
    """
    rows = []
    for panel, variant in zip("abc", group.variants, strict=False):
        if (run := recorded(group, variant)) is None:
            continue
        found = lines(run["trace"])
        zero = min(i["start"] for of_line in found.values() for i in of_line)
        own_line = {rank for rank, line in found if line != MAIN}
        for (rank, line), of_line in found.items():
            server = rank >= run["workers"]
            who = "parameter server" if server else f"worker {rank + 1}"
            for name, start, end in merged(_boxes(of_line, line, rank in own_line, server)):
                box = (who, line, name, start - zero, end - zero)
                rows.append(_row(group.kind, panel, variant, run["seed"], rank, *box))
    return _frame(rows)


def _boxes(of_line: list[Interval], line: str, has_own_line: bool, server: bool) -> list[Box]:
    boxes: list[Box] = []
    for interval in of_line:
        name = BOXES.get(interval["name"]) if line == MAIN else COMMUNICATE
        blocked = line == MAIN and name == COMMUNICATE and has_own_line
        if name and not blocked and not (server and name != UPDATE):
            boxes.append((name, interval["start"], interval["end"]))
    return boxes


def merged(boxes: list[Box], pieces: str = COMPUTE) -> list[Box]:
    """Pieces of one computation, which follow each other directly, as one box."""
    found: list[Box] = []
    for name, start, end in boxes:
        if found and name == pieces == found[-1][0]:
            found[-1] = (name, found[-1][1], end)
        else:
            found.append((name, start, end))
    return found


def figure2(group: Group | None, ring: ProbeGroup | None) -> pd.DataFrame:
    """As `figure1`: panel a one worker with its idle stretches, b two iterations sequential and pipelined, c a ring."""
    rows: list[dict[str, Any]] = []
    if group is not None:
        for panel, name in zip("abb", group.variants, strict=False):
            if run := recorded(group, name):
                rows += _worker(group.kind, panel, name, run)
    if ring is not None:
        run = ring_run(ring, 3)
        plain = [v for v in run["result"]["variants"] if v["codec"] == "none" and not pipelined(v) and v["trace"]]
        for variant in plain[:1]:
            rows += _ring_blocks(ring.kind, run, variant)
    return _frame(rows)


def _worker(kind: str, panel: str, variant: str, run: Summary) -> list[dict[str, Any]]:
    """The first worker's lines: in panel a its boxes and where it is idle, in b the phases of two iterations."""
    found = {line: of_line for (rank, line), of_line in lines(run["trace"]).items() if rank == 0}
    zero, until = _iterations(found.get(MAIN, []), 2) if panel == "b" else (None, None)
    starts = [i["start"] for of_line in found.values() for i in of_line if zero is None or i["start"] >= zero - 1e-12]
    zero = min(starts) if zero is None else zero
    rows = []
    for line, of_line in found.items():
        own_line = len(found) > 1
        if panel == "a":
            extent = of_line[0]["start"], max(i["end"] for i in of_line)
            boxes = with_idle(merged(_boxes(of_line, line, own_line, False)), *extent)
        else:
            boxes = _phases(of_line, line, own_line, found.get(MAIN, []))
        for name, start, end in boxes:
            if start >= zero - 1e-12 and (until is None or start < until):
                box = ("worker 1", line, name, start - zero, end - zero)
                rows.append(_row(kind, panel, variant, run["seed"], 0, *box))
    return rows


def with_idle(boxes: list[Box], begin: float, until: float) -> list[Box]:
    """The boxes of a line and, from `begin` to `until`, what is left between them: idle."""
    found: list[Box] = []
    for name, start, end in [*boxes, ("", until, until)]:
        if start > begin:
            found.append((IDLE, begin, start))
        if name:
            found.append((name, start, end))
        begin = max(begin, end)
    return found


def _iterations(main: list[Interval], count: int) -> tuple[float | None, float | None]:
    """(start of the first whole forward pass, end of the `count`-th update after it)."""
    first = next((i["start"] for i in main if i["name"] == "forward"), None)
    if first is None:
        return None, None
    ends = [i["end"] for i in _runs(main) if i["name"] == "update" and i["start"] >= first]
    return first, ends[count - 1] if len(ends) >= count else None


def _runs(of_line: list[Interval]) -> list[Interval]:
    """Neighbouring intervals with one name as one."""
    found: list[Interval] = []
    for interval in of_line:
        if found and found[-1]["name"] == interval["name"]:
            found[-1] = found[-1] | {"end": interval["end"]}
        else:
            found.append(dict(interval))
    return found


def _phases(of_line: list[Interval], line: str, own_line: bool, main: list[Interval]) -> list[Box]:
    """Update, forward, backward and, numbered within their iteration, the allreduces of a gradient's segments."""
    if line == MAIN:
        shown = {"update", "forward", "backward"} | (set() if own_line else {"communicate"})
        return merged([(i["name"], i["start"], i["end"]) for i in of_line if i["name"] in shown], "forward")
    updates = [i["end"] for i in _runs(main) if i["name"] == "update"]
    boxes, iteration, count = [], -1, 0
    for interval in of_line:
        now = sum(end <= interval["start"] + 1e-12 for end in updates)
        iteration, count = (now, 1) if now != iteration else (now, count + 1)
        boxes.append((f"allreduce {count}", interval["start"], interval["end"]))
    return boxes


def _ring_blocks(kind: str, run: Summary, variant: dict[str, Any]) -> list[dict[str, Any]]:
    """Blocks of a native ring: transmitted until the last sum of a rank, sent back after it."""
    found = lines(variant["trace"])
    zero = min(i["start"] for of_line in found.values() for i in of_line)
    rows = []
    for (rank, line), of_line in found.items():
        summed = max((i["end"] for i in of_line if i["name"] != "communicate"), default=zero)
        for i in of_line:
            name = SEND_BACK if i["name"] == "communicate" and i["start"] >= summed else i["name"]
            rows.append(
                _row(kind, "c", variant["name"], run["seed"], rank, f"W[{rank}]", line, name, i["start"] - zero,
                     i["end"] - zero)
            )  # fmt: skip
    return rows


def pipelined(variant: dict[str, Any]) -> bool:
    """Does this variant of the ring overlap communication and reduction?"""
    return "pipe" in f"{variant['algorithm']} {variant['name']}".lower()


def ring_run(group: ProbeGroup, workers: int = 4) -> Summary:
    """The ring probe's run of this world size, else of the nearest, on the paper's plain testbed if possible."""
    return min(
        group.summaries,
        key=lambda c: (abs(c["workers"] - workers), c["testbed"] != "paper/pipesgd", c["testbed"], c["seed"]),
    )


def figure3(run: Summary) -> pd.DataFrame:
    """As `figure1` for the first rank of every variant with recorded blocks; panel a without, b with compression.

    What a pipelined ring does at the same time stands in lines of their own, whatever line it was recorded on.
    """
    rows = []
    for variant in run["result"]["variants"]:
        found = {line: of_line for (rank, line), of_line in lines(variant["trace"]).items() if rank == 0}
        if not found:
            continue
        zero = min(i["start"] for of_line in found.values() for i in of_line)
        panel = "a" if variant["codec"] == "none" else "b"
        for line, of_line in found.items():
            for i in of_line:
                stage = "1. communicate" if i["name"] == COMMUNICATE else "2. work"
                row = _row(run["kind"], panel, variant["name"], run["seed"], 0, "rank 0",
                           stage if pipelined(variant) else line, i["name"], i["start"] - zero,
                           i["end"] - zero)  # fmt: skip
                rows.append(row | {"codec": variant["codec"], "pipelined": pipelined(variant)})
    return _frame(rows, "codec", "pipelined")


def light(codec: str) -> bool:
    """Truncation and quantization; TernGrad is what section 3.2 calls heavy."""
    return "tern" not in codec.lower()


def raw(trace: list[Interval]) -> pd.DataFrame:
    """All recorded intervals for a Chrome trace: rank, line, name, start_ms, end_ms."""
    import pandas as pd

    found = lines(trace)
    zero = min((i["start"] for of_line in found.values() for i in of_line), default=0.0)
    rows = [
        (rank, line, i["name"], 1e3 * (i["start"] - zero), 1e3 * (i["end"] - zero))
        for (rank, line), of_line in found.items()
        for i in of_line
    ]
    return pd.DataFrame(rows, columns=["rank", "line", "name", "start_ms", "end_ms"])


COLUMNS = ("kind", "panel", "setting", "seed", "rank", "who", "line", "name", "start_ms", "end_ms")


def _row(*values: Any) -> dict[str, Any]:
    """A box; the last two values are seconds."""
    row = dict(zip(COLUMNS, values, strict=True))
    return row | {"start_ms": 1e3 * row["start_ms"], "end_ms": 1e3 * row["end_ms"]}


def _frame(rows: list[dict[str, Any]], *more: str) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows, columns=[*COLUMNS, *more])
