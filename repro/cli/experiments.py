"""`repro show`, `repro run`, with `--dry-run`: show and run experiments."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from repro.cli.options import as_json, draws_argument, experiment_arguments
from repro.core.errors import TooBusy, some_of
from repro.core.terminal import one_line, style_text

if TYPE_CHECKING:
    from repro.experiment.run import Run
    from repro.launch.forecast import Estimate
    from repro.launch.run import Job
    from repro.launch.show import Shown
    from repro.records.record import Found, Record

HERE, DIVERGED, PUBLISHED = "here", "diverged", "published"
# here: finished in this workspace; diverged: there, run again only if forced. Others would run: the same run is in the
# reference, an older one exists, or none
STATES = (HERE, DIVERGED, PUBLISHED, "stale", "missing")


@dataclass(frozen=True)
class Plan:
    """A run, its state (`STATES`), why a stale one is stale, and the run's estimated duration."""

    run: Run
    state: str
    reason: str
    estimate: Estimate


def plan_runs(job: Job) -> list[Plan]:
    """The plan of each run, without executing any."""
    from repro.launch.forecast import Estimate

    todo = {
        run.title: Plan(run, PUBLISHED if state.name == "done" else state.name, state.reason, estimate)
        for run, state, estimate in zip(job.todo, job.states, job.expected, strict=True)
    }
    refused = {run.title: Plan(run, DIVERGED, run.diverged or "", Estimate()) for run in job.refused}
    known = refused | todo
    return [known.get(run.title) or Plan(run, HERE, "", Estimate()) for run in job.planned.runs]


def plan_rows(planned: Sequence[Plan]) -> list[dict[str, object]]:
    """A row for each run; reason: why it is stale or diverged; seconds: its estimated duration, null if unknown or
    finished."""
    return [
        {
            "experiment": plan.run.experiment,
            "run": plan.run.label,
            "state": plan.state,
            "reason": plan.reason,
            **plan.estimate._asdict(),
        }
        for plan in planned
    ]


def format_plans(job: Job, after: str) -> str:
    """A line for each experiment, then the total and the sources of the estimates. after: as of `duration_lines`."""
    from repro.launch.forecast import UNKNOWN
    from repro.launch.run import duration_lines, duration_text

    planned = plan_runs(job)
    names = dict.fromkeys(plan.run.experiment for plan in planned)
    width = max(map(len, names), default=0)
    lines = [f"{'':{width}}  " + "  ".join(f"{state:>9}" for state in STATES) + "  to do takes about"]
    for name in names:
        plans = [plan for plan in planned if plan.run.experiment == name]
        counts = [sum(plan.state == state for plan in plans) for state in STATES]
        todo = [plan for plan in plans if plan.state not in (HERE, DIVERGED)]
        takes = duration_text([plan.run for plan in todo], [plan.estimate for plan in todo])
        lines.append(f"{name:{width}}  " + "  ".join(f"{count or '-':>9}" for count in counts) + f"  {takes}")
    lines += duration_lines(job, after)
    sources = Counter(estimate.by for estimate in job.expected)
    machines = Counter(estimate.machine for estimate in job.expected if estimate.machine)
    lines += [f"  {count} by the durations {by}" for by, count in sources.most_common() if by != UNKNOWN]
    lines += [f"  {count} recorded on {machine}" for machine, count in machines.most_common()]
    return "\n".join(map(one_line, lines))  # records may come from others


NAMED = 12  # maximum number of variants or testbeds that `show` lists
PAGE = "page.md.j2"  # a page's words
OWN_SETUP = ": trained with the paper's own model, data and epochs"  # the runs here may have others


def add_commands(commands: Any) -> None:
    show = commands.add_parser("show", help="show an experiment's variants, testbeds and the state of its runs")
    experiment_arguments(show)
    draws_argument(show)
    show.add_argument("--config", action="store_true", help="print the whole configuration too, as YAML")
    as_json(show)
    show.set_defaults(command=cmd_show)

    run = commands.add_parser("run", help="run an experiment or a paper; skip finished runs")
    experiment_arguments(run)
    draws_argument(run)
    run.add_argument("--force", action="store_true", help="repeat finished runs")
    run.add_argument("--unpublished", action="store_true", help="leave out runs that the committed results have")
    run.add_argument("--dry-run", action="store_true", help="print which runs are missing and how long they take")
    run.add_argument("--fresh-ranks", action="store_true", help="start each rank as a new process")
    run.add_argument("--strict", action="store_true", help="fail if the machine was too busy for some runs")
    run.add_argument("--no-mlflow", action="store_true", help="do not mirror the runs to MLflow")
    run.add_argument(
        "--no-report", action="store_true", help="print no verdicts, and build no page after a paper's run"
    )
    as_json(run)
    run.set_defaults(command=cmd_run, resumes=True)


