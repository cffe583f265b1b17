"""The table in docs/gpu.md of workloads with a published accuracy.

An experiment's file has its `workload` and the place of the paper's number. Everything else is from its finished runs
in the reference, and from those of paper `gpu` with the same model. `repro verify` checks the table; with `--write` it
writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from repro.core.choices import SCALES
from repro.core.fields import Model, Text, check_fields
from repro.core.not_none import not_none
from repro.experiment import config
from repro.experiment.files import own_file, own_files
from repro.records import catalogue
from repro.records.configured import Number
from repro.records.kinds import MEASURED
from repro.records.paper_numbers import parse_number, printed_number
from repro.records.record import Found

# Peak: NVIDIA's data sheet of the H100 SXM, fp32 without tensor cores. ASSUMPTIONS: a utilisation of one half, and at
# least 20 us for each pass of a block.
CARD = "one H100, fp32"
PEAK_FLOPS, UTILISATION, LAUNCH_S = 67e12, 0.5, 2e-5


def estimate_gpu_hours(config: Mapping[str, Any]) -> float:
    """GPU-hours of a training's workers for computation, without data loading and network.

    InputError if the model does not fit the data.
    """
    from repro import data  # imports PyTorch
    from repro.experiment.testbeds import Rate
    from repro.rank.factory import modelled_seconds
    from repro.training.device_times import compute_seconds

    chosen = {part: dict(config[part]) for part in ("model", "dataset")}
    model, dataset = (chosen[part].pop("name") for part in ("model", "dataset"))
    chosen["dataset"].pop("standin")
    shapes = data.load_shapes(dataset, None, **chosen["dataset"])
    card = Rate(peak_flops=PEAK_FLOPS, utilisation=UTILISATION, launch_s=LAUNCH_S)
    workers, options = config["workers"], tuple(chosen["model"].items())
    local = config["batch"] // workers
    blocks = modelled_seconds(model, tuple(shapes.input_shape), shapes.classes, local, card, options)
    step_s = compute_seconds(blocks)
    return shapes.iterations(config["batch"]) * config["epochs"] * step_s * workers / 3600


def format_hours(hours: float) -> str:
    """The estimate, rounded to its significant digits."""
    return "< 0.1" if hours < 0.05 else f"{hours:.1g}" if hours < 1 else f"{hours:.2g}"


END = "<!-- end -->"


def begin_mark(name: str) -> str:
    return f"<!-- {name}: repro verify --write -->"


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first row is its head."""
    head, *rest = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ("---",) * len(head), *rest])


def fill_table(text: str, name: str, table: str) -> str:
    """The text of a page with its table of that name replaced."""
    before, _, rest = text.partition(begin_mark(name))
    return f"{before}{begin_mark(name)}\n{table}\n{END}{rest.partition(END)[2]}"


def is_outdated(page: Path, name: str, table: str) -> bool:
    """Whether the page's table is outdated."""
    text = page.read_text(encoding="utf-8")
    return fill_table(text, name, table) != text


def write_table(page: Path, name: str, table: str) -> None:
    page.write_text(fill_table(page.read_text(encoding="utf-8"), name, table), encoding="utf-8")


NAME, PAGE = "workloads", "docs/gpu.md"
HEAD = (
    *("workload", "target", "data", f"GPU-hours, estimated ({CARD})", "ran on a GPU"),
    *("this experiment trained to it", "command (resumes)"),
)
RECIPES = "dataset.md#recipes"


class Workload(Model):
    """The entry `workload` of a file: name, place of the printed accuracy, arguments of `repro` for the training."""

    part = "workload"

    name: Text
    place: Text
    row: Text
    quantity: Text
    variant: Text = "all"
    command: Text


def workloads_table(reference: Path) -> str:
    """The table in Markdown; InputError for a workload whose number is not in the paper's table."""
    read = cache(lambda paper: catalogue.runs(paper, reference))
    every = own_files(config.experiment_names())
    rows = [_row(read, experiment) for experiment, entries in every.items() if entries.get("workload")]
    return markdown_table([HEAD, *sorted(rows, key=str)])


