"""`repro list`, `repro show`, `repro run`: experiments and their runs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from repro.cli.options import ALLOT, DEFAULT_SCALE, as_json, draws_argument, experiment_arguments
from repro.core.errors import NotHere

if TYPE_CHECKING:
    from repro.experiment.run import Run
    from repro.launch.plan import Plan
    from repro.launch.pool import Pools
    from repro.records.record import Record


def add(commands: Any) -> None:
    listing = commands.add_parser("list", help="list experiments, strategies, models, data sets and testbeds")
    listing.add_argument("paper", nargs="?", help="list this paper's experiments in its order, with what each needs")
    listing.set_defaults(command=cmd_list)
    as_json(listing)

    show = commands.add_parser("show", help="show an experiment's configuration and the state of its runs")
    experiment_arguments(show)
    draws_argument(show)
    as_json(show)
    show.set_defaults(command=cmd_show)

    run = commands.add_parser("run", help="run an experiment or a paper; skip finished runs")
    experiment_arguments(run)
    draws_argument(run)
    run.add_argument("--force", action="store_true", help="repeat finished runs")
    run.add_argument("--dry-run", action="store_true", help="print which runs are missing and how long they take")
    run.add_argument("--fresh-ranks", action="store_true", help="start each rank as a new process")
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
        "experiments": config.titles(config.experiment_names()),
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
    """A paper's experiments in its order: what they show and need; a star marks those that headline claims rest on."""
    from repro.experiment import config, papers

    known = {f"{paper}/{entry.experiment}": entry for entry in papers.entries(paper)}
    titles = config.titles(config.experiment_names(paper))
    if as_json:
        shown = [known[name].model_dump() if name in known else {"experiment": name.split("/")[-1]} for name in titles]
        print(json.dumps(shown, indent=1))
        return
    width = max(map(len, titles), default=0)
    for name, title in titles.items():
        entry = known.get(name)
        what = f"{entry.shows}: {entry.needs or 'no data'}" if entry else title
        print(f"{'*' if entry and entry.headline else ' '} {name:{width}}  {what}")


def cmd_show(args: argparse.Namespace) -> None:
    import yaml

    from repro.experiment import config, grid
    from repro.experiment.compose import Composer
    from repro.experiment.expand import expand
    from repro.experiment.hyperparameters import parameters
    from repro.experiment.key import Keys
    from repro.experiment.quoted import quoted
    from repro.experiment.standing import standing, together
    from repro.records import catalogue

    shown, found, keys, finished = [], [], Keys(), {}
    scale = args.scale or DEFAULT_SCALE
    for name in config.experiment_names(args.experiment):
        lacking: list[NotHere] = []
        composer = Composer(name, scale)
        # says what `run` would refuse
        runs = expand(name, args.overrides, scale, lacking, abs(args.draws), composer)
        for run in runs:
            try:
                keys.give(run)
            except NotHere as error:
                lacking.append(error)
        paper = name.split("/")[0]
        if paper not in finished:
            finished[paper] = catalogue.runs(paper)
        found.append(standing(runs, finished[paper]))
        overrides, chosen = config.choices(name, args.overrides)
        plain, swept = grid.split(overrides)
        resolved = composer.compose(plain)
        variants, testbeds = config.axes(resolved, overrides)
        variants = grid.left(variants, chosen)
        printed, set_here = quoted(name), parameters(name, resolved)
        row = {"experiment": name, "runs": len(runs), "standing": found[-1]._asdict(), "paper": printed}
        shown.append(row | {"hyperparameters": [one._asdict() for one in set_here], "config": resolved})
        if not args.json:
            print(f"# {name}: {resolved['title']}")
            seeds = len(grid.seeds_of(swept, resolved["seed"], resolved["seeds"]))
            print(f"# {len(runs)} runs: {len(variants)} variants x {len(testbeds)} testbeds x {seeds} seeds")
            print(f"# at scale {scales(runs, scale)}: {found[-1]}")
            for reason in dict.fromkeys(map(str, lacking)):
                print(f"# cannot run here: {reason}")
            for column, values in printed.items():
                numbers = ", ".join(f"{variant} {value:g}" for variant, value in values.items())
                print(f"# the paper's {column}: {numbers}")
            for one in set_here:
                print(f"#   {one.line}")
            print(yaml.safe_dump(resolved, sort_keys=False, allow_unicode=True))
    if args.json:
        print(json.dumps(shown, indent=1))
    elif len(shown) > 1:
        print(f"# {args.experiment} at scale {scale}: {together(found)}")


