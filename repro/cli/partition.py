"""`repro profile`, `repro partition`: profile a model and partition it into PipeDream's stages."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.cli.options import as_json, count, dataset, device, plugin
from repro.core.errors import InputError
from repro.core.user_files import check_target

if TYPE_CHECKING:
    from repro.algorithms.pipeline.layers import Profile
    from repro.algorithms.pipeline.partition import Partition


def add(commands: Any) -> None:
    profile = commands.add_parser("profile", help="profile a model's layers, for PipeDream's partitioner")
    profile.add_argument("model", type=plugin, help="model, for instance vgg16")
    profile.add_argument("overrides", nargs="*", default=[], help="model.OPTION=value, dataset.OPTION=value")
    dataset(profile)
    profile.add_argument("--batch", type=int, default=32, help="samples in a minibatch")
    profile.add_argument("--minibatches", type=int, default=20, help="minibatches to time; the paper times 1,000")
    profile.add_argument("--warmup", type=int, default=5, help="untimed minibatches before")
    device(profile)
    profile.add_argument("--threads", type=count, default=1, help="torch threads on a CPU; ranks on `here` have one")
    profile.add_argument("--out", metavar="FILE", help="save the profile here")
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

    limits.check("--threads", args.threads, limits.THREADS)
    options = grouped(args.overrides, "model", "dataset")
    if args.out:
        check_target(Path(args.out))

    import torch

    from repro.algorithms.pipeline import profiler

    torch.set_num_threads(args.threads)
    dataset = args.dataset or profiler.usual_dataset(args.model)
    sizes = args.batch, args.minibatches, args.warmup, args.device
    found = profiler.profile_model(args.model, dataset, *sizes, options["model"], options["dataset"])
    if args.out:
        profile.write(args.out, found)
    if args.json:
        print(as_text(found), end="")
        return
    print(profile_table(found))
    print(f"saved      {args.out}" if args.out else "not saved: --out FILE, for `repro partition FILE`")


def cmd_partition(args: argparse.Namespace) -> None:
    from repro.algorithms.pipeline.partition import partition
    from repro.algorithms.pipeline.profile import read

    machines = listed("--machines", args.machines, int, "whole numbers")
    bandwidths = listed("--bandwidth", args.bandwidth, float, "numbers, in bytes a second")
    profile = read(args.profile)
    found = partition(profile, machines, bandwidths, args.cost_model, args.activations == "on", args.straight)
    if args.json:
        print(json.dumps(partition_json(args, profile, machines, bandwidths, found), indent=1))
    else:
        print(partition_table(args, profile, machines, bandwidths, found))


def grouped(overrides: list[str], *groups: str) -> dict[str, dict[str, Any]]:
    """Split overrides into options by group (`model`, `dataset` ...); InputError for others."""
    import yaml

    found: dict[str, dict[str, Any]] = {group: {} for group in groups}
    valid = " or ".join(f"{group}.OPTION=value" for group in groups)
    for override in overrides:
        key, equals, text = override.partition("=")
        group, _, option = key.partition(".")
        if not equals or group not in found or not option:
            raise InputError(f"override '{override}': must be {valid}")
        try:
            found[group][option] = yaml.safe_load(text)
        except (yaml.YAMLError, RecursionError):
            raise InputError(f"override '{override}': its value cannot be read") from None
    return found


def listed(option: str, text: str, kind: Callable[[str], Any], what: str) -> list[Any]:
    """Parse values between commas; InputError names the option of a wrong one."""
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} {text}: must be {what}") from None


def profile_table(profile: Profile) -> str:
    """A line for each layer."""
    from tabulate import tabulate

    rows = [
        [
            index,
            one.name,
            1e3 * one.forward_s,
            1e3 * one.backward_s,
            one.activation_bytes / 1e6,
            one.parameter_bytes / 1e6,
        ]
        for index, one in enumerate(profile.layers)
    ]
    head = ["layer", "name", "forward ms", "backward ms", "output MB", "parameters MB"]
    parameters = sum(layer.parameter_bytes for layer in profile.layers)
    return "\n".join(
        [
            f"profile    {about(profile)}",
            f"hardware   {profile.hardware}",
            tabulate(rows, head, floatfmt=".3f"),
            f"together   {1e3 * profile.seconds:.3f} ms a minibatch, parameters {parameters / 1e6:.3f} MB",
        ]
    )


def about(profile: Profile) -> str:
    batch = "" if profile.batch is None else f", minibatch of {profile.batch}"
    timed = "" if profile.minibatches is None else f", {profile.minibatches} after a warm-up of {profile.warmup}"
    return f"{profile.model}, {profile.source}{batch}{timed}"


def partition_json(
    args: argparse.Namespace, profile: Profile, machines: list[int], bandwidths: list[float], found: Partition
) -> dict[str, Any]:
    """Seconds and bytes a second; first and last layers are counted from 0 over the stages' layers, both included."""
    names = [profile.layers[index].name for index in found.order]
    return {
        "model": profile.model,
        "hardware": profile.hardware,
        "source": profile.source,
        "machines": machines,
        "bandwidths_Bps": bandwidths,
        "cost_model": args.cost_model,
        "activations": args.activations == "on",
        "straight": args.straight,
        "config": found.layout.config,
        "cuts": found.layout.cuts,
        "stages": [
            asdict(stage)
            | {"first_name": names[stage.first], "last_name": names[stage.last]}
            | {"layers": names[stage.first : stage.last + 1]}
            for stage in found.stages
        ],
        "searched": found.searched,
        "pipeline_s": found.pipeline_s,
        "data_parallel_s": found.data_parallel_s,
        "single_s": found.single_s,
        "noam": found.layout.noam,
        "optima": found.optima,
    }


def partition_table(
    args: argparse.Namespace, profile: Profile, machines: list[int], bandwidths: list[float], found: Partition
) -> str:
    """A line for each stage."""
    from tabulate import tabulate

    names = [profile.layers[index].name for index in found.order]
    moved = "" if found.order == tuple(range(len(names))) else "; --json names those of each stage"
    rows = [
        [index, f"{one.first} {names[one.first]}", f"{one.last} {names[one.last]}", one.replicas, 1e3 * one.seconds]
        for index, one in enumerate(found.stages)
    ]
    levels = ", ".join(f"{count} at {bandwidth:.4g} bytes/s" for count, bandwidth in zip(machines, bandwidths))
    plural = "" if found.optima == 1 else "s"
    return "\n".join(
        [
            f"profile    {about(profile)}; {profile.hardware}",
            f"machines   {levels}; cost model {args.cost_model}, activations {args.activations}",
            tabulate(rows, ["stage", "first layer", "last layer", "replicas", "ms"], floatfmt=".3f"),
            f"layers     {found.searched}{moved}",
            f"pipeline   {1e3 * found.pipeline_s:.3f} ms a minibatch; data parallel {1e3 * found.data_parallel_s:.3f}, "
            f"one machine {1e3 * found.single_s:.3f}",
            f"config     {found.layout.config}, NOAM {found.layout.noam}, {found.optima} optimal partition{plural}",
        ]
    )
