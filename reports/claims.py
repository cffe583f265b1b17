"""The claims files (`paper_configs/claims/<paper>.yaml`): read, checked, and handed out as data.

A claim names a function of `repro.reports.compute` or of one of the modules that add to its `FUNCTIONS`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repro.common import yaml_files
from repro.common.errors import InputError
from repro.common.paths import CONFIGS
from repro.reports import (  # noqa: F401  they add to FUNCTIONS
    compute_batches,
    compute_eager,
    compute_findings,
    compute_ibatch,
    compute_imbalance,
    compute_pipedream,
    compute_pipelines,
    compute_scaling,
    compute_sparse,
    compute_timing,
)
from repro.reports.compute import FUNCTIONS
from repro.reports.loading import KINDS

ABOUT = ("time", "accuracy", "theory", "data")
FIELDS = {"id", "about", "text", "source", "experiment", "paper", "tolerance", "direction", "minimum_seeds", "compute"}


@dataclass(frozen=True)
class Claim:
    """One claim of a paper: its number as a range (open ends are None), and how ours is computed and judged."""

    id: str
    about: str  # time, accuracy (not judged on stand-in data), theory, or data (its function says what is made up)
    text: str
    source: str  # section and figure of the paper
    experiment: str  # whose results speak to it
    low: float | None
    high: float | None
    shown: str  # the paper's number as the paper prints it
    unit: str  # of ours: "x", "%" (printed x 100) or ""
    absolute: float  # widening of the range: + absolute, x (1 + relative)
    relative: float
    above: float | None  # "same direction" means > above and < below
    below: float | None
    minimum_seeds: Mapping[str, int]
    compute: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Claims:
    """A claims file: claims, deviations that no summary can tell, and the paper's contradictions."""

    paper: str
    claims: tuple[Claim, ...]
    deviations: tuple[Mapping[str, str], ...]
    contradictions: tuple[Mapping[str, str], ...]


def read_claims(paper: str, folder: Path | None = None) -> Claims:
    """Read and check `claims/<paper>.yaml`; a mistake in it is one line naming the claim."""
    import yaml

    path = (folder or CONFIGS / "claims") / f"{paper}.yaml"
    try:
        content = yaml_files.read(path)
    except (OSError, yaml.YAMLError) as error:
        raise InputError(f"{path}: not a readable claims file ({' '.join(str(error).split())})") from None
    try:
        claims = tuple(_claim(entry) for entry in content["claims"])
        notes = [
            tuple({k: " ".join(str(v).split()) for k, v in entry.items()} for entry in content.get(name) or ())
            for name in ("deviations", "contradictions")
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path}: {error.args[0] if error.args else error}") from None
    if twice := {claim.id for claim in claims if sum(c.id == claim.id for c in claims) > 1}:
        raise InputError(f"{path}: claim '{min(twice)}' stands there twice")
    return Claims(paper, claims, *notes)


def _claim(entry: Mapping[str, Any]) -> Claim:
    name = entry.get("id", "without id")
    if missing := sorted(FIELDS - set(entry)):
        raise ValueError(f"claim {name}: missing: {', '.join(missing)}")
    if extra := sorted(set(entry) - FIELDS):
        raise ValueError(f"claim {name}: unknown: {', '.join(extra)}")
    if entry["about"] not in ABOUT:
        raise ValueError(f"claim {name}: about '{entry['about']}'; valid: {', '.join(ABOUT)}")
    paper, tolerance, direction = entry["paper"], entry["tolerance"], entry["direction"]
    if not tolerance or set(tolerance) - {"absolute", "relative"}:
        raise ValueError(f"claim {name}: tolerance needs absolute or relative")
    if not direction or set(direction) - {"above", "below"}:
        raise ValueError(f"claim {name}: direction needs above or below")
    low, high = paper.get("low", paper.get("value")), paper.get("high", paper.get("value"))
    if low is None and high is None:
        raise ValueError(f"claim {name}: paper needs value, low or high")
    seeds = entry["minimum_seeds"]
    seeds = dict.fromkeys(KINDS, seeds) if isinstance(seeds, int) else dict(seeds)
    if set(seeds) != set(KINDS):
        raise ValueError(f"claim {name}: minimum_seeds needs a number, or one for {' and '.join(KINDS)}")
    compute = dict(entry["compute"])
    chosen = compute.pop("function", None)
    if chosen not in FUNCTIONS:
        raise ValueError(f"claim {name}: no function '{chosen}'; valid: {', '.join(sorted(FUNCTIONS))}")
    try:
        inspect.signature(FUNCTIONS[chosen]).bind(None, **compute)
    except TypeError as error:
        raise ValueError(f"claim {name}: {chosen}: {error}") from None
    return Claim(
        name,
        entry["about"],
        " ".join(entry["text"].split()),
        entry["source"],
        entry["experiment"],
        low,
        high,
        str(paper.get("shown", paper.get("value"))),
        paper.get("unit", ""),
        tolerance.get("absolute", 0.0),
        tolerance.get("relative", 0.0),
        direction.get("above"),
        direction.get("below"),
        seeds,
        chosen,
        compute,
    )
