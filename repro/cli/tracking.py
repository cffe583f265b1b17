"""`repro track`, `repro ui`: mirror runs to MLflow and open its UI."""

from __future__ import annotations

import argparse
from typing import Any


def add(commands: Any) -> None:
    track = commands.add_parser("track", help="mirror missing runs to MLflow: repro track sync")
    track.add_argument("action", choices=["sync"])
    track.set_defaults(command=cmd_track)

    ui = commands.add_parser("ui", help="open the MLflow UI on this machine")
    ui.add_argument("--port", type=int, default=5000)
    ui.add_argument("--host", default="127.0.0.1")
    ui.add_argument("--sync", action="store_true", help="first mirror missing runs, as `repro track sync` does")
    ui.set_defaults(command=cmd_ui)


def cmd_track(args: argparse.Namespace) -> None:
    sync()


def cmd_ui(args: argparse.Namespace) -> None:
    from repro.answers.mlflow.ui import check_port, serve

    if args.sync:
        check_port(args.host, args.port)  # before the minutes that it may take
        print("mirroring the results to MLflow ...", flush=True)
        sync()
    serve(args.host, args.port)


def sync() -> None:
    """Mirror the results that MLflow lacks, and print how many."""
    from repro.answers.mlflow import sync_all
    from repro.core.paths import results_root

    synced = sync_all(results_root())
    running = f", {synced.running} left to the commands that run them" if synced.running else ""
    print(f"{synced.done} runs mirrored to MLflow, {synced.already} were there already{running}")
