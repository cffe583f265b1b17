"""`repro track`, `repro ui`: mirror runs to MLflow and open its UI."""

from __future__ import annotations

import argparse
from typing import Any

from repro.core.errors import InputError
from repro.core.terminal import print_progress


def add_commands(commands: Any) -> None:
    track = commands.add_parser("track", help="mirror missing runs to MLflow: repro track sync")
    track.add_argument("action", choices=["sync"])
    paper_option(track)
    track.set_defaults(command=cmd_track)

    ui = commands.add_parser("ui", help="open the MLflow UI on this machine")
    ui.add_argument("--port", type=int, default=5000)
    ui.add_argument("--host", default="127.0.0.1")
    ui.add_argument("--sync", action="store_true", help="first mirror missing runs, as `repro track sync` does")
    paper_option(ui)
    ui.set_defaults(command=cmd_ui)


def paper_option(command: argparse.ArgumentParser) -> None:
    command.add_argument("--paper", help="mirror this paper's runs alone (pipesgd, ...; default: all)")


def cmd_track(args: argparse.Namespace) -> None:
    sync_runs(args.paper)


def cmd_ui(args: argparse.Namespace) -> None:
    from repro.answers.mlflow.ui import check_port, serve

    if args.paper and not args.sync:
        raise InputError("--paper selects the runs that --sync mirrors: repro ui --sync --paper NAME")
    if args.sync:
        check_port(args.host, args.port)  # before a sync that may take minutes
        sync_runs(args.paper)
    serve(args.host, args.port)


def sync_runs(paper: str | None) -> None:
    """Mirror to MLflow the missing runs of one paper or all, and print progress and counts."""
    from repro.answers.mlflow import sync_all
    from repro.answers.mlflow.store import tracking_uri
    from repro.core.paths import results_root

    tracking_uri()  # InputError for a wrong one
    synced = sync_all(results_root(), paper=paper, say=print_progress)
    running = f", {synced.running} left to the commands that run them" if synced.running else ""
    print(f"{synced.done} runs mirrored to MLflow, {synced.already} mirrored before{running}")
