"""Program `convergence`: Pipe-SGD on a convex objective, against the rates that the paper states (section 3.3).

f is the mean cross-entropy of a convex model (softmax regression) over a training set plus mu / 2 ||w||^2, w* its
minimiser, f_t the same over iteration t's global minibatch, w_t the weights that gradient t is computed at. Pipe-SGD
applies gradient t when w is K - 1 updates further: tau = K - 1. The paper defers its proof to a supplement and cites
Langford, Smola, Zinkevich (NIPS 2009, its [23]) and Ho et al. (NIPS 2013, [15]). With their steps:

convex             stochastic gradients; eta_t = sigma / sqrt(t), sigma = F / (2 L sqrt(K)). [15], Theorem 1, has
                   sigma = F / (L sqrt(2 (s+1) P)) and regret below 4 F L sqrt(2 (s+1) P T); with (s+1) P = 2 K that is
                   the paper's rate, an average regret below 8 F L sqrt(K / T).
strongly convex    gradient descent on the whole training set; eta_t = 1 / (mu t); the average regret is below
                   (mu tau F^2 + (1/2 + tau) L^2 / mu (1 + log T)) / T, which is O(log T / T): [23], Theorem 4, the
                   constants as derived below.

F bounds ||w_t - w*|| / sqrt(2), L the norm of gradients. A run's own values are known only after it, but the convex
steps need them before. So a short pilot run measures them from first guesses, and the counted run uses these values
times `probe.margin`; the result reports the counted run's own values beside them.

Derivation for delayed gradients g_t applied with eta_t, D_t = ||w_t - w*||^2 / 2, w after update s being w_(s+tau):
D(after) = D(before) - eta_t <g_t, w_(t+tau) - w*> + eta_t^2 |g_t|^2 / 2, and f_t(w_t) - f_t(w*) <= <g_t, w_t - w*>
[- mu D_t]; ||w_(t+tau) - w_t|| <= L (sum of the eta in between). Summed over t,

    regret <= sum (D(before) - D(after)) / eta_t [- mu sum D_t] + (1/2 + tau) L^2 sum eta_t

convex: F^2 sqrt(T) / sigma + (1 + 2 tau) L^2 sigma sqrt(T) <= 3 F L sqrt(K T), inside the paper's 8 F L sqrt(K T).
strongly convex: mu tau F^2 + (1/2 + tau) L^2 / mu (1 + log T).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from repro import data, models, probes
from repro.core.errors import InputError
from repro.core.fields import Count, Model, Positive
from repro.experiment import needs
from repro.experiment.optimizer import Optimizer
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.probes import ResultPart
from repro.probes.shared.objective import Descent, Minimum, Objective, find_minimum, run_descent, training_subset

CONVEX, STRONGLY = "convex", "strongly convex"
POINTS = 60  # recorded iterations, at most
STEP_RULES = {
    CONVEX: "eta_t = sigma / sqrt(t), sigma = F / (2 L sqrt(K)); t counts gradients",
    STRONGLY: "eta_t = 1 / (mu t); t counts gradients; whole training set",
}


class Options(Model):
    objective: Literal["convex", "strongly convex"]
    T: Annotated[int, Field(ge=10)]  # iterations
    pilot: Count  # iterations of the pilot run
    samples: Count | None = None  # of the training set; null: all
    regularisation: Positive  # mu, small for the convex objective; it makes a minimiser exist
    margin: Annotated[float, Field(ge=1, allow_inf_nan=False)]  # factor of F and L over those of the pilot run


class RegretPoint(ResultPart):
    """t: iteration; regret: the running average, or f(w_t) - f(w*) for a strongly convex objective."""

    t: int
    regret: float
    bound: float
    average_regret: float


class Result(ResultPart):
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


ranks = needs.strategy_ranks


def check(config: RunConfig) -> None:
    """InputError for a configuration that the bounds do not cover."""
    probe, strategy = config.probe, config.strategy
    if probe.samples is not None and probe.samples < config.workers:
        raise InputError(f"probe.samples={probe.samples}: must be {config.workers} or more, one a worker")
    if models.takes_text(config.model.name):
        raise InputError(f"model={config.model.name}: program convergence is about convex models of images")
    if config.timing_only:
        raise InputError("program convergence needs testbed.arithmetic=real: without gradients nothing converges")
    if strategy.name != "pipe_sgd":
        raise InputError(f"strategy={strategy.name}: program convergence is about pipe_sgd (K=1 is D-Sync)")
    if strategy.options.warmup_epochs or strategy.options.staleness_lr:
        raise InputError("program convergence needs warmup_epochs=0 and staleness_lr=false: the bounds have one K")


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    probe, K = config.probe, config.strategy.options.K
    T, mu, convex = probe.T, probe.regularisation, probe.objective == CONVEX
    pilot = probe.pilot if convex else 0
    dataset = training_subset(data.dataset_for(config), probe.samples, config.workers)
    if convex and config.batch > len(dataset.train):
        raise InputError(f"batch={config.batch}: more than probe.samples={len(dataset.train)}")
    config = config.model_copy(update={"batch": config.batch if convex else len(dataset.train)})
    probes.announce_iterations(pilot + T, fabric.rank)
    objective = None
    if fabric.rank == 0:
        objective = Objective(models.model_for(config, dataset), dataset.train, mu)
    first = fabric.exchange(objective and (objective.weights(), objective.gradient_norm()))[0]
    minimum = find_minimum(fabric, objective)

    def go(rate: Optimizer, iterations: int, done: int) -> Descent:
        return run_descent(
            fabric, config, dataset, rate, mu, minimum.weights, iterations, logarithmic_steps(iterations), done
        )

    if convex:
        start = {"F": (first[0] - minimum.weights).norm().item() / math.sqrt(2), "L": first[1]}
        first_run = go(inverse_sqrt(**start, K=K), pilot, 0)
        F, L = probe.margin * first_run.F, probe.margin * first_run.L
        counted = go(inverse_sqrt(F, L, K), T, pilot)
    else:
        counted = go(inverse_rate(mu), T, 0)
        F, L = counted.F, counted.L
    model, parameters = config.model.name, len(minimum.weights)
    if objective is None:  # rank 0 reports
        return probes.Finding({}, {}, "", model, parameters, dataset)
    result = evaluate_bounds(config, counted, minimum, objective, F, L)
    last, fitted = result["points"][-1], result["slope"]
    metrics = {"regret": last["regret"], "bound": last["bound"]} | ({} if fitted is None else {"slope": fitted})
    line = (
        f"{'average regret' if convex else 'suboptimality'} {last['regret']:.3g} after {last['t']} iterations, "
        f"{'no slope' if fitted is None else f'slope {fitted:.2f}'}, "
        f"{'within' if result['within_bound'] else 'not within'} the bound"
    )
    return probes.Finding(result, metrics, line, model, parameters, dataset)


def evaluate_bounds(
    config: RunConfig, counted: Descent, minimum: Minimum, objective: Objective, F: float, L: float
) -> dict[str, Any]:
    """The result. regret: the average up to t (convex), or f(w_t) - f* (strongly convex)."""
    probe, K, T = config.probe, config.strategy.options.K, config.probe.T
    convex, mu = probe.objective == CONVEX, probe.regularisation
    average = counted.average_regret(None if convex else minimum.value)
    points = []
    for t in counted.snapshots:
        bound = convex_bound(F, L, K, t) if convex else strongly_convex_bound(F, L, K, mu, t)
        now = average[t - 1] if convex else objective.value(counted.snapshots[t]) - minimum.value
        points.append({"t": t, "regret": now, "bound": bound, "average_regret": average[t - 1]})
    slope_from = max(2, T // 10)
    tail = [point for point in points if point["t"] >= slope_from]
    return {
        "objective": probe.objective,
        "K": K,
        "T": T,
        "F": F,
        "L": L,
        "F_met": counted.F,
        "L_met": counted.L,
        "constants_hold": counted.F <= F and counted.L <= L,
        "optimum": minimum.value,
        "optimum_gradient_norm": minimum.gradient_norm,
        "optimum_gap": minimum.gap,
        "regularisation": mu,
        "samples": len(objective.y),
        "batch": config.batch,
        "step_rule": STEP_RULES[probe.objective],
        "points": points,
        "slope": log_slope([(point["t"], point["regret"]) for point in tail]),
        "slope_from_t": slope_from,
        "constant": None if convex else max(p["regret"] * p["t"] / math.log(p["t"]) for p in tail),
        "within_bound": all(max(p["regret"], p["average_regret"]) <= p["bound"] for p in points),
    }


# --- step rules, bounds and slopes
def inverse_sqrt(F: float, L: float, K: int) -> Optimizer:
    """The steps of the convex objective."""
    return Optimizer(lr=F / (2 * L * math.sqrt(K)), schedule="inverse_sqrt")


def inverse_rate(mu: float) -> Optimizer:
    """The steps of the strongly convex objective."""
    return Optimizer(lr=1 / mu, schedule="inverse")


def convex_bound(F: float, L: float, K: int, t: int) -> float:
    """The bound of the average regret: 8 F L sqrt(K / t)."""
    return 8 * F * L * math.sqrt(K / t)


def strongly_convex_bound(F: float, L: float, K: int, mu: float, t: int) -> float:
    """The bound of the average regret: (mu tau F^2 + (1/2 + tau) L^2 / mu (1 + log t)) / t, tau = K - 1."""
    tau = K - 1
    return (mu * tau * F**2 + (0.5 + tau) * L**2 / mu * (1 + math.log(t))) / t


def logarithmic_steps(T: int) -> list[int]:
    """At most POINTS iterations from 1 to T, about evenly spaced in their logarithms."""
    return sorted({round(T ** (i / (POINTS - 1))) for i in range(POINTS)})


def log_slope(series: Sequence[tuple[float, float]]) -> float | None:
    """Least squares of log y against log t; None if fewer than two y are above 0."""
    logs = [(math.log(t), math.log(y)) for t, y in series if y > 0]
    if len(logs) < 2:
        return None
    mean_t, mean_y = (sum(column) / len(logs) for column in zip(*logs))
    return sum((t - mean_t) * (y - mean_y) for t, y in logs) / sum((t - mean_t) ** 2 for t, _ in logs)
