"""`repro bench`: time one collective against its closed form, or run the benchmarks of the harness."""

from __future__ import annotations

import argparse
import json
from typing import Any

from repro.cli.options import Parser, as_json


def add(commands: Any) -> None:
    bench = commands.add_parser("bench", help="benchmark a collective, or the harness")
    bench.set_defaults(command=lambda args: bench.print_help())
    benchmarks = bench.add_subparsers(metavar="BENCHMARK", parser_class=Parser)

    collective = benchmarks.add_parser("collective", help="time one collective against its closed form")
    collective.add_argument("name", help="ring, ring_pipelined, tree, dense, topk, gtopk, ..., or native")
    collective.add_argument("--ranks", type=int, default=4)
    collective.add_argument("--bytes", type=int, default=1_000_000)
    collective.add_argument("--fabric", default="virtual", help="virtual, mpi or torch")
    collective.add_argument("--device", default="cpu", help="where the vectors are: cpu, or cuda (with torch: NCCL)")
    collective.add_argument("--codec", default="none", help="codec of the ring's hops, or of topk's and gtopk's values")
    collective.add_argument("--pieces", type=int, help="pieces of a block (ring_pipelined)")
    collective.add_argument("--density", type=float, help="share of gradients that topk and gtopk select: 0.001")
    collective.add_argument("--allgather", help="allgather of topk: doubling or ring")
    collective.add_argument("--repeat", type=int, default=5)
    collective.add_argument("--alpha", type=float, help="seconds a message (virtual fabric, closed form)")
    collective.add_argument("--beta", type=float, help="seconds a byte")
    collective.add_argument("--gamma", type=float, help="seconds a byte summed")
    as_json(collective)
    collective.set_defaults(command=cmd_bench_collective)
    everything = benchmarks.add_parser("all", help="run every benchmark and write results/bench/")
    everything.add_argument("--only", metavar="BENCHMARK", help="run one benchmark; an unknown name lists them")
    as_json(everything)
    everything.set_defaults(command=cmd_bench_all)


def cmd_bench_collective(args: argparse.Namespace) -> None:
    from repro.bench.collective import bench_collective, table

    network = (args.alpha, args.beta, args.gamma)
    options = (args.pieces, args.density, args.allgather, args.device)
    result = bench_collective(
        args.name, args.ranks, args.bytes, args.fabric, args.codec, args.repeat, *network, *options
    )
    print(json.dumps(result, indent=1) if args.json else table(result))


def cmd_bench_all(args: argparse.Namespace) -> None:
    from repro.bench.suite import run_suite

    results = run_suite(args.only)
    if args.json:
        print(json.dumps(results, indent=1))
