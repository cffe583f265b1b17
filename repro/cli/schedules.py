"""`repro schedule`: draw or list the passes of a pipeline schedule by rank and time."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from repro.cli.options import as_json, parse_count
from repro.core.errors import InputError, unknown_name

if TYPE_CHECKING:
    from repro.algorithms.pipeline.passes import Plan
    from repro.algorithms.pipeline.timeline import Pass

ONLY_1F1B = ("in_flight", "semantics", "overlap")  # options of a schedule without flushes


def add_commands(commands: Any) -> None:
    schedule = commands.add_parser("schedule", help="draw a pipeline's schedule, checked for deadlock")
    schedule.add_argument("config", help="replicas of each stage, for instance 1-1-1-1 or 2-1-1")
    schedule.add_argument("--minibatches", type=parse_count, default=8)
    schedule.add_argument("--schedule", default="1f1b", help="1f1b, gpipe or 1f1b-flush")
    schedule.add_argument(
        "--flush", type=parse_count, metavar="N", help="minibatches in an update (default: one a rank)"
    )
    schedule.add_argument(
        "--in-flight", type=parse_count, metavar="N", help="minibatches in flight at each replica of the input stage"
    )
    schedule.add_argument("--semantics", help="stashing, vertical_sync or naive")
    schedule.add_argument("--overlap", choices=["on", "off"], help="let replicas continue while they synchronise")
    schedule.add_argument(
        "--forward", type=parse_count, default=1, metavar="UNITS", help="time of a stage's forward pass"
    )
    schedule.add_argument(
        "--backward", type=parse_count, default=1, metavar="UNITS", help="time of a stage's backward pass"
    )
    as_json(schedule)
    schedule.set_defaults(command=cmd_schedule)


def cmd_schedule(args: argparse.Namespace) -> None:
    from repro.algorithms.pipeline import timeline

    plan = make_plan(args)
    passes = timeline.timeline_passes(plan, args.forward, args.backward)
    if args.json:
        print(json.dumps(schedule_json(args, plan, passes), indent=1))
    else:
        print(describe_plan(plan, passes))
        print(timeline.draw_passes(plan, passes))


def make_plan(args: argparse.Namespace) -> Plan:
    """The plan of the options, with one block for each stage; InputError for an invalid combination."""
    from repro.algorithms.pipeline.layout import make_layout, parse_config
    from repro.algorithms.pipeline.passes import SCHEDULES, SEMANTICS, Plan, flush_of
    from repro.experiment import limits

    if args.schedule not in SCHEDULES:
        raise unknown_name("schedule", args.schedule, SCHEDULES)
    try:
        replicas = parse_config(args.config)
    except InputError:
        raise InputError(f"config {args.config}: must be the replicas of each stage, as in 2-1-1") from None
    stages = len(replicas)
    limits.check_limit("ranks", sum(replicas), limits.RANKS)
    units = args.minibatches * stages * (args.forward + args.backward)
    limits.check_limit("units of computation (minibatches x stages x units of both passes)", units, limits.UNITS)
    placed = make_layout(args.config, range(1, stages), stages)
    if args.schedule != "1f1b":
        if wrong := next((name for name in ONLY_1F1B if getattr(args, name) is not None), None):
            option = f"--{wrong.replace('_', '-')} {getattr(args, wrong)}"
            raise InputError(f"{option}: only schedule 1f1b has it, not {args.schedule}")
        return Plan(placed, args.minibatches, args.schedule, args.flush or flush_of(placed))
    if args.flush is not None:
        raise InputError(f"--flush {args.flush}: only gpipe and 1f1b-flush have flushes, not 1f1b")
    semantics = args.semantics or "stashing"
    if semantics not in SEMANTICS:
        raise unknown_name("semantics", semantics, SEMANTICS)
    overlap = args.overlap != "off"
    return Plan(placed, args.minibatches, in_flight=args.in_flight, semantics=semantics, overlap=overlap)


def describe_plan(plan: Plan, passes: list[Pass]) -> str:
    """The heading of the drawing, with the ranks' busy share."""
    how = f"flushed every {plan.flush} minibatches" if plan.flush else f"NOAM {plan.layout.noam}, {plan.semantics}"
    limit = "" if plan.in_flight is None else f", at most {plan.in_flight} in flight"
    units = max(each.end for each in passes)
    busy = sum(each.end - each.start for each in passes) / (units * plan.layout.ranks)
    return (
        f"{plan.schedule} of {plan.layout.config}, {how}{limit}: {plan.minibatches} minibatches in {units:g} units, "
        f"ranks busy {busy:.0%} of them (* backward pass, . idle)"
    )


def schedule_json(args: argparse.Namespace, plan: Plan, passes: list[Pass]) -> dict[str, Any]:
    """Ranks, stages and minibatches are counted from 0; times are in units."""
    return {
        "config": plan.layout.config,
        **{name: getattr(plan, name) for name in ("schedule", "minibatches", "flush", "in_flight")},
        "semantics": None if plan.flush else plan.semantics,
        "overlap": None if plan.flush else plan.overlap,
        "noam": plan.layout.noam,
        "forward": args.forward,
        "backward": args.backward,
        "passes": [each._asdict() for each in passes],
    }
