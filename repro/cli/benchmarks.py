"""`repro bench collective`: time one collective against its closed form."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any, get_args

from repro.cli.options import Parser, as_json, parse_amount, parse_count

if TYPE_CHECKING:
    from repro.records.record import Record


def add_commands(commands: Any) -> None:
    bench = commands.add_parser("bench", help="time a collective on this machine or in simulation")
    bench.set_defaults(command=lambda args: bench.print_help())
    benchmarks = bench.add_subparsers(metavar="BENCHMARK", parser_class=Parser)

    collective = benchmarks.add_parser("collective", help="time one collective against its closed form")
    collective.add_argument("name", help="ring, ring_pipelined, tree, dense, topk, gtopk, ..., or native")
    collective.add_argument("--ranks", type=parse_count, default=4)
    collective.add_argument("--bytes", type=int, default=1_000_000)
    collective.add_argument("--fabric", default="virtual", help="virtual, mpi or torch")
    collective.add_argument("--device", default="cpu", help="where the vectors are: cpu, or cuda (with torch: NCCL)")
    collective.add_argument("--codec", default="none", help="codec of the ring's hops, or of topk's and gtopk's values")
    collective.add_argument("--pieces", type=parse_count, help="pieces of a block (ring_pipelined)")
    collective.add_argument("--density", type=float, help="share of gradients that topk and gtopk select: 0.001")
    collective.add_argument("--allgather", help="allgather of topk: doubling or ring")
    collective.add_argument("--repeat", type=parse_count, default=5)
    collective.add_argument("--alpha", type=parse_amount, help="seconds a message (virtual fabric, closed form)")
    collective.add_argument("--beta", type=parse_amount, help="seconds a byte")
    collective.add_argument("--gamma", type=parse_amount, help="seconds a byte summed")
    as_json(collective)
    collective.set_defaults(command=cmd_bench_collective)


def cmd_bench_collective(args: argparse.Namespace) -> None:
    from repro.records.record import ProbeResult

    [record] = run_again("bench/collective", collective_overrides(args), "full")
    assert isinstance(record.result, ProbeResult)
    [row] = record.result.found["rows"]
    origin = {"fabric": record.fabric, "kind": record.kind}
    print(json.dumps(row | origin, indent=1) if args.json else format_row(row))


def collective_overrides(args: argparse.Namespace) -> list[str]:
    """The overrides of `bench/collective` for the command's options; InputError for an invalid combination."""
    from repro.core.errors import InputError, unknown_name
    from repro.core.without_pytorch import check_early
    from repro.fabric.option_names import CodecName

    testbeds = {
        "virtual": ["testbed=virtual"],
        "mpi": ["testbed=here"],
        "torch": ["testbed=here", "testbed.launcher=torchrun"],
    }
    if args.fabric not in testbeds:
        raise unknown_name("fabric", args.fabric, testbeds)
    if args.fabric == "virtual" and args.device != "cpu":
        raise InputError("--device cuda: ranks of the fabric virtual have no GPU; must be --fabric torch or mpi")
    if args.allgather and (args.name != "topk" or args.allgather not in ("doubling", "ring")):
        raise InputError(f"--allgather {args.allgather}: must be doubling or ring, and requires topk")
    if args.bytes < 4:
        raise InputError(f"--bytes {args.bytes}: must be 4 or more, a float32")
    if args.density is not None and not 0 < args.density <= 1:
        raise InputError(f"--density {args.density:g}: must be a share above 0, at most 1")
    if args.codec not in (codecs := get_args(CodecName)):
        raise unknown_name("codec", args.codec, codecs)
    check_early(lambda: check_name(args.name))
    check_name(args.name)  # with PyTorch, which then no process for the plan imports
    name = "topk_ring" if args.allgather == "ring" else args.name
    network = "testbed" if args.fabric == "virtual" else "probe"
    values = {
        "workers": args.ranks,
        "batch": args.ranks,
        "device": args.device,
        "probe.names": f"[{name}]",
        "probe.bytes": f"[{args.bytes}]",
        "probe.codec": args.codec,
        "probe.repeat": args.repeat,
        "probe.pieces": args.pieces,
        "probe.density": args.density,
        f"{network}.alpha_s": args.alpha,
        f"{network}.beta_s_per_byte": args.beta,
        f"{network}.gamma_s_per_byte": args.gamma,
    }
    return testbeds[args.fabric] + [f"{entry}={value}" for entry, value in values.items() if value is not None]


def check_name(name: str) -> None:
    """InputError for an unknown collective."""
    from repro.core.errors import unknown_name
    from repro.probes.shared.collectives import NAMES

    if name not in NAMES:
        raise unknown_name("collective", name, NAMES)


def format_row(row: dict[str, Any]) -> str:
    """The measured seconds beside the closed form."""
    extras = [f"{name} {row[name]:g}" for name in ("pieces", "density") if row[name]]
    extras += [f"codec {row['codec']}"] if row["codec"] != "none" else []
    seconds, form = row["seconds"], row["closed_form_s"]
    lines = [", ".join([row["name"], f"{row['ranks']} ranks", f"{row['bytes']} bytes", *extras])]
    lines += [f"  {key:12}{seconds[key]:>14.6g} s" for key in ("median", "min", "max")]
    if form is not None:
        ratio = f"   median / closed form {seconds['median'] / form:.6g}" if form else ""
        lines.append(f"  {'closed form':12}{form:>14.6g} s{ratio}")
    return "\n".join([*lines, *([f"  {row['note']}"] if row["note"] else [])])


def run_again(experiment: str, overrides: list[str], scale: str) -> list[Record]:
    """Run all runs of an experiment again; returns their records."""
    from repro.launch.pool import Pools
    from repro.launch.run import planned_here
    from repro.launch.runner import run_unfinished

    with Pools() as pools:
        planned = planned_here(experiment, overrides, scale, 0, pools, True)
        records, fault = run_unfinished(planned.runs, force=True, track=False, pools=pools)
    if fault:
        raise fault
    return records
