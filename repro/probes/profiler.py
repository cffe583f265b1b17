"""Program `profiler`: torch.profiler's record of some iterations, a Chrome trace of each rank that Perfetto opens too,
and how much of the communication computation has hidden: as our clock has it, and as the profiler sees it.

Option `profile_steps` of a training run adds one of these, a run of its own: recording costs time, so nothing of it
is in the statistics of the run that it is of. What is compared are the same iterations.

The profiler's own view. On a CPU computation is what operators ran on the rank's main thread, with what the thread did
between two operators of one phase (Python, which needs the processor as they do; what lies before the first and behind
the last is not known to be work), and communication the time that tasks spent in their phases of that name, both by the
profiler's clock. On a GPU computation is kernels on the streams of the main line, and what lies between two of a phase:
the GPU then waits for the processor that launches them. Communication is what the GPU did of those phases, copies and
all, on any other stream, or where it had no part in them, the tasks' own time; kernels of NCCL are communication,
whoever asked for them. Where the main line itself waits for messages nothing is hidden.

What lies between kernels has been counted since the first records of a GPU (docs/limits.md).
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
from repro.experiment import programs
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.probes.shared.options import needs_real_time
from repro.probes.shared.steps import advance
from repro.rank.factory import build_worker, check_ranks
from repro.training.clock import (
    COMMUNICATION,
    COMPUTATION,
    MAIN_LINE,
    Clock,
    Interval,
    Phase,
    Span,
    overlap,
    sides,
    union,
)

NUMERICS = True
AGREE = 0.05  # of all communication: by so much the two views may differ
TRACE = "trace.rank{rank}.json"
ON_HOST, ON_GPU = "user_annotation", "gpu_user_annotation"
UNSAID = ("host_name", "traceName", "trace_id")  # of a trace, what names a machine or a folder


class Options(Model):
    """Iterations that are recorded, and iterations before them that are not."""

    steps: Count
    warmup: Whole = 5


ranks = programs.strategy_ranks


def check(config: RunConfig) -> None:
    """InputError where time is modelled: the profiler's is the wall clock."""
    needs_real_time(config)


class Annotated(Phase):
    """A phase that the profiler sees, on a task's line with the line's name behind it."""

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
        """All since the last call."""
        self.take()
        return self._recent


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    """One rank's part."""
    probe = config.probe
    strategy = strategies.load(config.strategy.name)(config.strategy.options)
    check_ranks(fabric, strategy, config)
    dataset = data.of(config)
    total = probe.warmup + probe.steps
    worker = build_worker(fabric, config, dataset, AnnotatingClock)
    worker.iterations = total
    clock = worker.clock
    assert isinstance(clock, AnnotatingClock)
    strategy.setup(worker)
    probes.start(fabric, total)
    fabric.exchange(None)
    clock.start()
    advance(strategy, 0, probe.warmup)
    strategy.settle()
    with clock.paused():
        fabric.exchange(None)
        clock.take()
    probes.progress(fabric, probe.warmup)
    began = clock.train_s()
    with profiler(worker.model_shard.device) as recorder:
        clock.recording = True
        advance(strategy, probe.warmup, total)
        strategy.settle()
        with clock.paused():  # which waits for the device
            clock.recording = False
    with clock.paused():
        seconds, mine = clock.train_s() - began, clock.intervals()
        path = folder / TRACE.format(rank=fabric.rank)
        recorder.export_chrome_trace(str(path))
        events = cleaned(path)
    strategy.drain()
    strategy.close()
    row = compared(fabric.rank, of_clock(mine), of_trace(events, threading.get_native_id()))
    rows = [each for each in fabric.exchange(row) if each]
    shares = [each for each in rows if each["difference"] is not None]
    agree = max(abs(each["difference"]) for each in shares) <= AGREE if shares else None
    iteration_s = max(fabric.exchange(seconds)) / probe.steps
    result = {"steps": probe.steps, "iteration_s": iteration_s, "within": AGREE, "agree": agree, "rows": rows}
    metrics = {f"hidden/rank_{each['rank']}/{view}": each[view]["share"] for each in shares for view in VIEWS}
    return probes.Finding(result, metrics, line(shares), config.model.name, worker.parameters, dataset)


