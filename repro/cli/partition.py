"""`repro profile`, `repro partition`: profile a model and partition it into PipeDream's stages."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from repro.cli.options import add_dataset, add_device, as_json, new_file, parse_count, parse_plugin
from repro.core.errors import InputError
from repro.core.without_pytorch import check_early, gpu_devices

if TYPE_CHECKING:
    from repro.algorithms.pipeline.layers import Layer, Profile
    from repro.algorithms.pipeline.partition import Partition


def add_commands(commands: Any) -> None:
    profile = commands.add_parser("profile", help="profile a model's layers, for PipeDream's partitioner")
    profile.add_argument("model", type=parse_plugin("model"), help="model, for instance vgg16")
    profile.add_argument("overrides", nargs="*", default=[], help="model.OPTION=value, dataset.OPTION=value")
    add_dataset(profile)
    profile.add_argument("--batch", type=int, default=32, help="samples in a minibatch")
    profile.add_argument("--minibatches", type=int, default=20, help="minibatches to time; the paper times 1,000")
    profile.add_argument("--warmup", type=int, default=5, help="untimed minibatches before")
    add_device(profile)
    profile.add_argument(
        "--threads", type=parse_count, default=1, help="torch threads on a CPU; ranks on `here` have one"
    )
    profile.add_argument("--out", type=new_file, metavar="FILE", help="save the profile here")
    as_json(profile)
    profile.set_defaults(command=cmd_profile)

    partition = commands.add_parser("partition", help="partition a profile's layers into pipeline stages")
    partition.add_argument("profile", help="file of `repro profile`, or of PipeDream's authors")
    partition.add_argument(
        "--machines", required=True, metavar="N[,N2]", help="machines; N2: groups of N on a second level"
    )
    partition.add_argument(
        "--bandwidth", required=True, metavar="BYTES_PER_S[,B2]", help="B2: between groups of machines"
    )
    partition.add_argument("--cost-model", default="paper", help="paper, released-sum or released-max")
    partition.add_argument("--activations", choices=["on", "off"], default="on", help="count sending activations")
    partition.add_argument("--straight", action="store_true", help="one machine a stage, no replicas")
    as_json(partition)
    partition.set_defaults(command=cmd_partition)


def cmd_profile(args: argparse.Namespace) -> None:
    from repro.algorithms.pipeline import profile
    from repro.algorithms.pipeline.layers import as_text
    from repro.experiment import limits

    limits.check_limit("--threads", args.threads, limits.THREADS)
    sizes = args.batch, args.minibatches, args.warmup
    profile.check_sizes(*sizes)
    options = group_overrides(args.overrides, "model", "dataset")

    if args.device == "cuda" and not gpu_devices():
        raise InputError("device=cuda: this machine has no GPU; use device=cpu")

    def check() -> None:
        from repro.algorithms.pipeline import profiler

        profiler.check_workload(args.model, args.dataset, options)

    check_early(check)

    import torch

    from repro.algorithms.pipeline import profiler

    torch.set_num_threads(args.threads)
    dataset = args.dataset or profiler.usual_dataset(args.model)
    measured = profiler.profile_model(args.model, dataset, *sizes, args.device, options["model"], options["dataset"])
    if args.out:
        profile.write_profile(args.out, measured)
    if args.json:
        print(as_text(measured), end="")
        return
    print(profile_table(measured))
    print(f"saved      {args.out}" if args.out else "not saved: --out FILE, for `repro partition FILE`")


def cmd_partition(args: argparse.Namespace) -> None:
    from repro.algorithms.pipeline.partition import best_partition
    from repro.algorithms.pipeline.profile import load_profile

    machines = parse_list("--machines", args.machines, int, "whole numbers")
    bandwidths = parse_list("--bandwidth", args.bandwidth, float, "numbers, in bytes a second")
    profile = load_profile(args.profile)
    best = best_partition(profile, machines, bandwidths, args.cost_model, args.activations == "on", args.straight)
    if args.json:
        print(json.dumps(partition_json(args, profile, machines, bandwidths, best), indent=1))
    else:
        print(partition_table(args, profile, machines, bandwidths, best))


def group_overrides(overrides: list[str], *groups: str) -> dict[str, dict[str, Any]]:
    """Split overrides into options by group (`model` ...), read as `repro run` reads them; InputError for others."""
    from repro.experiment.compose import unreadable_override, value_of

    options: dict[str, dict[str, Any]] = {group: {} for group in groups}
    valid = " or ".join(f"{group}.OPTION=value" for group in groups)
    for override in overrides:
        key, equals, _ = override.partition("=")
        group, _, option = key.partition(".")
        if not equals or group not in options or not option:
            raise InputError(f"override '{override}': must be {valid}")
        if (read := value_of(override)) is None:
            raise unreadable_override(override)
        options[group][option] = read[1]
    return options


def parse_list(option: str, text: str, kind: Callable[[str], Any], must: str) -> list[Any]:
    """Parse values between commas; InputError with the option's name for an invalid one."""
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} {text}: must be {must}") from None