def cmd_run(args: argparse.Namespace) -> None:
    from repro.cli import dry_run
    from repro.experiment.config import experiment_names, paper_of
    from repro.experiment.inputs import check_draws
    from repro.experiment.standing import Standing, standing, together
    from repro.launch.forecast import estimates
    from repro.launch.pool import Pools
    from repro.launch.runner import check_results_folder, run_unfinished
    from repro.records import catalogue
    from repro.records.flat import flat

    check_results_folder()
    if args.draws not in (0, ALLOT):
        check_draws(args.draws)
    if args.draws:
        with Pools(args.fresh_ranks) as pools:
            planned = planned_here(args, pools)
        draw(args, planned.runs)
        return
    scale = args.scale or DEFAULT_SCALE
    with Pools(args.fresh_ranks) as pools:
        planned = planned_here(args, pools)
        runs, paper = planned.runs, paper_of(args.experiment)
        left = [run for run in runs if args.force or args.dry_run or not run.finished]
        finished = catalogue.runs(paper) if left else []  # imports pandas
        stands = together([Standing(done=len(runs) - len(left)), standing(left, finished)])
        print(f"{args.experiment} at scale {scales(runs, scale)}: {stands}", file=sys.stderr)
        if others := len(experiment_names(args.experiment)) - len(experiment_names(args.experiment, scale)):
            print(f"{others} more experiments run by name or at larger scales", file=sys.stderr)
        expected = estimates(left, finished)
        if args.dry_run:
            found = dry_run.plans(runs, finished, expected, args.force)
            print(json.dumps(dry_run.rows(found), indent=1) if args.json else dry_run.text(found))
            return
        known = {run.title: estimate.seconds for run, estimate in zip(left, expected, strict=True)}
        records, fault = run_unfinished(runs, args.force, not args.no_mlflow, known, pools)
    if args.json:
        print(json.dumps([record.plain() for record in records], indent=1))
    else:
        show_ending(records, runs)
        mirrored = [] if args.no_mlflow else list(map(flat, records))
        show_where(paper_of(args.experiment), not args.no_report, mirrored)
    if left:
        say_left_out(planned)  # again, at the end of the output
    if fault:
        raise fault


def draw(args: argparse.Namespace, runs: Sequence[Run]) -> None:
    from repro.cli.draws import run_draws
    from repro.experiment.config import paper_of

    run_draws(args, runs)
    if not args.dry_run and not args.json:
        show_where(paper_of(args.experiment), not args.no_report, [])


def planned_here(args: argparse.Namespace, pools: Pools) -> Plan:
    """The runs that a command asks for, those that this machine cannot do left out; NotHere where that is all."""
    from repro.experiment.config import experiment_names, is_file
    from repro.launch.plan import plan

    scale = args.scale or DEFAULT_SCALE
    names = experiment_names(args.experiment, scale)
    together = args.experiment not in names and not is_file(args.experiment)
    found = plan(names, args.overrides, scale, abs(args.draws), pools, not args.dry_run, together)
    say_left_out(found)
    if found.left_out and not found.runs:
        raise NotHere(found.left_out[0][-1])
    return found


def say_left_out(planned: Plan) -> None:
    """Name the experiments that this machine cannot run; an error only if nothing else was requested."""
    for name, some, reason in planned.left_out:
        print(f"left out {'some of ' if some else ''}{name}: {reason}", file=sys.stderr)


def scales(runs: Sequence[Run], asked: str) -> str:
    """The sizes that the runs' records have: a run with the values of `full` has that, whatever --scale was."""
    return " and ".join(dict.fromkeys(run.config.scale for run in runs)) or asked


def show_ending(records: Sequence[Record], runs: Sequence[Run]) -> None:
    """Print the variants side by side, with the committed runs and the papers' numbers."""
    from repro.core import config_folders, user_cache
    from repro.core.paths import PACKAGE, reference_root

    trained = [record for record in records if record.identity.trains]
    if not trained:
        return
    named = {run.name: run.experiment for run in runs}
    key = [[record.plain() for record in trained], named, user_cache.tree_digest([PACKAGE, reference_root()])]
    key.append(config_folders.state())
    if (text := user_cache.load("ending", key)) is None:
        text = ending(trained, named)
        user_cache.save("ending", key, text)
    print(text)


def ending(trained: Sequence[Record], named: Mapping[str, str]) -> str:
    """That table. trained: records of trainings; named: the experiment of each run."""
    from repro.core.paths import reference_root
    from repro.experiment.quoted import quoted
    from repro.records import catalogue, comparison  # imports pandas

    own = [catalogue.of_workspace(record) for record in trained]

    def place(record: Record) -> tuple[str, ...]:
        return record.identity.paper, record.identity.experiment, record.identity.strategy.name

    compared = {place(record) for record in trained}
    published = [
        run for paper in {each.identity.paper for each in trained} for run in catalogue.runs(paper, reference_root())
    ]
    committed = [run for run in published if place(run.record) in compared]
    runs = catalogue.table("runs", [*own, *committed])
    mine, theirs = (runs[runs["origin"] == origin] for origin in (catalogue.WORKSPACE, catalogue.REFERENCE))
    mine_named = zip(mine["paper"], mine["experiment"], mine["model"], mine["dataset"], strict=True)
    printed = {place: quoted(named[each.run]) for place, each in zip(mine_named, trained, strict=True)}
    return comparison.of(comparison.ending(mine, theirs, printed))


def show_where(paper: str, report: bool, mirrored: Sequence[dict[str, Any]]) -> None:
    """Print where pages, figures, results and MLflow are; `report`: first build the paper's page, if changed.
    `mirrored`: runs that MLflow has."""
    from repro.answers.mlflow.ui import addresses
    from repro.cli.pages import built
    from repro.core.paths import reports_root, results_root

    print()
    if report and (shown := built(paper)) is None:
        print(f"report page   none: no page shows {paper}; `repro results {paper}` prints its runs")
    elif report and shown:
        if shown["claims"]:
            print(f"headline claims of {paper}\n{shown['claims']}\n")
        print(f"report page   {shown['page']}")
        print(f"all pages     {shown['index']}")
        print(f"figures       {reports_root() / 'figures' / paper}")
    print(f"results       {results_root() / paper}")
    # importing MLflow takes seconds: a command that mirrored a run has done it
    known = addresses(mirrored) if "mlflow" in sys.modules else []
    where = f"; then open {known[0]}" if len(known) == 1 else ", which prints a link for each experiment"
    print(f"MLflow UI     make ui (repro ui){where}")
