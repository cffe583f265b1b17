"""What runs with a model in stages say of throughput and configuration, by experiment (a row of Table 1) and variant.

An iteration is a minibatch of each worker, in every strategy (a pipeline takes them one after another), so that samples
a second compare. Only summaries of pipelines have `pipeline` and `per_rank`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from repro.answers.tables.loading import Summary
from repro.experiment.config import own_file

SINGLE, BSP, ALLREDUCE, PIPEDREAM, ASP = "single", "bsp", "bsp-allreduce", "pipedream", "asp"
BASELINES = (BSP, ALLREDUCE)  # BSP's gradients through a sharded server, and through a ring allreduce

Rates = Mapping[tuple[str, str], float]  # (experiment, variant) -> samples a second


def fastest(of: Rates, row: str, variants: Sequence[str] = BASELINES) -> float | None:
    """The most samples a second of some variants of a row; None where one of them was not run."""
    return None if any((row, name) not in of for name in variants) else max(of[row, name] for name in variants)


def configuration(run: Summary) -> str:
    """`7-1`; nothing where a run had no stages."""
    return str((run.get("pipeline") or {}).get("config") or "")


def replicas(config: str) -> list[int]:
    """Replicas of each stage of `7-1`."""
    return [int(part) for part in config.split("-")]


def shape(config: str) -> str:
    """What kind of parallelism a configuration is."""
    counts = replicas(config)
    return (
        "data parallelism" if len(counts) == 1 else "straight pipeline" if max(counts) == 1 else "replicated pipeline"
    )


def machines(row: str) -> int:
    """How many machines a row of Table 1 has, as its experiment's file says."""
    return own_file(f"pipedream/{row}")["workers"]
