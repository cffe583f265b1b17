"""Program `profiler`: records iterations with torch.profiler, and checks the share of communication that is hidden.

Each rank writes a Chrome trace, which Perfetto opens too. The result compares the share of communication that
computation hides by the harness's clock and by the profiler, over the same iterations. Option `profile_steps` of a
training run adds such a run: recording costs time, so the statistics of the training run exclude it.

The profiler's view on a CPU: computation is what operators ran on the rank's main thread, and what that thread did
between two operators of one phase (Python, which needs the processor too; time before the first and after the last
operator may be idle). Communication is the time of tasks in phases of that name.

The profiler's view on a GPU: computation is kernels on the streams of the main line, and the time between two kernels
of a phase, in which the GPU waits for the processor that launches them (counted since the first GPU records,
docs/limits.md). Communication is what the GPU did in phases of that name on other streams, copies included, or the
tasks' own time if the GPU did nothing in them; kernels of NCCL are communication wherever they run. While the main line
itself waits for messages nothing is hidden.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from repro import data, probes, strategies
from repro.core.errors import NotHere
from repro.core.fields import Count, Model, Whole
from repro.core.phases import COMMUNICATION, MAIN_LINE
from repro.experiment import needs
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.probes import ResultPart
from repro.probes.shared.options import needs_real_time
from repro.probes.shared.steps import run_iterations
from repro.rank.factory import build_worker, check_ranks
from repro.strategies.base import Strategy, set_up
from repro.training.clock import (
    COMPUTING,
    Clock,
    Interval,
    Phase,
    Span,
    overlap_seconds,
    split_sides,
    union_spans,
)

NUMERICS = True
AGREE = 0.05  # the most by which the two shares may differ
TRACE = "trace.rank{rank}.json"
ON_HOST, ON_GPU = "user_annotation", "gpu_user_annotation"
PRIVATE = ("host_name", "traceName", "trace_id")  # entries of a trace that name a machine or a folder


class Options(Model):
    steps: Count  # recorded iterations
    warmup: Whole = 5  # iterations before them


class Overlap(ResultPart):
    """Communication off the main thread (s), the part hidden by computation, and its share."""

    communication_s: float
    hidden_s: float
    share: float | None


class RankOverlap(ResultPart):
    """difference: the clock's share minus the profiler's."""

    rank: int
    clock: Overlap
    profiler: Overlap
    difference: float | None


class Result(ResultPart):
    """within: permitted difference of the shares; agree: whether all ranks are within it."""

    steps: int
    iteration_s: float
    within: float
    agree: bool | None
    rows: list[RankOverlap]


ranks = needs.strategy_ranks


def check(config: RunConfig) -> None:
    needs_real_time(config)


class Annotated(Phase):
    """A phase that the profiler records, with the task's name after it if it is not on the main line."""

    __slots__ = ("mark",)

    def __enter__(self) -> None:
        clock = self.clock
        assert isinstance(clock, AnnotatingClock)
        self.mark = None
        if clock.recording:
            line = clock.line()
            name = self.name if line == MAIN_LINE else f"{self.name} ({line})"
            self.mark = torch.profiler.record_function(name)
            self.mark.__enter__()
        super().__enter__()

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        if self.mark:
            self.mark.__exit__(None, None, None)


class AnnotatingClock(Clock):
    recording = False

    def phase(self, name: str) -> Phase:
        return Annotated(self, name)

    def line(self) -> str:
        return self._fabric.current_task()

    def intervals(self) -> list[Interval]:
        """The intervals since the last call."""
        self.take()
        return self._recent


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    probe = config.probe
    strategy = strategies.load_strategy(config.strategy.name)(config.strategy.options)
    check_ranks(fabric, strategy, config)
    dataset = data.dataset_for(config)
    total = probe.warmup + probe.steps
    worker = build_worker(fabric, config, dataset, AnnotatingClock)
    worker.iterations = total
    set_up(strategy, worker)
    probes.announce_iterations(total, fabric.rank)
    fabric.exchange(None)
    worker.clock.start()
    run_iterations(strategy, 0, probe.warmup)
    strategy.settle()
    with worker.clock.paused():
        fabric.exchange(None)
    probes.report_progress(probe.warmup, fabric.rank)
    row, seconds = record_iterations(strategy, probe.warmup, total, folder)
    strategy.drain()
    strategy.close()
    rows = [each for each in fabric.exchange(row) if each]
    shares = [each for each in rows if each["difference"] is not None]
    agree = max(abs(each["difference"]) for each in shares) <= AGREE if shares else None
    iteration_s = max(fabric.exchange(seconds)) / probe.steps
    result = {"steps": probe.steps, "iteration_s": iteration_s, "within": AGREE, "agree": agree, "rows": rows}
    metrics = {f"hidden/rank_{each['rank']}/{view}": each[view]["share"] for each in shares for view in VIEWS}
    return probes.Finding(result, metrics, summary_line(shares), config.model.name, worker.parameters, dataset)


