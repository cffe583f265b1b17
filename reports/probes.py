"""Results of the probes (programs other than `train`): loaded, checked, and grouped by experiment, kind and place.

What each program's `result` holds is checked here against `RESULTS`: a name alone is required; a mapping or a list of
mappings has the names that are required inside. Simulated testbeds are an axis of a group, not groups of their own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.reports import factors
from repro.reports.groups import finished
from repro.reports.loading import KINDS, Summary, read

REQUIRED = (
    *("paper", "experiment", "setting", "program", "kind", "testbed", "fabric", "launcher", "workers", "seed"),
    *("hardware", "provenance", "result"),
)
_SECONDS = {"median", "min", "max"}
RESULTS: dict[str, dict[str, Any]] = {
    "timing": {
        "gradient_bytes": None,
        "fit": {"alpha_s", "beta_s_per_byte", "gamma_s_per_byte", "sync_s", "points"},
        "settings": [{"setting", "strategy", "options", "observed_s", "predicted_s", "equation", "terms",
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
        "rows": [{"setting", "strategy", "twin", "bytes", "observed_s", "simulated_s", "computation_s"}],
    },
    "p2p": {"points": [{"bytes", "mean_s", "deviation_s", "runs"}],
            "fit": {"alpha_s", "beta_s_per_byte", "relative_error"}},
    "sparse_collectives": {
        "network": {"alpha_s", "beta_s_per_byte"},
        "rows": [{"algorithm", "ranks", "bytes", "density", "k", "seconds", "closed_form_s", "wire_bytes"}],
    },
    "partial_collectives": {"rows": [{"collective", "ranks", "bytes", "skew_s", "calls", "latency_s", "nap"}]},
    "runtimes": {"what": None, "batches": None, "seconds": None,
                 "statistics": {"min", "max", "mean", "sd", "median", "n"}},
    "lengths": {"splits": None},
    "layer_sizes": {"layers": [{"name", "activation_bytes", "parameter_bytes"}], "parameter_bytes": None},
    "configurations": {
        "rows": [{"model", "cluster", "machines", "bandwidth_Bps", "cost_model", "config", "noam", "optima",
                  "speedup_single", "speedup_bsp"}],
    },
    "batching": {"rows": [{"family", "layers", "startup", "profiles", "modes", "no_pair", "exetime_below",
                           "prefers_longer"}]},
    "selection": {"rows": [{"model", "elements", "k", "method", "device", "seconds", "iteration_s", "share", "found"}]},
}  # fmt: skip
# Inside the entries of a list: mappings that need these names.
INNER = {
    "latency_s": {"mean", "min", "max"},
    "observed_s": _SECONDS,
    "seconds": _SECONDS,
    "terms": {"l_up", "l_comp", "l_comm"},
}


@dataclass(frozen=True)
class ProbeGroup:
    """A probe's runs that may stand in one figure: of one experiment, kind, place and scale; the latest of each."""

    key: tuple
    summaries: tuple[Summary, ...]

    @property
    def kind(self) -> str:
        return self.first["kind"]

    @property
    def program(self) -> str:
        return self.first["program"]

    @property
    def first(self) -> Summary:
        return self.summaries[0]

    @property
    def standin(self) -> bool:
        data = [run.get("dataset") for run in self.summaries]
        return any(isinstance(one, Mapping) and bool(one.get("standin")) for one in data)

    @property
    def timing_only(self) -> bool:
        return False

    @property
    def latest(self) -> str:
        return max(map(finished, self.summaries))

    def used(self) -> list[Summary]:
        return list(self.summaries)

    def seeds(self) -> list[int]:
        return sorted({run["seed"] for run in self.summaries})

    def of_seed(self, seed: int) -> list[Summary]:
        return [run for run in self.summaries if run["seed"] == seed]


def model(run: Summary) -> str:
    """What a run is about: the model among its factors, else its model's name."""
    if found := factors.of(run).get("model"):
        return str(found)
    known = run.get("model")
    name = known.get("name") if isinstance(known, Mapping) else known
    return str(name or run["setting"])


def bandwidth(run: Summary) -> float:
    """Bytes a second of the testbed's links; 0 where nobody knows (measured)."""
    beta = (run.get("testbed_model") or {}).get("beta_s_per_byte")
    return 1 / beta if beta else 0.0


