"""The rows of Table 1, its variants, and the configurations of pipelines.

In every strategy an iteration is a minibatch of each worker (a pipeline takes them one after another), so that samples
a second are comparable. Only runs of pipelines have `pipeline` and `per_rank`.
"""

from __future__ import annotations

from collections.abc import Mapping

from repro.answers.tables.runs import Runs
from repro.records.record import Found, TrainResult

PAPER = "pipedream"
# experiment -> the paper's name of the row of Table 1, or of a throughput that section 5.2 gives in the text
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
# BSP is the paper's, with a sharded server; ALLREDUCE is BSP with a ring allreduce
SINGLE, BSP, ALLREDUCE, PIPEDREAM, ASP = "single", "bsp", "bsp-allreduce", "pipedream", "asp"
MIXED = "replicated pipeline"  # data, model and pipeline parallelism together

Rates = Mapping[tuple[str, str], float]  # (experiment, variant) -> samples a second


def describe_stages(run: Found) -> str:
    """`7-1`; "" for a run without stages."""
    result = run.record.result
    return str((result.pipeline or {}).get("config") or "") if isinstance(result, TrainResult) else ""


def replicas(config: str) -> list[int]:
    """The replicas of each stage of a configuration: [7, 1] for `7-1`."""
    return [int(part) for part in config.split("-")]


def shape(config: str) -> str:
    """The kind of parallelism of a configuration."""
    counts = replicas(config)
    return "data parallelism" if len(counts) == 1 else "straight pipeline" if max(counts) == 1 else MIXED


def machines(runs: Runs, row: str) -> int:
    """The number of machines of a row of Table 1."""
    return max(run.identity.workers for run in runs.records.values() if run.identity.experiment == row)
