"""The command line. Heavy libraries are imported inside the commands that need them: `list` and `show` are quick."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from repro import __version__
from repro.errors import UNWRITABLE, InputError, MissingData, ReproError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 done, 1 a fault under way, 2 unusable input, 130 interrupted."""
    parser = build_parser()
    args, rest = parser.parse_known_args(arguments)
    if rest and (not hasattr(args, "overrides") or any(word.startswith("-") for word in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:  # argparse takes no overrides behind options; people write them there
        args.overrides = [*args.overrides, *rest]
    try:
        status = args.command(args) or 0
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ReproError as error:
        print(f"repro: error: {error}", file=sys.stderr)
        return error.status
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        print(f"repro: error: {error.filename or 'results folder'}: {error.strerror}", file=sys.stderr)
        return InputError.status
    except KeyboardInterrupt:
        print("repro: interrupted; the same command resumes", file=sys.stderr)
        return 130


class Parser(argparse.ArgumentParser):
    """argparse with one line on errors, in our form."""

    def error(self, message: str) -> Any:
        self.exit(InputError.status, f"repro: error: {message} (see {self.prog} --help)\n")


def build_parser() -> Parser:
    parser = Parser(
        prog="repro",
        description="Reproduce the experiments of five papers on distributed deep-learning training: "
        "measured on this machine, simulated on the papers' testbeds.",
    )
    parser.add_argument("--version", action="version", version=f"repro {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)

    listing = commands.add_parser("list", help="experiments, strategies, models, data sets, testbeds")
    listing.set_defaults(command=cmd_list)
    as_json(listing)

    show = commands.add_parser("show", help="an experiment's resolved configuration and its cells")
    experiment_arguments(show)
    as_json(show)
    show.set_defaults(command=cmd_show)

    run = commands.add_parser("run", help="run an experiment, or all of a paper; finished cells are skipped")
    experiment_arguments(run)
    run.add_argument("--force", action="store_true", help="run finished cells again")
    run.add_argument("--no-mlflow", action="store_true", help="do not mirror the runs to MLflow")
    as_json(run)
    run.set_defaults(command=cmd_run)

    report = commands.add_parser("report", help="rebuild the report pages from results/ alone")
    report.add_argument("paper", nargs="?", help="one paper (default: all pages)")
    as_json(report)
    report.set_defaults(command=cmd_report)

    bench = commands.add_parser("bench", help="benchmarks: `repro bench collective ring ...`, `repro bench all`")
    bench.set_defaults(command=lambda args: bench.print_help())
    bench_commands = bench.add_subparsers(metavar="BENCHMARK", parser_class=Parser)
    add_bench(bench_commands)

    datasets = commands.add_parser("data", help="data sets: list, fetch NAME, verify")
    datasets.add_argument("action", choices=["list", "fetch", "verify"])
    datasets.add_argument("name", nargs="?", help="data set to fetch or verify")
    as_json(datasets)
    datasets.set_defaults(command=cmd_data)

    doctor = commands.add_parser("doctor", help="what this machine has and lacks")
    as_json(doctor)
    doctor.set_defaults(command=cmd_doctor)

    track = commands.add_parser("track", help="`repro track sync`: mirror runs to MLflow that were not")
    track.add_argument("action", choices=["sync"])
    track.set_defaults(command=cmd_track)

    ui = commands.add_parser("ui", help="open the MLflow UI on this machine")
    ui.add_argument("--port", type=int, default=5000)
    ui.add_argument("--host", default="127.0.0.1")
    ui.set_defaults(command=cmd_ui)
    return parser


def as_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="machine-readable output")


def experiment_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", help="PAPER or PAPER/EXPERIMENT, for instance pipesgd/fig4-mnist")
    parser.add_argument(
        "overrides", nargs="*", default=[], help="key=value, for instance strategy=pipe_sgd strategy.K=3 seeds=5"
    )
    parser.add_argument("--scale", help="a named size of the experiment: smoke, small (the default of `run`), paper")


def add_bench(commands: Any) -> None:
    collective = commands.add_parser("collective", help="time one collective beside its closed form")
    collective.add_argument("name", help="ring, ring_pipelined, recursive_doubling, tree, allgather, ..., or native")
    collective.add_argument("--ranks", type=int, default=4)
    collective.add_argument("--bytes", type=int, default=1_000_000)
    collective.add_argument("--fabric", default="virtual", help="virtual, mpi or torch")
    collective.add_argument("--codec", default="none", help="codec inside each hop of the ring")
    collective.add_argument("--pieces", type=int, help="of a block, in ring_pipelined")
    collective.add_argument("--repeat", type=int, default=5)
    collective.add_argument("--alpha", type=float, help="seconds a message (virtual; closed form)")
    collective.add_argument("--beta", type=float, help="seconds a byte")
    collective.add_argument("--gamma", type=float, help="seconds a byte summed")
    as_json(collective)
    collective.set_defaults(command=cmd_bench_collective)
    everything = commands.add_parser("all", help="every benchmark of `make bench`, written to results/bench/")
    everything.add_argument("--only", help="loop, allreduce, codecs or virtual")
    as_json(everything)
    everything.set_defaults(command=cmd_bench_all)


# --- commands


def cmd_list(args: argparse.Namespace) -> None:
    from repro import config

    found = {
        "experiments": {name: config.title(name) for name in config.experiment_names()},
        **{f"{group}s" if group != "strategy" else "strategies": config.group_names(group) for group in config.GROUPS},
    }
    if args.json:
        print(json.dumps(found, indent=1))
        return
    print("experiments")
    experiments = found.pop("experiments")
    width = max(map(len, experiments))
    for name, title in experiments.items():
        print(f"  {name:{width}}  {title}")
    for group, names in found.items():
        print(f"{group:{width + 2}}  {', '.join(names)}")
    print("\nnext: repro show EXPERIMENT · repro run EXPERIMENT · repro report")


def cmd_show(args: argparse.Namespace) -> None:
    import yaml

    from repro import config

    shown = []
    for name in config.experiment_names(args.experiment):
        resolved = config.compose(name, args.overrides, args.scale)
        settings, testbeds = config.axes(resolved, args.overrides)
        count = len(settings) * len(testbeds) * resolved["seeds"]
        shown.append({"experiment": name, "cells": count, "config": resolved})
        if not args.json:
            print(f"# {name}: {resolved['title']}")
            print(f"# {count} cells: {len(settings)} settings x {len(testbeds)} testbeds x {resolved['seeds']} seeds")
            print(yaml.safe_dump(resolved, sort_keys=False, allow_unicode=True))
    if args.json:
        print(json.dumps(shown, indent=1))


def cmd_run(args: argparse.Namespace) -> None:
    from repro import cells as expansion
    from repro import config
    from repro.runner import check_results_folder, run_cells

    check_results_folder()
    scale = args.scale or "small"
    names, cells, missing = config.experiment_names(args.experiment), [], None
    for name in names:
        own = expansion.expand(name, args.overrides, scale)
        try:
            expansion.identify(own)
        except MissingData as error:
            if len(names) == 1:
                raise
            missing = missing or error
            print(f"left out {name}: {error}", file=sys.stderr)
        else:
            cells += own
    summaries, fault = run_cells(cells, args.force, not args.no_mlflow)
    if args.json:
        print(json.dumps(summaries, indent=1))
    else:
        show_where(args.experiment.split("/")[0])
    if fault or missing:
        raise fault or missing


def show_where(paper: str) -> None:
    """Build the paper's page from what there is, and say where everything lies."""
    from reports.build import build
    from repro.paths import reports_root, results_root

    build(paper)
    print(f"\nreport page   {reports_root() / (paper + '.html')}")
    print(f"figures       {reports_root() / 'figures' / paper}")
    print(f"results       {results_root() / paper}")
    print("MLflow UI     make ui   (repro ui; then open the address that it prints)")


def cmd_report(args: argparse.Namespace) -> None:
    from reports.build import build

    written = build(args.paper)
    if args.json:
        print(json.dumps([str(path) for path in written]))
        return
    for path in written:
        if path.suffix == ".html":
            print(path)


def cmd_bench_collective(args: argparse.Namespace) -> None:
    from repro.bench.collective import bench_collective, table

    network = (args.alpha, args.beta, args.gamma)
    result = bench_collective(
        args.name, args.ranks, args.bytes, args.fabric, args.codec, args.repeat, *network, args.pieces
    )
    print(json.dumps(result, indent=1) if args.json else table(result))


def cmd_bench_all(args: argparse.Namespace) -> None:
    from repro.bench.suite import run_suite

    results = run_suite(args.only)
    if args.json:
        print(json.dumps(results, indent=1))


def cmd_data(args: argparse.Namespace) -> int:
    from repro import data
    from repro.data import fetch

    if args.action == "fetch":
        if not args.name:
            raise InputError("repro data fetch needs a name: " + ", ".join(data.names()))
        print(fetch.fetch(args.name))
        return 0
    if args.action == "verify":
        there = [row["name"] for row in data.status() if row["ok"] is not None]
        if not there and not args.name:
            raise InputError("no data set is on this machine; `repro data list` says where each is looked for")
        for name in [args.name] if args.name else there:
            folder = data.verify(name)
            right = "checksums right" if data.module(name).FILES else "train/ and val/ are there"
            print(f"{name}: {folder}: {right}")
        return 0
    rows = data.status()
    if args.json:
        print(json.dumps(rows, indent=1))
    else:
        for row in rows:
            place = row["where"] or f"not found; stand-in: {row['standin']}"
            print(f"{row['name']:10} {row['megabytes']:7.1f} MB  {place}  ({row['detail']})")
    return 0


def cmd_doctor(args: argparse.Namespace) -> int:
    from repro import doctor

    rows = doctor.check()
    if args.json:
        print(json.dumps(rows, indent=1))
    else:
        for row in rows:
            hint = f"  -> {row['hint']}" if not row["ok"] and row["hint"] else ""
            print(f"{'ok ' if row['ok'] else '-- '} {row['name']:16} {row['detail']}{hint}")
    return 0


def cmd_track(args: argparse.Namespace) -> None:
    from repro.paths import results_root
    from repro.tracking import sync_all

    done, already = sync_all(results_root())
    print(f"{done} runs mirrored to MLflow, {already} were there already")


def cmd_ui(args: argparse.Namespace) -> None:
    from repro.ui import serve

    serve(args.host, args.port)


if __name__ == "__main__":
    sys.exit(main())
