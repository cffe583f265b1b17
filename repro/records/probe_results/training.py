"""Results of the probes of training steps, and of the harness itself."""

from __future__ import annotations

from typing import Any

from repro.records.probe_results.parts import Computation, Point, Result, ResultPart, Spread, Steps


class Fit(ResultPart):
    """The fit of equation (5): seconds, and seconds per byte; relative_error: the largest of all points."""

    alpha_s: float
    beta_s_per_byte: float
    gamma_s_per_byte: float
    sync_s: float
    relative_error: float
    points: list[Point]


class Variant(Steps):
    """Predicted and observed step of a variant (s). printed_s: by the equation as printed, if there is one; efficiency:
    scaling efficiency, equation (7)."""

    variant: str
    strategy: str
    options: dict[str, Any]
    predicted_s: float
    equation: str
    printed_s: float | None
    terms: dict[str, float]
    efficiency_predicted: float
    efficiency_observed: float


class Timing(Result, program="timing"):
    """codecs: name -> encode_s_per_byte, decode_s_per_byte. segments_bytes: number of buckets -> bytes of each."""

    gradient_bytes: int
    fit: Fit
    codecs: dict[str, dict[str, float]]
    compute: Computation
    segments_bytes: dict[str, list[int]]
    note: str | None
    variants: list[Variant]


class SizeLatency(ResultPart):
    bytes: int
    alpha_s: float


class FittedNetwork(ResultPart):
    """beta: the slope of long messages; alpha_by_size: remaining time of each size; alpha_s: that of the shortest."""

    alpha_s: float
    beta_s_per_byte: float
    alpha_by_size: list[SizeLatency]
    points: list[Point]
    quantum_bytes: int | None = None  # of older records


class Calibration(Computation):
    """seconds_per_byte: of a rank's own work. interference: extra seconds of computation per second of concurrent
    communication."""

    seconds_per_byte: dict[str, float]
    interference: float


class SimulatedVariant(Steps):
    """A variant's observed step on a workload, and the step simulated from the calibration alone (s)."""

    variant: str
    strategy: str
    options: dict[str, Any]
    twin: str
    bytes: int
    simulated_s: float
    simulated_phases: dict[str, float]
    computation_s: float
    calibration: Calibration


class Validation(Result, program="validation"):
    """networks: messages, native, blocking."""

    computation: str
    networks: dict[str, FittedNetwork]
    rows: list[SimulatedVariant]


class RegretPoint(ResultPart):
    """t: iteration; regret: the running average, or f(w_t) - f(w*) for a strongly convex objective."""

    t: int
    regret: float
    bound: float
    average_regret: float


class Convergence(Result, program="convergence"):
    """F, L: constants of the bound; F_met, L_met: their values in the run. optimum_gap: upper bound of the distance to
    the minimum.

    slope: of log(regret) against log(t), from slope_from_t on. constant: of log(t) / t (strongly convex).
    """

    objective: str
    K: int
    T: int
    F: float
    L: float
    F_met: float
    L_met: float
    constants_hold: bool
    optimum: float
    optimum_gradient_norm: float
    optimum_gap: float
    regularisation: float
    samples: int
    batch: int
    step_rule: str
    points: list[RegretPoint]
    slope: float | None
    slope_from_t: int
    constant: float | None
    within_bound: bool


class LoopTurn(ResultPart):
    turn: int
    bare_s: float
    harness_s: float


class Loop(Result, program="loop"):
    """Seconds per step: CPU time or wall time (`timed`), medians over the turns.

    of_best: ratio of the fastest turns, which were disturbed least; the goal applies to it. same_weights: bit for bit;
    layouts and compilation may round differently.
    """

    timed: str
    iterations_a_turn: int
    rows: list[LoopTurn]
    bare_s: float
    harness_s: float
    of_best: float
    goal: float
    met: bool
    same_weights: bool


class Throughput(ResultPart):
    """side: `bare`, or a variant."""

    turn: int
    side: str
    samples_per_s: float


class VirtualVariant(ResultPart):
    """of_bare: samples a second over the bare loop's, of the fastest turns. difference: of the weights after ten steps
    side by side from those one rank after the other, relative to their norm; 0 if the bits are the same."""

    variant: str
    of_bare: float
    difference: float


class VirtualWorkers(Result, program="virtual_workers"):
    """cores: of the machine; the bare loop uses all."""

    workers: int
    cores: int
    rows: list[Throughput]
    variants: list[VirtualVariant]
    goal: float
    met: bool


class Repetition(ResultPart):
    """what: `again` or `resumed`."""

    what: str
    same: bool
    ranks: int


class Repeats(Result, program="repeats"):
    """deterministic: as the strategy declares. weights_sha256: of rank 0."""

    iterations: int
    rows: list[Repetition]
    same: bool
    deterministic: bool
    weights_sha256: str


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


class Profiler(Result, program="profiler"):
    """within: permitted difference of the shares; agree: whether all ranks are within it."""

    steps: int
    iteration_s: float
    within: float
    agree: bool | None
    rows: list[RankOverlap]


class StartTime(ResultPart):
    """what: torchrun, planned anew, planned before (seconds until the end of the first step); nothing to run (CPU
    seconds); forked, fresh (seconds of the fastest step)."""

    what: str
    seconds: Spread


class FirstStep(Result, program="first_step"):
    rows: list[StartTime]


class SimulatorSpeed(ResultPart):
    """An algorithm's messages per CPU second, and the virtual seconds of the allreduce."""

    ranks: int
    algorithm: str
    messages_per_s: float
    virtual_s: float
    closed_form_s: float


class Simulator(Result, program="simulator"):
    rows: list[SimulatorSpeed]
