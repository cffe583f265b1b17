"""Results of probes: each is of the form that its probe declares, and has what pages read.

To know the first imports the probe, and so PyTorch: it is done where a record is written and where one comes from
elsewhere. Commands that show records import none; for these stands here what pages read of each program.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from repro.core.fields import line
from repro.core.registry import PROBES

Form = None | set[str] | list[set[str]]  # a name alone; a mapping with these names; a list of such mappings
_SECONDS = {"median", "min", "max"}
RESULTS: Mapping[str, Mapping[str, Form]] = {
    "timing": {
        "gradient_bytes": None,
        "fit": {"alpha_s", "beta_s_per_byte", "gamma_s_per_byte", "sync_s", "points"},
        "variants": [{"variant", "strategy", "options", "observed_s", "predicted_s", "equation", "terms",
                      "efficiency_predicted", "efficiency_observed"}],
    },
    "ring": {
        "variants": [{"name", "algorithm", "codec", "bytes", "seconds", "communication_s", "work_s", "overlapped_s",
                      "closed_form_s", "trace"}],
        "overheads": [{"benchmark", "bytes", "codec", "work_s", "communication_uncompressed_s",
                       "communication_compressed_s", "per_uncompressed", "per_compressed"}],
    },
    "convergence": {"objective": None, "K": None, "T": None, "points": [{"t", "regret", "bound"}], "slope": None,
                    "within_bound": None},
    "validation": {
        "computation": None,
        "networks": None,
        "rows": [{"variant", "strategy", "twin", "bytes", "observed_s", "simulated_s", "computation_s"}],
    },
    "p2p": {"points": [{"bytes", "mean_s", "deviation_s", "runs"}],
            "fit": {"alpha_s", "beta_s_per_byte", "relative_error"}},
    "shares": {"points": [{"bytes", "spread", "first_s", "last_s"}]},
    "sparse_collectives": {
        "network": {"alpha_s", "beta_s_per_byte"},
        "rows": [{"algorithm", "ranks", "bytes", "density", "k", "seconds", "closed_form_s", "wire_bytes"}],
    },
    "partial_collectives": {"rows": [{"collective", "ranks", "bytes", "skew_s", "calls", "latency_s", "nap"}]},
    "runtimes": {"what": None, "batches": None, "seconds": None,
                 "statistics": {"min", "max", "mean", "sd", "median", "n"}},
    "lengths": {"splits": None},
    "layer_sizes": {"layers": [{"name", "activation_bytes", "parameter_bytes"}], "parameter_bytes": None},
    "layer_times": {"profile": {"model", "batch", "hardware", "layers"}, "seconds": None, "parameter_bytes": None},
    "configurations": {
        "rows": [{"model", "cluster", "machines", "bandwidth_Bps", "cost_model", "config", "noam", "optima",
                  "speedup_single", "speedup_bsp"}],
    },
    "batching": {"rows": [{"family", "layers", "startup", "profiles", "modes", "no_pair", "exetime_below",
                           "prefers_longer"}]},
    "loop": {"of_best": None, "goal": None, "rows": [{"turn", "harness_s", "bare_s"}]},
    "repeats": {"same": None, "deterministic": None, "rows": [{"what", "same", "ranks"}]},
    "profiler": {"steps": None, "iteration_s": None, "rows": [{"rank", "clock", "profiler", "difference"}]},
    "selection": {"rows": [{"model", "elements", "k", "method", "device", "seconds", "iteration_s", "share", "found"}]},
}  # fmt: skip
# mappings within the entries of these lists
INNER: Mapping[str, Form] = {
    "latency_s": {"mean", "min", "max"},
    "observed_s": _SECONDS,
    "seconds": _SECONDS,
    "terms": {"l_up", "l_comp", "l_comm"},
}


def check(program: str, found: Mapping[str, Any]) -> None:
    """ValueError for a result that lacks an entry that pages read."""
    if wrong := _missing("result.found", found, RESULTS.get(program, {})):
        raise ValueError(wrong)


def check_declared(program: str, found: Mapping[str, Any]) -> None:
    """ValueError for a result that is not what its probe declares as `Result`; imports the probe, and so PyTorch."""
    if declared := getattr(PROBES.load(program), "Result", None):
        try:
            declared.model_validate(found)
        except ValidationError as error:
            raise ValueError(f"result.found.{line(error)}") from None


def _missing(name: str, value: Mapping[str, Any], form: Mapping[str, Form]) -> str | None:
    if missing := [key for key in form if key not in value]:
        return f"missing{f' in {name}' if name else ''}: {', '.join(missing)}"
    found = (_inside(f"{name}.{key}" if name else key, value[key], inner) for key, inner in form.items() if inner)
    return next((wrong for wrong in found if wrong), None)


def _inside(name: str, value: Any, wanted: Form) -> str | None:
    if isinstance(wanted, list):
        if not isinstance(value, list):
            return f"{name} is not a list"
        return next((wrong for i, one in enumerate(value) if (wrong := _inside(f"{name}[{i}]", one, wanted[0]))), None)
    if not isinstance(value, dict):
        return f"{name} is not an object"
    names = wanted or set()
    return _missing(name, value, dict.fromkeys(sorted(names)) | {key: INNER[key] for key in INNER if key in names})