def profiler(device: torch.device) -> Any:
    """Of all threads of this process, and of its GPU."""
    from torch._C._profiler import _ExperimentalConfig

    kinds = [torch.profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    try:
        config = _ExperimentalConfig(profile_all_threads=True)
    except TypeError:
        raise NotHere(f"program profiler: torch {torch.__version__} records one thread alone; a newer one") from None
    return torch.profiler.profile(activities=kinds, experimental_config=config)


def cleaned(path: Path) -> list[dict[str, Any]]:
    """The events of a trace, whose file then names neither machine nor folder."""
    trace = json.loads(path.read_bytes())
    path.write_text(json.dumps({name: value for name, value in trace.items() if name not in UNSAID}))
    return trace["traceEvents"]


# --- the two views: seconds of communication beside the main line, and those of them that computation hides
VIEWS = ("clock", "profiler")


def of_clock(intervals: Iterable[Interval]) -> dict[str, float | None]:
    """As the clock's "overlapped" has it."""
    return view(*sides(intervals))


def of_trace(events: Iterable[Mapping[str, Any]], main_thread: int) -> dict[str, float | None]:
    """As the events of a Chrome trace have it; main_thread: its number, that of operators which are computation."""
    timed = [event for event in events if event.get("ph") == "X" and "dur" in event]
    kernels = [event for event in timed if event["cat"] == "kernel"]
    named = [event for event in timed if event["cat"] == ON_HOST]
    beside = _of_tasks(named)
    if kernels:
        on_gpu = [event for event in timed if event["cat"] == ON_GPU]
        beside = (_of_tasks(on_gpu) or beside) + [event for event in kernels if is_nccl(event)]
        phases = [event for event in on_gpu if event["name"] in COMPUTATION]  # each from its first kernel to its last
        streams = {event["tid"] for event in phases}
        computing = [event for event in kernels if event["tid"] in streams and not is_nccl(event)]
        return view(map(span, beside), map(span, [*computing, *phases]))
    operators = [span(event) for event in timed if event["cat"] == "cpu_op" and event["tid"] == main_thread]
    mine = [span(event) for event in named if event["tid"] == main_thread and event["name"] in COMPUTATION]
    return view(map(span, beside), [*operators, *filter(None, (worked(phase, operators) for phase in mine))])


def _of_tasks(named: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The phases of communication beside the main line."""
    return [event for event in named if event["name"].startswith(f"{COMMUNICATION} (")]


def worked(phase: Span, operators: Iterable[Span]) -> Span | None:
    """From the begin of the first operator in a phase to the end of the last; None where it has none."""
    own = [each for each in operators if phase[0] <= each[0] and each[1] <= phase[1]]
    return (min(own)[0], max(end for _, end in own)) if own else None


def is_nccl(kernel: Mapping[str, Any]) -> bool:
    return "nccl" in kernel["name"].lower()


def span(event: Mapping[str, Any]) -> Span:
    """Seconds, of microseconds."""
    return 1e-6 * event["ts"], 1e-6 * (event["ts"] + event["dur"])


def view(communication: Iterable[Span], computation: Iterable[Span]) -> dict[str, float | None]:
    """{communication_s, hidden_s, share}; share is None where there is no communication."""
    beside = union(communication)
    whole = sum(end - start for start, end in beside)
    hidden = overlap(beside, computation)
    return {"communication_s": whole, "hidden_s": hidden, "share": hidden / whole if whole else None}


def compared(rank: int, clock: dict[str, float | None], seen: dict[str, float | None]) -> dict[str, Any]:
    """A row: both views, and by how much the clock's share is larger."""
    mine, its = clock["share"], seen["share"]
    difference = None if mine is None or its is None else mine - its
    return {"rank": rank, "clock": clock, "profiler": seen, "difference": difference}


def line(shares: list[dict[str, Any]]) -> str:
    if not shares:
        return "no communication beside the main line"
    mine, its = (sum(each[one]["share"] for each in shares) / len(shares) for one in VIEWS)
    return f"of the communication beside the main line {mine:.1%} is hidden by our clock, {its:.1%} by the profiler's"