def cmd_show(args: argparse.Namespace) -> None:
    from repro.experiment.run import add_standings
    from repro.launch.show import show

    shown = show(args.experiment, *args.overrides, scale=args.scale, draws=abs(args.draws))
    if args.json:
        print(json.dumps([experiment.plain() for experiment in shown], indent=1))
    elif len(shown) == 1 or args.config:
        print("\n\n".join(format_experiment(experiment, args) for experiment in shown))
    else:
        width = max(len(experiment.experiment) for experiment in shown)
        for experiment in shown:
            print(f"{experiment.experiment:{width}}  {len(experiment.runs):4} runs: {experiment.standing}")
    if not args.json:
        every = add_standings(experiment.standing for experiment in shown)
        print(f"\n{args.experiment} at scale {args.scale}: {every}" if len(shown) > 1 else "")
        more = "" if args.config else f" · repro show {args.experiment} --config"
        print(f"next: repro run {args.experiment}{more}")


def format_experiment(shown: Shown, args: argparse.Namespace) -> str:
    """An experiment on a screen; with `--config` its whole configuration below."""
    import yaml

    from repro.launch.run import scale_text

    config = shown.config
    axes = f"{len(shown.variants)} variants x {len(shown.testbeds)} testbeds x {shown.seeds} seeds"
    rows = {
        "runs": f"{len(shown.runs)}: {axes}",
        f"at scale {scale_text(shown.runs, args.scale)}": str(shown.standing),
        **{f"cannot run here ({i})": reason for i, reason in enumerate(shown.lacking, start=1)},
        "variants": some_of(shown.variants, NAMED),
        "testbeds": some_of(shown.testbeds, NAMED),
        "scales": ", ".join(config["scales"]),
        "model, data": f"{config['model']['name']}, {config['dataset']['name']}",
    }
    for column, values in shown.paper.items():
        place = f"{shown.places[column]}{OWN_SETUP if column == 'final' else ''}"
        numbers = some_of([f"{name} {value:g}" for name, value in values.items()], NAMED)
        rows[f"the paper's {column}"] = f"{numbers} ({place})"
    width = max(map(len, rows))
    lines = [style_text(f"{shown.experiment}: {config['title']}", "bold", sys.stdout)]
    lines += [f"  {name:{width}}  {value}" for name, value in rows.items()]
    lines += [f"  {entry.line}" for entry in shown.hyperparameters]
    if args.config:
        lines += ["", yaml.safe_dump(config, sort_keys=False, allow_unicode=True)]
    return "\n".join(lines)


def cmd_run(args: argparse.Namespace) -> None:
    from repro.answers.mlflow.store import tracking_uri
    from repro.cli.pages import check_page, pages_time
    from repro.launch.pool import Pools
    from repro.launch.run import prepare_job, print_durations, say_left_out

    if args.draws:
        draw_sweeps(args)
        return
    if not args.no_mlflow:
        tracking_uri()  # InputError for a wrong one
    with Pools(args.fresh_ranks or args.dry_run) as pools:
        fetch, force = not args.dry_run, args.force
        job = prepare_job(args.experiment, args.overrides, args.scale, force, pools, fetch, args.unpublished)
        builds = builds_page(args.experiment, not args.no_report)
        after = pages_time(args.experiment) if builds else ""
        if args.dry_run:
            print(json.dumps(plan_rows(plan_runs(job)), indent=1) if args.json else format_plans(job, after))
            return
        print_durations(job, after)
        if job.todo and builds:
            check_page(args.experiment)
        records, fault = job.execute(pools, not args.no_mlflow)
    if args.json:
        print(json.dumps([record.plain() for record in records], indent=1))
    elif records or not fault:
        show_ending(records, job.planned.runs)
        mirrored = [] if args.no_mlflow else records
        show_where(args.experiment, not args.no_report, job.planned.runs, mirrored)
    if job.todo:
        say_left_out(job.planned)  # repeated at the end of the output
    if isinstance(fault, TooBusy) and records and not args.strict:
        print(f"left out, where pages show the committed numbers: {fault}", file=sys.stderr)
    elif fault:
        raise fault


def draw_sweeps(args: argparse.Namespace) -> None:
    from repro.cli.draws import run_draws
    from repro.cli.pages import check_page
    from repro.launch.pool import Pools
    from repro.launch.run import planned_here

    with Pools(fresh=True) as pools:
        planned = planned_here(args.experiment, args.overrides, args.scale, abs(args.draws), pools, not args.dry_run)
    if not args.dry_run and builds_page(args.experiment, not args.no_report):
        check_page(args.experiment)
    run_draws(args, planned.runs)
    if not args.dry_run and not args.json:
        show_where(args.experiment, not args.no_report, planned.runs, [])