def _row(read: Callable[[str], list[Found]], experiment: str) -> tuple[str, ...]:
    workload = check_fields(Workload, own_file(experiment)["workload"])
    paper, _, name = experiment.partition("/")
    value, unit, source = printed_number(paper, workload.place, workload.row, workload.quantity, workload.variant)
    target = parse_number(value, unit)
    composed = config.compose(experiment, (), "paper")
    runs = [run for run in read(paper) if run.identity.experiment == name]
    on_gpus = [run for run in read("gpu") if run.model_name == composed["model"]["name"]]
    trainings = [*runs, *(run for run in on_gpus if aims_at(run, target))]  # others on GPUs are a few steps
    shown = f"{target:g} ({workload.place if workload.place.startswith(('Figure', 'Table')) else source})"
    return (
        workload.name,
        shown,
        f"[{composed['dataset']['name']}]({RECIPES})",
        format_hours(estimate_gpu_hours(composed)),
        format_steps([*runs, *on_gpus]),
        best_trained([run for run in trainings if run.identity.trains], workload.variant, target),
        f"`repro {workload.command}`",
    )


def aims_at(run: Found, target: float) -> bool:
    """Whether a run trains to the target accuracy, or to a higher one."""
    return run.identity.trains and any(float(reached) >= target for reached in run.training.targets)


def format_steps(runs: Iterable[Found]) -> str:
    """The maximum iterations of a measured training on each GPU."""
    most: dict[str, int] = {}
    for run in runs:
        if (gpu := run.record.hardware.more.get("gpu")) and run.kind == MEASURED and run.identity.trains:
            most[gpu] = max(most.get(gpu, 0), run.training.iterations)
    return ", ".join(f"{gpu}: {count} steps" for gpu, count in sorted(most.items())) or "never run"


def best_trained(runs: Iterable[Found], variant: str, target: float) -> str:
    """Result, place and data of the most informative runs of one variant."""
    scored = [run for run in runs if isinstance(final_score(run), float)]
    if not (chosen := best_runs(scored, variant)):
        return "never"
    first = chosen[0]
    gpu, dataset = first.record.hardware.more.get("gpu"), first.training.dataset
    place = f"`{first.identity.paper}/{first.identity.experiment}`, {first.kind} on {gpu or 'CPUs'}"
    data = dataset.name + (", a stand-in" if dataset.standin else "")
    return f"{target_reached(chosen, target)} ({place}; {data})"


def final_score(run: Found) -> Number | None:
    """The final value of a training's metric."""
    return run.training.final[run.identity.metric]


def target_reached(runs: Sequence[Found], target: float) -> str:
    """Whether the runs of one variant reached the target; runs on stand-ins are not judged."""
    first = runs[0]
    if first.training.dataset.standin:
        return "not judged"
    score = fmean(not_none(final_score(run)) for run in runs)
    answer = "yes" if score >= target else "no"
    return f"{answer}: {score:.4f}, {len(runs)} seed{'s' * (len(runs) > 1)}, scale {first.identity.scale}"


def best_runs(runs: Iterable[Found], variant: str) -> list[Found]:
    """The most informative runs of one variant, testbed and scale: real data first, then GPUs, larger scales, the
    variant of the paper's number."""
    groups: dict[tuple[Any, ...], list[Found]] = {}
    for run in runs:
        identity, on_gpu = run.identity, run.record.hardware.more.get("gpu") is not None
        scale = SCALES.index(identity.scale) if identity.scale in SCALES else -1
        key = (
            *(not run.training.dataset.standin, on_gpu, scale, run.label == variant),
            *(run.kind == MEASURED, identity.experiment, run.label, identity.testbed.name),
        )
        groups.setdefault(key, []).append(run)
    return groups[max(groups)] if groups else []
