"""`repro list`, `repro show`, `repro run`: experiments and their runs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from repro.commands.options import DEFAULT_SCALE, as_json, experiment_arguments, inputs_argument
from repro.common.errors import NotHere


def add(commands: Any) -> None:
    listing = commands.add_parser("list", help="experiments, strategies, models, data sets, testbeds")
    listing.add_argument("paper", nargs="?", help="its experiments in its order, with what each takes")
    listing.set_defaults(command=cmd_list)
    as_json(listing)

    show = commands.add_parser("show", help="an experiment's resolved configuration and its runs")
    experiment_arguments(show)
    inputs_argument(show)
    as_json(show)
    show.set_defaults(command=cmd_show)

    run = commands.add_parser("run", help="run an experiment, or all of a paper; finished runs are skipped")
    experiment_arguments(run)
    inputs_argument(run)
    run.add_argument("--force", action="store_true", help="repeat finished runs")
    run.add_argument("--no-mlflow", action="store_true", help="do not mirror the runs to MLflow")
    run.add_argument("--no-report", action="store_true", help="do not build the paper's page afterwards")
    as_json(run)
    run.set_defaults(command=cmd_run)


def cmd_list(args: argparse.Namespace) -> None:
    from repro.experiment import config, files

    if args.paper:
        list_paper(args.paper, args.json)
        return
    found: dict[str, Any] = {
        "experiments": {name: config.title(name) for name in config.experiment_names()},
        **{f"{group}s" if group != "strategy" else "strategies": files.group_names(group) for group in files.GROUPS},
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


def list_paper(paper: str, as_json: bool) -> None:
    """A paper's experiments in its order: what they show and take; a star at what its best-known claims rest on."""
    from repro.experiment import config, papers

    names = config.experiment_names(paper)
    known = {f"{paper}/{entry.experiment}": entry for entry in papers.entries(paper)}
    if as_json:
        shown = [known[name]._asdict() if name in known else {"experiment": name.split("/")[-1]} for name in names]
        print(json.dumps(shown, indent=1))
        return
    width = max(map(len, names))
    for name in names:
        entry = known.get(name)
        what = f"{entry.shows}: {entry.takes or 'no data'}" if entry else config.title(name)
        print(f"{'*' if entry and entry.headline else ' '} {name:{width}}  {what}")


def cmd_show(args: argparse.Namespace) -> None:
    import yaml

    from repro.experiment import config, grid
    from repro.launch import runs as expansion

    shown = []
    for name in config.experiment_names(args.experiment):
        lacking: list[NotHere] = []
        # says what `run` would refuse
        count = len(expansion.expand(name, args.overrides, args.scale, lacking, args.inputs))
        plain, swept = grid.split(args.overrides)
        resolved = config.compose(name, plain, args.scale)
        variants, testbeds = config.axes(resolved, args.overrides)
        shown.append({"experiment": name, "cells": count, "config": resolved})
        if not args.json:
            print(f"# {name}: {resolved['title']}")
            seeds = len(grid.seeds_of(swept, resolved["seed"], resolved["seeds"]))
            print(f"# {count} runs: {len(variants)} variants x {len(testbeds)} testbeds x {seeds} seeds")
            for reason in dict.fromkeys(map(str, lacking)):
                print(f"# left out here: {reason}")
            print(yaml.safe_dump(resolved, sort_keys=False, allow_unicode=True))
    if args.json:
        print(json.dumps(shown, indent=1))


def cmd_run(args: argparse.Namespace) -> None:
    from repro.experiment import config
    from repro.launch import runs as expansion
    from repro.launch.runner import check_results_folder, run_unfinished

    check_results_folder()
    scale = args.scale or DEFAULT_SCALE
    names, runs = config.experiment_names(args.experiment), []
    missing: NotHere | None = None
    for name in names:
        lacking: list[NotHere] = []
        try:
            own = expansion.expand(name, args.overrides, scale, lacking, args.inputs)
            expansion.identify(own)
        except NotHere as error:
            lacking.append(error)
            own = []
        if lacking and not own and len(names) == 1:
            raise lacking[0]
        for reason in dict.fromkeys(map(str, lacking)):
            print(f"left out {'some of ' if own else ''}{name}: {reason}", file=sys.stderr)
        missing = missing or next(iter(lacking), None)
        runs += own
    summaries, fault = run_unfinished(runs, args.force, not args.no_mlflow)
    if args.json:
        print(json.dumps(summaries, indent=1))
    else:
        show_ending(summaries)
        show_where(args.experiment.split("/")[0], not args.no_report)
    if wrong := fault or missing:
        raise wrong


def show_ending(summaries: Sequence[dict[str, Any]]) -> None:
    """The variants side by side, beside what the committed runs of the same took."""
    from repro.common.paths import reference_root
    from repro.records import catalogue, comparison

    trained = [summary for summary in summaries if "step" in summary]
    if not trained:
        return
    own = [catalogue.of_workspace(summary) for summary in trained]
    committed = [run for paper in {s["paper"] for s in trained} for run in catalogue.runs(paper, reference_root())]
    tables = [catalogue.table("runs", runs) for runs in (own, committed)]
    print(comparison.of(comparison.ending(*tables)))


def show_where(paper: str, report: bool) -> None:
    """Say where everything lies; `report`: build the paper's page first, from what there is."""
    from repro.commands.pages import build_site, say
    from repro.common.paths import reports_root, results_root

    print()
    if report:
        from repro.reports.build import build

        build(paper, say=say)
        site = build_site(reports_root())
        print(f"report page   {site.page(paper)}")
        print(f"all pages     {site.index}")
        print(f"figures       {reports_root() / 'figures' / paper}")
    print(f"results       {results_root() / paper}")
    print("MLflow UI     make ui   (repro ui; then open the address that it prints)")