def record_iterations(strategy: Strategy, first: int, last: int, folder: Path) -> tuple[dict[str, Any], float]:
    """This rank's row of both views over the iterations from `first` to `last` - 1, and their seconds.

    The worker has an `AnnotatingClock`; no message may be under way.
    """
    worker = strategy.worker
    clock, rank = worker.clock, worker.fabric.rank
    assert isinstance(clock, AnnotatingClock)
    with clock.paused():
        clock.take()
    began = clock.train_s()
    with profile_threads(worker.model_shard.device) as recorder:
        clock.recording = True
        run_iterations(strategy, first, last)
        strategy.settle()
        with clock.paused():  # which waits for the device
            clock.recording = False
    with clock.paused():
        seconds, mine = clock.train_s() - began, clock.intervals()
        path = folder / TRACE.format(rank=rank)
        recorder.export_chrome_trace(str(path))
        events = anonymise_trace(path)
    return compare_views(rank, of_clock(mine), of_trace(events, threading.get_native_id())), seconds


def profile_threads(device: torch.device) -> Any:
    """A profile of all threads of this process and of its GPU."""
    from torch._C._profiler import _ExperimentalConfig

    kinds = [torch.profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    try:
        config = _ExperimentalConfig(profile_all_threads=True)
    except TypeError:
        raise NotHere(f"program profiler: torch {torch.__version__} records one thread alone; a newer one") from None
    return torch.profiler.profile(activities=kinds, experimental_config=config)


def anonymise_trace(path: Path) -> list[dict[str, Any]]:
    """Remove names of machines and folders from a trace's file; returns its events."""
    trace = json.loads(path.read_bytes())
    path.write_text(json.dumps({name: value for name, value in trace.items() if name not in PRIVATE}))
    return trace["traceEvents"]


# --- the two views: seconds of communication outside the main line, and how many of them computation hides
VIEWS = ("clock", "profiler")


def of_clock(intervals: Iterable[Interval]) -> dict[str, float | None]:
    """By the clock, as its "overlapped"."""
    return hidden_share(*split_sides(intervals))


def of_trace(events: Iterable[Mapping[str, Any]], main_thread: int) -> dict[str, float | None]:
    """By the events of a Chrome trace; main_thread: the id of the thread whose operators are computation."""
    timed = [event for event in events if event.get("ph") == "X" and "dur" in event]
    kernels = [event for event in timed if event["cat"] == "kernel"]
    named = [event for event in timed if event["cat"] == ON_HOST]
    beside = _of_tasks(named)
    if kernels:
        on_gpu = [event for event in timed if event["cat"] == ON_GPU]
        beside = (_of_tasks(on_gpu) or beside) + [event for event in kernels if is_nccl(event)]
        phases = [event for event in on_gpu if event["name"] in COMPUTING]  # each from its first kernel to its last
        streams = {event["tid"] for event in phases}
        computing = [event for event in kernels if event["tid"] in streams and not is_nccl(event)]
        return hidden_share(map(event_span, beside), map(event_span, [*computing, *phases]))
    operators = [event_span(event) for event in timed if event["cat"] == "cpu_op" and event["tid"] == main_thread]
    mine = [event_span(event) for event in named if event["tid"] == main_thread and event["name"] in COMPUTING]
    return hidden_share(
        map(event_span, beside), [*operators, *filter(None, (worked_span(phase, operators) for phase in mine))]
    )


def _of_tasks(named: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Communication phases outside the main line."""
    return [event for event in named if event["name"].startswith(f"{COMMUNICATION} (")]


def worked_span(phase: Span, operators: Iterable[Span]) -> Span | None:
    """From the start of the first operator in a phase to the end of the last; None if it has none."""
    inside = [each for each in operators if phase[0] <= each[0] and each[1] <= phase[1]]
    return (min(inside)[0], max(end for _, end in inside)) if inside else None


def is_nccl(kernel: Mapping[str, Any]) -> bool:
    return "nccl" in kernel["name"].lower()


def event_span(event: Mapping[str, Any]) -> Span:
    """(start, end) in seconds; the trace has microseconds."""
    return 1e-6 * event["ts"], 1e-6 * (event["ts"] + event["dur"])


def hidden_share(communication: Iterable[Span], computation: Iterable[Span]) -> dict[str, float | None]:
    """{communication_s, hidden_s, share}; share is None without communication."""
    beside = union_spans(communication)
    whole = sum(end - start for start, end in beside)
    hidden = overlap_seconds(beside, computation)
    return {"communication_s": whole, "hidden_s": hidden, "share": hidden / whole if whole else None}


def compare_views(rank: int, clock: dict[str, float | None], profiler: dict[str, float | None]) -> dict[str, Any]:
    """A row: both views, and the clock's share minus the profiler's."""
    ours, theirs = clock["share"], profiler["share"]
    difference = None if ours is None or theirs is None else ours - theirs
    return {"rank": rank, "clock": clock, "profiler": profiler, "difference": difference}


def summary_line(shares: list[dict[str, Any]]) -> str:
    if not shares:
        return "no communication outside the main line"
    clock, profiler = (sum(each[view]["share"] for each in shares) / len(shares) for view in VIEWS)
    return f"hidden communication outside the main line: {clock:.1%} by our clock, {profiler:.1%} by the profiler"
