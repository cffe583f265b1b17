"""What runs with a model in stages say of throughput and configuration, by experiment (a row of Table 1) and variant.

An iteration is a minibatch of each worker, in every strategy (a pipeline takes them one after another), so that samples
a second compare. Only summaries of pipelines have `pipeline` and `per_rank`.
"""

from __future__ import annotations

from collections.abc import Mapping

from repro.answers.tables.loading import Summary
from repro.answers.tables.runs import Runs

PAPER = "pipedream"
# A row of Table 1, or a throughput that section 5.2 gives in the text alone, is an experiment of its own -> the row as
# the paper calls it.
ROWS = {
    "table1-vgg16-4a": "VGG16, 4 (A)",
    "table1-vgg16-8a": "VGG16, 8 (A)",
    "table1-vgg16-16a": "VGG16, 16 (A)",
    "table1-vgg16-8b": "VGG16, 8 (B)",
    "table1-inception-8a": "Inception-v3, 8 (A)",
    "table1-inception-8b": "Inception-v3, 8 (B)",
    "table1-s2vt-4a": "S2VT, 4 (A)",
    "throughput-alexnet-8b": "AlexNet, 8 (B)",
    "throughput-resnet50-8b": "ResNet-50, 8 (B)",
}
# BSP is the paper's, through a sharded server; beside it through a ring allreduce
SINGLE, BSP, ALLREDUCE, PIPEDREAM, ASP = "single", "bsp", "bsp-allreduce", "pipedream", "asp"
MIXED = "replicated pipeline"  # data, model and pipeline parallelism together

Rates = Mapping[tuple[str, str], float]  # (experiment, variant) -> samples a second


def configuration(run: Summary) -> str:
    """`7-1`; nothing where a run had no stages."""
    return str((run.get("pipeline") or {}).get("config") or "")


def replicas(config: str) -> list[int]:
    """Replicas of each stage of `7-1`."""
    return [int(part) for part in config.split("-")]


def shape(config: str) -> str:
    """What kind of parallelism a configuration is."""
    counts = replicas(config)
    return "data parallelism" if len(counts) == 1 else "straight pipeline" if max(counts) == 1 else MIXED


def machines(runs: Runs, row: str) -> int:
    """How many machines a row of Table 1 has: all but that of one alone."""
    return int(runs.frame.loc[runs.frame["experiment"] == row, "workers"].max())
