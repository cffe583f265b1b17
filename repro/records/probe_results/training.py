"""What the probes of training steps find, and those of the harness itself."""

from __future__ import annotations

from typing import Any

from repro.records.probe_results.parts import Computation, Found, Point, Result, Spread, Steps


class Fit(Found):
    """Of equation (5): seconds, and seconds a byte; relative_error: the largest of the points'."""

    alpha_s: float
    beta_s_per_byte: float
    gamma_s_per_byte: float
    sync_s: float
    relative_error: float
    points: list[Point]


class Variant(Steps):
    """A variant: its step predicted and observed (s). printed_s: by the equation as printed, where it has one;
    efficiency: of scaling, equation (7)."""

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


class SizeLatency(Found):
    bytes: int
    alpha_s: float


class FittedNetwork(Found):
    """beta: the slope of long messages; alpha_by_size: what each size takes besides; alpha_s: the shortest's."""

    alpha_s: float
    beta_s_per_byte: float
    alpha_by_size: list[SizeLatency]
    points: list[Point]
    quantum_bytes: int | None = None  # of older records


class Calibration(Computation):
    """seconds_per_byte: of a rank's own work. interference: seconds that computation takes longer for each second of
    communication beside it."""

    seconds_per_byte: dict[str, float]
    interference: float


class Simulated(Steps):
    """A variant on a workload: its step observed, and simulated (s) from the calibration alone."""

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
    rows: list[Simulated]


class At(Found):
    """Iteration t; regret: the average so far, or of the strongly convex objective f(w_t) - f(w*)."""

    t: int
    regret: float
    bound: float
    average_regret: float


class Convergence(Result, program="convergence"):
    """F, L: of the bound, and as met by the counted run. optimum_gap: the value is at most so far above the minimum.

    slope: of the logarithms of regret against t, from slope_from_t on. constant: of log(t) / t (strongly convex).
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
    points: list[At]
    slope: float | None
    slope_from_t: int
    constant: float | None
    within_bound: bool


class LoopTurn(Found):
    turn: int
    bare_s: float
    harness_s: float


class Loop(Result, program="loop"):
    """Seconds are of a step: CPU time or wall time (`timed`), medians over the turns.

    of_best: of the two sides' least, which the rest of the machine has disturbed least, and which the goal is on.
    same_weights: bit for bit; layouts and compilation may round otherwise.
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


class Repeated(Found):
    """what: again, or resumed."""

    what: str
    same: bool
    ranks: int


class Repeats(Result, program="repeats"):
    """deterministic: what the strategy says of itself. weights_sha256: rank 0's."""

    iterations: int
    rows: list[Repeated]
    same: bool
    deterministic: bool
    weights_sha256: str


class View(Found):
    """Of the communication beside the main line (s): all, hidden by computation, and that share of it."""

    communication_s: float
    hidden_s: float
    share: float | None


class Compared(Found):
    """A rank; difference: the clock's share minus the profiler's."""

    rank: int
    clock: View
    profiler: View
    difference: float | None


class Profiler(Result, program="profiler"):
    """within: by how much the two views' shares may differ; agree: whether all do."""

    steps: int
    iteration_s: float
    within: float
    agree: bool | None
    rows: list[Compared]


class Start(Found):
    """what: torchrun, planned anew, planned before (seconds until the first step is over); nothing to run (CPU
    seconds); forked, fresh (seconds of the fastest step)."""

    what: str
    seconds: Spread


class FirstStep(Result, program="first_step"):
    rows: list[Start]


class Speed(Found):
    """By which algorithm, messages a CPU second; virtual seconds that the allreduce takes."""

    ranks: int
    algorithm: str
    messages_per_s: float
    virtual_s: float
    closed_form_s: float


class Simulator(Result, program="simulator"):
    rows: list[Speed]
