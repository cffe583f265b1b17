"""Program `exposed_communication`: how much communication a data-parallel iteration cannot hide, as a counterfactual.

The same strategy trains in turns of a few iterations, in one run: with its messages whole, with messages of one element
and local results, and without messages (`repro.fabric.message_switch`). Of the seconds of an iteration

    computation   an iteration alone, the mean over workers
    waiting       for the slowest worker of each iteration, alone, less that mean: late workers, whatever is sent
    latency       an iteration with empty messages less both: hops, launches and turns of threads
    exposed       a whole iteration less one with empty messages: what the bytes cost beyond what computation hides

so that they sum to a whole iteration. It is not defined for pipelines and servers, whose ranks compute on what they
receive, nor where a library sends, or what has arrived decides what a rank does next. There the clock's phases remain.
On a GPU the clock counts gaps between kernels as computation, and a profiler does not; `profile_steps` sets both views
of the same whole iterations beside the counterfactual.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from repro import data, probes, strategies
from repro.core.fields import Count, Model, Whole
from repro.experiment import needs
from repro.experiment.schema import RunConfig
from repro.fabric.base import LIBRARIES, Fabric
from repro.fabric.message_switch import EMPTY, NONE, WHOLE, MessageSwitch
from repro.probes import ResultPart
from repro.probes.profiler import AnnotatingClock, RankOverlap, record_iterations
from repro.probes.shared.options import needs_real_time
from repro.probes.shared.steps import run_iterations, summarise_phases
from repro.probes.shared.stopwatch import Spread, time_spread
from repro.rank.factory import build_worker, check_ranks
from repro.records.record import Communication
from repro.strategies.base import Strategy, set_up
from repro.strategies.shared.data_parallel import DataParallel

NUMERICS = True
PARTS = ("computation_s", "waiting_s", "latency_s", "exposed_s")


class Options(Model):
    steps: Count  # counted iterations of a turn
    turns: Count  # of each kind of messages
    warmup: Count = 2  # uncounted iterations at the beginning of a turn
    profile_steps: Whole = 0  # iterations that torch.profiler records after the turns; real time only


class Turn(ResultPart):
    """Seconds of an iteration, means over the workers; without `empty_s` and its parts where it is not defined."""

    turn: int
    whole_s: float
    empty_s: float | None = None
    computation_s: float | None = None
    waiting_s: float | None = None
    latency_s: float | None = None
    exposed_s: float | None = None


class Result(ResultPart):
    """The parts of an iteration with their spread over the turns. not_defined: why there are none, else "".

    phases, communication: by the clock, of the whole iterations. views: the clock's and the profiler's share of
    communication that is hidden.
    """

    steps: int
    not_defined: str
    whole_s: Spread
    computation_s: Spread | None = None
    waiting_s: Spread | None = None
    latency_s: Spread | None = None
    exposed_s: Spread | None = None
    phases: dict[str, float]
    communication: Communication
    rows: list[Turn]
    views: list[RankOverlap]


ranks = needs.strategy_ranks


def check(config: RunConfig) -> None:
    if config.probe.profile_steps:
        needs_real_time(config)


def reason_undefined(strategy: Strategy, workers: int) -> str:
    """Why an iteration with local results is no iteration of this strategy; "" if it is one."""
    if not isinstance(strategy, DataParallel):
        return "its ranks compute on what they receive"
    if strategy.ranks(strategy.options, workers) != workers:
        return "it has servers, whose weights are the results"
    if strategy.requires & LIBRARIES.keys():
        return "its library sends the messages"
    return "" if strategy.deterministic else "what has arrived decides what a rank does next"


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    probe = config.probe
    strategy = strategies.load_strategy(config.strategy.name)(config.strategy.options)
    check_ranks(fabric, strategy, config)
    dataset = data.dataset_for(config)
    undefined = reason_undefined(strategy, config.workers)
    modes = (WHOLE,) if undefined else (WHOLE, EMPTY, NONE)
    of_turn = probe.warmup + probe.steps
    total = probe.turns * len(modes) * of_turn + probe.profile_steps
    worker = build_worker(fabric, config, dataset, AnnotatingClock)
    worker.iterations = total
    switch = MessageSwitch(fabric) if not undefined else None  # before the strategy makes groups of ranks
    set_up(strategy, worker)
    probes.announce_iterations(total, fabric.rank)
    fabric.exchange(None)
    worker.clock.start()
    turns: list[dict[str, list[Any]]] = []
    done = 0
    for number in range(probe.turns):
        turns.append({})
        for mode in modes if number % 2 == 0 else modes[::-1]:  # what drifts during the run changes all alike
            if switch:
                switch.mode = mode
            turns[-1][mode] = observe_turn(fabric, strategy, done, probe.warmup, probe.steps)
            probes.report_progress(done := done + of_turn, fabric.rank)
    if switch:
        switch.mode = WHOLE
    views = []
    if probe.profile_steps:
        row, _ = record_iterations(strategy, done, total, folder)
        views = [each for each in fabric.exchange(row) if each]
    strategy.drain()
    strategy.close()
    rows = [{"turn": number, **split_iteration(turn)} for number, turn in enumerate(turns)]
    whole = [worker for turn in turns for worker in turn[WHOLE]]
    result = {"steps": probe.steps, "not_defined": undefined, **summarise_turns(rows), "rows": rows, "views": views}
    result |= summarise_phases([worker["phases"] for worker in whole], probe.steps, result["whole_s"]["median"])
    metrics = {name: result[name]["median"] for name in ("whole_s", *PARTS) if name in result}
    line = summary_line(result)
    return probes.Finding(result, metrics, line, config.model.name, worker.parameters, dataset)


def observe_turn(fabric: Fabric, strategy: Strategy, start: int, warmup: int, steps: int) -> list[dict[str, Any]]:
    """{steps_s, total_s, phases} of each worker: seconds of each iteration, of all, and by phase.

    At the end no message is under way on any rank, so that the switch may turn.
    """
    clock = strategy.worker.clock
    run_iterations(strategy, start, start + warmup)
    with clock.paused():  # which waits for the device
        clock.take()
        began = clock.train_s()
    points = [clock.point()]
    for iteration in range(start + warmup, start + warmup + steps):
        run_iterations(strategy, iteration, iteration + 1)
        points.append(clock.point())
    with clock.paused():
        total_s = clock.train_s() - began
    mine = {"server": strategy.worker.is_server, "total_s": total_s, "phases": clock.take()}
    mine["steps_s"] = clock.between(list(itertools.pairwise(points)))
    strategy.settle()
    with clock.paused():
        return [rank for rank in fabric.exchange(mine) if not rank["server"]]


def split_iteration(turn: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, float]:
    """The entries of a `Turn`. turn: mode -> `observe_turn`."""
    seconds = {mode: statistics.fmean(worker["total_s"] / len(worker["steps_s"]) for worker in workers)
               for mode, workers in turn.items()}  # fmt: skip
    if NONE not in seconds:
        return {"whole_s": seconds[WHOLE]}
    alone = [worker["steps_s"] for worker in turn[NONE]]
    waiting_s = statistics.fmean(max(each) - statistics.fmean(each) for each in zip(*alone, strict=True))
    return {
        "whole_s": seconds[WHOLE],
        "empty_s": seconds[EMPTY],
        "computation_s": seconds[NONE],
        "waiting_s": waiting_s,
        "latency_s": seconds[EMPTY] - seconds[NONE] - waiting_s,
        "exposed_s": seconds[WHOLE] - seconds[EMPTY],
    }


def summarise_turns(rows: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """The median, least and greatest of each part over the turns."""
    return {name: time_spread([row[name] for row in rows]) for name in ("whole_s", *PARTS) if name in rows[0]}


def summary_line(result: Mapping[str, Any]) -> str:
    clock_s, whole_s = result["communication"]["exposed_s"], result["whole_s"]["median"]
    by_clock = f"{1e3 * clock_s:.3g} ms by the clock"
    if result["not_defined"]:
        return f"exposed communication is not defined: {result['not_defined']}; {by_clock}"
    parts = {name: 1e3 * result[name]["median"] for name in PARTS}
    return (
        f"{1e3 * whole_s:.3g} ms an iteration: computation {parts['computation_s']:.3g}, waiting for late workers "
        f"{parts['waiting_s']:.3g}, latency {parts['latency_s']:.3g}, exposed {parts['exposed_s']:.3g} ({by_clock})"
    )