def profile_table(profile: Profile) -> str:
    """A line for each layer."""
    from tabulate import tabulate

    def row(index: int, layer: Layer) -> list[Any]:
        times, sizes = (layer.forward_s, layer.backward_s), (layer.activation_bytes, layer.parameter_bytes)
        return [index, layer.name, *(1e3 * seconds for seconds in times), *(size / 1e6 for size in sizes)]

    head = ["layer", "name", "forward ms", "backward ms", "output MB", "parameters MB"]
    parameters = sum(layer.parameter_bytes for layer in profile.layers)
    lines = [
        f"profile    {describe_profile(profile)}",
        f"hardware   {profile.hardware}",
        tabulate([row(*each) for each in enumerate(profile.layers)], head, floatfmt=".3f"),
        f"together   {1e3 * profile.seconds:.3f} ms a minibatch, parameters {parameters / 1e6:.3f} MB",
    ]
    return "\n".join(lines)


def describe_profile(profile: Profile) -> str:
    batch = "" if profile.batch is None else f", minibatch of {profile.batch}"
    timed = "" if profile.minibatches is None else f", {profile.minibatches} after a warm-up of {profile.warmup}"
    return f"{profile.model}, {profile.source}{batch}{timed}"


def partition_json(
    args: argparse.Namespace, profile: Profile, machines: list[int], bandwidths: list[float], best: Partition
) -> dict[str, Any]:
    """Seconds and bytes a second; first and last layers from 0 in the order of the stages, inclusive."""
    names = [profile.layers[index].name for index in best.order]
    return {
        "model": profile.model,
        "hardware": profile.hardware,
        "source": profile.source,
        "machines": machines,
        "bandwidths_Bps": bandwidths,
        "cost_model": args.cost_model,
        "activations": args.activations == "on",
        "straight": args.straight,
        "config": best.layout.config,
        "cuts": best.layout.cuts,
        "stages": [
            asdict(stage)
            | {"first_name": names[stage.first], "last_name": names[stage.last]}
            | {"layers": names[stage.first : stage.last + 1]}
            for stage in best.stages
        ],
        **{name: getattr(best, name) for name in ("searched", "pipeline_s", "data_parallel_s", "single_s")},
        "noam": best.layout.noam,
        "optima": best.optima,
    }


def partition_table(
    args: argparse.Namespace, profile: Profile, machines: list[int], bandwidths: list[float], best: Partition
) -> str:
    """A line for each stage."""
    from tabulate import tabulate

    names = [profile.layers[index].name for index in best.order]
    moved = "" if best.order == tuple(range(len(names))) else "; --json lists those of each stage"
    rows = [
        [
            index,
            f"{stage.first} {names[stage.first]}",
            f"{stage.last} {names[stage.last]}",
            stage.replicas,
            1e3 * stage.seconds,
        ]
        for index, stage in enumerate(best.stages)
    ]
    levels = ", ".join(f"{count} at {bandwidth:.4g} bytes/s" for count, bandwidth in zip(machines, bandwidths))
    pipeline, parallel, single = (1e3 * each for each in (best.pipeline_s, best.data_parallel_s, best.single_s))
    lines = [
        f"profile    {describe_profile(profile)}; {profile.hardware}",
        f"machines   {levels}; cost model {args.cost_model}, activations {args.activations}",
        tabulate(rows, ["stage", "first layer", "last layer", "replicas", "ms"], floatfmt=".3f"),
        f"layers     {best.searched}{moved}",
        f"pipeline   {pipeline:.3f} ms a minibatch; data parallel {parallel:.3f}, one machine {single:.3f}",
        f"config     {best.layout.config}, NOAM {best.layout.noam}, {best.optima} optimal partition"
        f"{'' if best.optima == 1 else 's'}",
    ]
    return "\n".join(lines)
