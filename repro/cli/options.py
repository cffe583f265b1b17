"""The parser of all commands, and arguments that several of them share."""

from __future__ import annotations

import argparse
import re
from typing import Any

from repro.core.errors import InputError

DEFAULT_SCALE = "quick"  # of `run` and `submit`


class Parser(argparse.ArgumentParser):
    """argparse with one-line errors; an argument like -1e8,2 is a value, not an option."""

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self._negative_number_matcher = re.compile(r"-\.?\d")

    def error(self, message: str) -> Any:
        self.exit(InputError.status, f"repro: error: {message} (see {self.prog} --help)\n")


def as_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="machine-readable output")


def experiment_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", help="PAPER or PAPER/EXPERIMENT, for instance pipesgd/fig4-mnist")
    parser.add_argument(
        "overrides", nargs="*", default=[], help="key=value, for instance strategy=pipe_sgd strategy.K=3 seeds=5"
    )
    names = f"{DEFAULT_SCALE} (the default of `run`), full, paper"
    parser.add_argument("--scale", help=f"size of the experiment: {names}")


def draws_argument(parser: argparse.ArgumentParser) -> None:
    what = "instead of the usual runs, draw the assumed inputs of the simulated ones, N times (a power of two)"
    parser.add_argument("--draws", metavar="N", type=int, default=0, help=what)