def show_ending(records: Sequence[Record], runs: Sequence[Run]) -> None:
    """Print a table of the variants, with the committed runs and the papers' numbers."""
    from repro.core import config_folders, user_cache
    from repro.core.paths import PACKAGE, reference_root

    trained = [record for record in records if record.identity.trains]
    if not trained:
        return
    named = {run.name: run.experiment for run in runs}
    key = [[record.plain() for record in trained], named, user_cache.tree_digest([PACKAGE, reference_root()])]
    key.append(config_folders.folders_state())
    if (text := user_cache.load_cached("ending", key)) is None:
        text = ending_table(trained, named)
        user_cache.save_cached("ending", key, text)
    print(text)


def ending_table(trained: Sequence[Record], named: Mapping[str, str]) -> str:
    """The table of `show_ending`. trained: records of trainings; named: run -> experiment."""
    from repro.core.paths import reference_root
    from repro.records import catalogue, comparison, variants  # imports pandas
    from repro.records.record import Found
    from repro.records.record_list import warning_lines
    from repro.records.tables import build_table

    here = [Found(catalogue.WORKSPACE, record) for record in trained]
    places = {variants.place(record) for record in trained}
    of_paper: dict[str, set[str]] = {}
    for record in trained:
        of_paper.setdefault(record.identity.paper, set()).add(record.identity.experiment)
    published = [run for paper, names in of_paper.items() for run in catalogue.runs(paper, reference_root(), names)]
    committed = [run for run in published if variants.place(run) in places]
    runs = build_table("runs", [*here, *committed])
    mine, theirs = (runs[runs["origin"] == origin] for origin in (catalogue.WORKSPACE, catalogue.REFERENCE))
    mine = mine.assign(variant=[label.variant for label in variants.labels(trained)])  # apart from each other
    printed = {run.record.name: printed_for(run, named[run.record.run]) for run in here}
    tables = comparison.format_tables(comparison.tabulate_ending(mine, theirs, printed))
    return "\n".join([tables, *warning_lines(mine), *unlike_real_data(here)])


def unlike_real_data(trained: Sequence[Found]) -> list[str]:
    """Lines that name stand-ins whose sizes are not the real data's, on which the model's size depends."""
    others = [run for run in trained if run.identity.dataset and not run.training.dataset.like_real]
    names = {run.training.dataset.name: run.identity.dataset.name for run in others if run.identity.dataset}
    return [
        f"{used} has other sizes than {real}: no claim is judged by these runs (`repro data fetch {real}` says more)"
        for used, real in names.items()
    ]


def printed_for(run: Found, experiment: str) -> dict[str, float]:
    """column -> the number that the paper prints for a training of this experiment: none for a configuration that the
    user changed, and no score beside that of stand-in data or of the experiment's own small size for trying out."""
    from repro.core.choices import QUICK
    from repro.experiment.files import own_file
    from repro.experiment.quoted import quoted_numbers
    from repro.records.variants import user_changes

    if user_changes(run.identity) or not run.training.dataset.like_real:
        return {}
    quoted, sizes = quoted_numbers(experiment), own_file(experiment).get("scales") or {}
    smaller = run.identity.scale == QUICK and bool(sizes.get(QUICK))
    columns = [column for column in quoted if column != "final" or not (smaller or run.training.dataset.standin)]
    return {column: quoted[column][name] for column in columns if (name := run.identity.variant) in quoted[column]}


def builds_page(ran: str, report: bool) -> bool:
    """Whether a command that ran a paper or experiment ends with the page."""
    from repro.core.config_folders import report_folder
    from repro.experiment.config import paper_of

    return report and ran == paper_of(ran) and (report_folder(ran) / PAGE).is_file()


def show_where(ran: str, report: bool, runs: Sequence[Run], mirrored: Sequence[Record]) -> None:
    """Print where results are, how to see the page, and the MLflow address.

    ran: a paper or an experiment, of which, if `report`, the headline claims are printed; then a paper's page is built.
    runs: of the command, finished now or before, that answer them. mirrored: runs that MLflow has.
    """
    from repro.answers.mlflow.ui import where
    from repro.cli.pages import answer_claims, build_pages
    from repro.core.config_folders import report_folder
    from repro.core.paths import results_root
    from repro.experiment.config import paper_of

    paper = paper_of(ran)
    has_page = (report_folder(paper) / PAGE).is_file()
    builds = builds_page(ran, report)
    print()
    if report and has_page and (claims := answer_claims(ran, {run.key for run in runs})):
        print(f"{claims}\n", flush=True)
    shown = build_pages(paper) if builds else None
    print(f"open          {shown['page'] if shown else results_root() / paper}")
    if not shown:
        print(f"page          repro report {paper}" if has_page else f"runs          repro results {paper}")
    # importing MLflow takes seconds; a command that mirrored runs has imported it
    print(f"MLflow        {where(mirrored if 'mlflow' in sys.modules else [])}")
