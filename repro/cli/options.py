"""The parser of all commands, and arguments that several of them share."""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from repro.api import DEFAULT_SCALE
from repro.core import own_code
from repro.core.errors import InputError, unknown
from repro.core.terminal import styled
from repro.core.warnings import one_line

ALLOT = -1  # --draws without a number


class Parser(argparse.ArgumentParser):
    """argparse with one-line errors that name the nearest command or option, and with commands under headings.

    An argument like -1e8,2 is a value, not an option.
    """

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self._negative_number_matcher = re.compile(r"-\.?\d")
        self._headings: dict[str, list[argparse.Action]] = {}
        self.set_defaults(parser=self)  # a command's own replaces that of all

    @contextlib.contextmanager
    def under(self, heading: str, commands: Any) -> Iterator[None]:
        """The commands that are added meanwhile stand under this heading in the help."""
        before = len(commands._choices_actions)
        yield
        self._headings[heading] = commands._choices_actions[before:]

    def format_help(self) -> str:
        """As argparse's, the commands under their headings."""
        if not self._headings:
            return super().format_help()
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for heading, commands in self._headings.items():
            formatter.start_section(styled(heading, "bold", sys.stdout))
            formatter.add_arguments(commands)
            formatter.end_section()
        formatter.start_section(styled("options", "bold", sys.stdout))
        formatter.add_arguments(self._optionals._group_actions)
        formatter.end_section()
        return formatter.format_help()

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            self._unknown("command", str(value), action.choices)
        super()._check_value(action, value)

    def refuse(self, words: list[str]) -> None:
        """End with words that this command does not take, and the option that is nearest to the first."""
        if options := [word.partition("=")[0] for word in words if word.startswith("-")]:
            self._unknown("option", options[0], self._option_string_actions)
        self.error(f"unrecognized arguments: {' '.join(words)}")

    def _unknown(self, what: str, given: str, valid: Iterable[str]) -> None:
        self.fail(str(unknown(what, given, valid, most=3, all_of=f"{self.prog} --help")))

    def error(self, message: str) -> Any:
        self.fail(f"{message} (see {self.prog} --help)")

    def fail(self, message: str) -> Any:
        """End with one line on stderr."""
        self.exit(InputError.status, f"{error_prefix()} {one_line(message)}\n")


def error_prefix() -> str:
    """What an error begins with on stderr."""
    return styled("repro: error:", "red", sys.stderr)


def count(text: str) -> int:
    """The type of an option that is a whole number, 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number, 1 or more")
    return int(text)


def plugin(name: str) -> str:
    """The type of an argument that names a plugin, which may be a file of the user's own (`repro.core.own_code`)."""
    try:
        if own_code.is_place(name):
            own_code.admit(name)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return name


def dataset(parser: argparse.ArgumentParser) -> None:
    usual = "data set of the minibatches (default: what experiments train on)"
    parser.add_argument("--dataset", type=plugin, help=usual)


def device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"], help="where to compute")


def as_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="machine-readable output")


def experiment_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", help="PAPER, PAPER/EXPERIMENT (pipesgd/fig4-mnist) or a file (./table3.yaml)")
    parser.add_argument(
        "overrides", nargs="*", default=[], help="key=value, for instance strategy=pipe_sgd strategy.K=3 seeds=5"
    )
    names = f"{DEFAULT_SCALE} (the default), full, paper"
    parser.add_argument("--scale", default=DEFAULT_SCALE, help=f"size of the experiment: {names}")


def draws_argument(parser: argparse.ArgumentParser) -> None:
    what = "instead of the usual runs, draw the assumed inputs of the simulated ones, N times (a power of two; "
    what += "without N as often as there is time for in a night)"
    parser.add_argument("--draws", metavar="N", type=int, nargs="?", const=ALLOT, default=0, help=what)