def load(paper: str, root: Path | None = None) -> list[Summary]:
    """Every finished probe run's summary of a paper in path order, checked to have what the reports read."""
    return read(paper, root, lambda program: program != "train", problem)


def problem(summary: Summary) -> str | None:
    """What is wrong with a probe's summary, in a few words."""
    if missing := [key for key in REQUIRED if key not in summary]:
        return f"missing: {', '.join(missing)}"
    if summary["kind"] not in KINDS:
        return f"kind '{summary['kind']}', not {' or '.join(KINDS)}"
    for key in ("hardware", "provenance", "result"):
        if not isinstance(summary[key], dict):
            return f"{key} is not an object"
    if "class" not in summary["hardware"]:
        return "missing in hardware: class"
    for key, inner in RESULTS.get(summary["program"], {}).items():
        if key not in summary["result"]:
            return f"missing in result: {key}"
        if inner and (wrong := _inside(f"result.{key}", summary["result"][key], inner)):
            return wrong
    return None


def _inside(name: str, value: Any, wanted: set[str] | list[set[str]]) -> str | None:
    if isinstance(wanted, list):
        if not isinstance(value, list):
            return f"{name} is not a list"
        return next((wrong for i, one in enumerate(value) if (wrong := _inside(f"{name}[{i}]", one, wanted[0]))), None)
    if not isinstance(value, dict):
        return f"{name} is not an object"
    if missing := sorted(wanted - set(value)):
        return f"missing in {name}: {', '.join(missing)}"
    for key in sorted(wanted & set(INNER)):
        if wrong := _inside(f"{name}.{key}", value[key], INNER[key]):
            return wrong
    return None


def key_of(summary: Summary) -> tuple:
    """What must be equal within a group. Simulated: the papers' testbeds together, others by themselves."""
    if summary["kind"] == "simulated":
        name = summary["testbed"]
        place: tuple = ("paper",) if name.startswith("paper/") else ("other", name)
    else:
        place = (summary["hardware"]["class"], summary["testbed"], summary["launcher"], summary.get("threads_per_rank"))
    return (summary["experiment"], summary["kind"], place, summary.get("scale"))


def groups(summaries: Sequence[Summary]) -> list[ProbeGroup]:
    """The runs by `key_of`: of each variant, testbed, model, world size and seed the latest."""
    found: dict[tuple, dict[tuple, Summary]] = {}
    for summary in sorted(_latest_parameters(summaries), key=finished):
        place = (summary["setting"], summary["testbed"], model(summary), summary["workers"], summary["seed"])
        found.setdefault(key_of(summary), {})[place] = summary
    order = {key: sorted(by_place, key=lambda c: (c[1:3], c[3], c[0], c[4])) for key, by_place in found.items()}
    return [ProbeGroup(key, tuple(found[key][place] for place in order[key])) for key in sorted(found, key=repr)]


def _latest_parameters(summaries: Sequence[Summary]) -> list[Summary]:
    """Without simulated runs whose testbed had other parameters under the same name than in its latest run."""

    def place(summary: Summary) -> tuple:
        return summary["experiment"], summary["testbed"]

    def parameters(summary: Summary) -> str:
        return json.dumps(summary.get("testbed_model"), sort_keys=True)

    current = {place(s): parameters(s) for s in sorted(summaries, key=finished) if s["kind"] == "simulated"}
    return [s for s in summaries if s["kind"] != "simulated" or current[place(s)] == parameters(s)]


def choose(summaries: Sequence[Summary], experiment: str) -> tuple[dict[str, ProbeGroup], list[ProbeGroup]]:
    """(kind -> the group that figures show, the experiment's other groups): most runs, a paper's testbeds, latest."""
    found = groups([s for s in summaries if s["experiment"] == experiment])
    chosen: dict[str, ProbeGroup] = {}
    for kind in KINDS:
        if of_kind := [group for group in found if group.kind == kind]:
            chosen[kind] = max(of_kind, key=lambda g: (len(g.summaries), g.key[2] == ("paper",), g.latest))
    return chosen, [group for group in found if group not in chosen.values()]
