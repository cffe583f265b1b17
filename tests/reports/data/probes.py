"""Synthetic summaries of probes, and of a whole page, for the tests of the reports room."""

from __future__ import annotations

from typing import get_args, get_origin

from pydantic import BaseModel

from repro.core.registry import PROBES
from tests.reports.data.summaries import (
    MS,
    make,
)
from tests.support.records import record_of


def whole(form, given):
    """A result with something in each place of its form that the given one leaves empty."""
    if isinstance(form, type) and issubclass(form, BaseModel) and isinstance(given, dict | None):
        given = given or {}
        needed = {name for name, field in form.model_fields.items() if field.is_required()} | given.keys()
        fields = form.model_fields
        return {name: whole(fields[name].annotation, given.get(name)) for name in fields if name in needed}
    origin, inner = get_origin(form), get_args(form)
    if origin is list:
        return [whole(inner[0], each) for each in given or []]
    if origin is dict:
        return {name: whole(inner[1], each) for name, each in (given or {}).items()}
    if given is not None or type(None) in inner:
        return given
    return next((kind() for kind in inner or (form,) if kind in (int, float, bool)), "")


def probe(program, experiment, variant, result, kind="measured", seed=0, testbed=None, workers=4, **changes):
    """A synthetic summary of a probe."""
    one = make("D-Sync", kind, seed)
    keep = ("status", "paper", "kind", "fabric", "launcher", "seed", "scale", "hardware", "testbed_model",
            "provenance", "batch", "breakdown")  # fmt: skip
    testbed = testbed or one["testbed"]
    name = f"{variant}-{testbed}-{workers}-{kind}-{seed}".replace("/", "-")
    made = {key: one[key] for key in keep} | {
        "experiment": experiment, "variant": variant, "program": program, "testbed": testbed, "workers": workers,
        "ranks": workers, "strategy": "dsync", "options": {}, "model": {"name": "mnist_mlp", "parameters": 648010},
        "dataset": {"name": "mnist", "standin": False}, "key": name, "run": name, "metrics": {}, "line": "",
        "result": whole(PROBES.load(program).Result, result),
    } | changes  # fmt: skip
    return {"identity": record_of(made).identity} | made


def timing_entry(variant, step, predicted, comp, comm, equation, strategy="pipe_sgd", **options):
    """One of a timing result's variants; seconds."""
    options = {"codec": "none", "algorithm": "ring"} | options
    return {
        "variant": variant, "strategy": strategy, "options": options, "steps": 20,
        "observed_s": {"median": step, "min": 0.95 * step, "max": 1.2 * step}, "predicted_s": predicted,
        "equation": equation, "printed_s": None if equation == "server" else 0.98 * predicted,
        "terms": {"l_up": 0.1 * comp, "l_comp": 0.9 * comp, "l_comm": comm},
        "phases": {}, "communication": {"total_s": comm, "exposed_s": 0.0, "overlapped_s": comm},
        "efficiency_predicted": comp / max(comp, comm), "efficiency_observed": min(1.0, comp / step),
    }  # fmt: skip


FIT_SIZES = (1e3, 1e5, 1e7)


def timing_result(workers, beta, slow=1.0, kinds=("D-Sync", "Pipe-SGD", "Pipe-SGD + T"), segments=(1, 2, 4)):
    """A timing result whose numbers follow the equations, the observed ones `slow` times as long."""
    comp, n, alpha = 4 * MS, 2_592_040, 5e-5

    def ring(factor=1.0, L=1):
        return 2 * (workers - 1) * alpha * L + 2 * (workers - 1) / workers * n * factor * beta

    made = []
    if "D-Sync" in kinds:
        made.append(timing_entry("D-Sync", slow * (comp + ring()), comp + ring(), comp, ring(), "(2)", "dsync"))
        made.append(timing_entry("PS-Sync", slow * (comp + 2 * ring()), comp + 2 * ring(), comp, 2 * ring(), "server",
                                 "ps_sync"))  # fmt: skip
    for L in segments:
        name = "Pipe-SGD" if L == 1 else f"Pipe-SGD, L = {L}"
        step = max(comp, ring(L=L))
        given = {"segments": L} if L > 1 else {}  # as in a probe's configuration: K = 2 and L = 1 go without saying
        equation = "(5)" if L == 1 else "(6)"
        made.append(timing_entry(name, slow * step, step, comp, ring(L=L), equation, **given))
        if len(segments) > 1:
            step = comp + ring(L=L) / L
            made.append(timing_entry(f"K = 1, L = {L}", slow * step, step, comp, ring(L=L), "(2)", K=1, segments=L))
    if "Pipe-SGD + T" in kinds:
        step = max(comp, ring(0.5))
        made.append(timing_entry("Pipe-SGD + T", slow * step, step, comp, ring(0.5), "(5)", codec="truncate16"))
    points = [{"bytes": size, "seconds": 1.1 * (alpha + size * beta), "fitted_s": alpha + size * beta}
              for size in FIT_SIZES]  # fmt: skip
    return {
        "gradient_bytes": n,
        "fit": {"alpha_s": alpha, "beta_s_per_byte": beta, "gamma_s_per_byte": 1e-10, "sync_s": 0.0,
                "relative_error": 0.02, "points": points},
        "codecs": {}, "compute": {"forward_s": MS, "backward_s": 2 * MS, "update_s": MS,
                                  "first_segment_backward_s": {"2": MS}},
        "variants": made,
    }  # fmt: skip


def timings(seeds=2):
    """timing-model at several world sizes, gradient-communication on several networks."""
    found = []
    for seed in range(seeds):
        for workers in (2, 3, 4):
            result = timing_result(workers, 2e-9, 1.3 + 0.1 * seed, segments=(1,))
            found.append(probe("timing", "timing-model", f"p = {workers}", result, "measured", seed, workers=workers))
    for workers in (2, 4, 8, 16):
        for model in ("mnist_mlp", "alexnet"):
            result = timing_result(workers, 8e-10 if model == "mnist_mlp" else 8e-9, 1.01, segments=(1,))
            name = "AlexNet" if model == "alexnet" else "MNIST-MLP"
            one = probe("timing", "timing-model", f"{name}, p={workers}", result, "simulated", workers=workers)
            found.append(
                one | {"factors": {"model": name, "workers": workers}, "model": {"name": model, "parameters": 5}}
            )
    for gigabits in (1, 10, 25, 100):
        beta = 8e-10 * 10 / gigabits
        result = timing_result(4, beta, kinds=(), segments=(1, 2, 4, 8))
        if gigabits == 100:
            result["variants"][2]["observed_s"] |= {"median": 3.5 * MS, "min": 3.5 * MS}
        one = probe("timing", "gradient-communication", f"MNIST-MLP on {gigabits} Gbit/s", result, "simulated",
                    testbed=f"paper/pipesgd-{gigabits}g")  # fmt: skip
        one["factors"] = {"model": "MNIST-MLP", "gbit": gigabits}
        found.append(one | {"testbed_model": one["testbed_model"] | {"beta_s_per_byte": beta}})
    return found
