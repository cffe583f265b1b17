"""The argument parser of all commands, and shared arguments."""

from __future__ import annotations

import argparse
import contextlib
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

from repro.core import own_code
from repro.core.choices import QUICK, SCALES, Device
from repro.core.errors import InputError, unknown_name
from repro.core.terminal import one_line, style_text
from repro.core.user_files import check_target

NUMBERS: dict[Any, str] = {int: "a whole number", float: "a number"}  # argparse types
ALLOT = -1  # --draws without a number


class Parser(argparse.ArgumentParser):
    """argparse with one-line errors that name the nearest command or option, and commands under headings.

    An argument such as -1e8,2 is a value, not an option.
    """

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options | {"allow_abbrev": False})
        self._negative_number_matcher = re.compile(r"-\.?\d")
        self._headings: dict[str, list[argparse.Action]] = {}
        self.set_defaults(parser=self)  # overridden by a command's own parser

    @contextlib.contextmanager
    def under(self, heading: str, commands: Any) -> Iterator[None]:
        """List the commands that the block adds under a heading of the help."""
        before = len(commands._choices_actions)
        yield
        self._headings[heading] = commands._choices_actions[before:]

    def format_help(self) -> str:
        """argparse's help, with the commands under their headings."""
        if not self._headings:
            return super().format_help()
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for heading, commands in self._headings.items():
            formatter.start_section(style_text(heading, "bold", sys.stdout))
            formatter.add_arguments(commands)
            formatter.end_section()
        formatter.start_section(style_text("options", "bold", sys.stdout))
        formatter.add_arguments(self._optionals._group_actions)
        formatter.end_section()
        return formatter.format_help()

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            self._unknown("command", str(value), action.choices)
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, f"{value}: must be {', '.join(map(str, action.choices))}")
        super()._check_value(action, value)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        # Path("") would be the current folder, and a command takes "" for an option left out; subcommands come here too
        if not arg_string and not isinstance(action, argparse._SubParsersAction):
            raise argparse.ArgumentError(action, "is empty; must be a value, or left out")
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError:
            if action.type not in NUMBERS:
                raise
            raise argparse.ArgumentError(action, f"{arg_string}: must be {NUMBERS[action.type]}") from None

    def _match_argument(self, action: argparse.Action, arg_strings_pattern: str) -> int:
        try:
            return super()._match_argument(action, arg_strings_pattern)
        except argparse.ArgumentError:
            few = "a value" if action.nargs in (None, "?") else "one value or more"
            raise argparse.ArgumentError(action, f"needs {few}") from None

    def refuse(self, words: list[str]) -> None:
        """Exit with an error about unrecognized words, and the nearest options to the first unknown one."""
        if options := [word.partition("=")[0] for word in words if word.startswith("-")]:
            self._unknown("option", options[0], self._option_string_actions)
        self.error(f"unrecognized arguments: {' '.join(words)}")

    def _unknown(self, kind: str, name: str, valid: Iterable[str]) -> None:
        self.fail(str(unknown_name(kind, name, valid, all_of=f"{self.prog} --help")))

    def error(self, message: str) -> Any:
        """Exit with a message of argparse in this project's form."""
        for begins, ours in {"argument ": "", "the following arguments are required: ": "needs "}.items():
            if message.startswith(begins):
                message = ours + message.removeprefix(begins)
        self.fail(f"{message} (see {self.prog} --help)")

    def fail(self, message: str) -> Any:
        """Exit with one line on stderr."""
        self.exit(InputError.status, f"{error_prefix()} {one_line(message)}\n")


def error_prefix() -> str:
    """The prefix of an error on stderr."""
    return style_text("repro: error:", "red", sys.stderr)


def parse_count(text: str) -> int:
    """The argparse type of whole numbers, 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number, 1 or more")
    return int(text)


def parse_amount(text: str) -> float:
    """The argparse type of numbers, 0 or more."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: must be a finite number, 0 or more")
    return number


def parse_plugin(group: str) -> Callable[[str], str]:
    """The argparse type of the name of a plugin of a configuration group, which may be a user's own file
    (`repro.core.own_code`)."""

    def parse(name: str) -> str:
        from repro.core.registry import PLUGINS

        if own_code.is_place(name):
            own_code.admit_plugin(name)
        elif name not in (names := PLUGINS[group].names()):
            raise unknown_name(PLUGINS[group].kind, name, names)
        return name

    return parse


def new_file(text: str) -> Path:
    """The argparse type of a file that the command writes."""
    try:
        check_target(Path(text))
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return Path(text)


def add_dataset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dataset", type=parse_plugin("dataset"), help="data set of the minibatches (default: as in the experiments)"
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="auto", choices=get_args(Device), help="device of the computation")


def as_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="machine-readable output")


def experiment_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", help="PAPER, PAPER/EXPERIMENT (pipesgd/fig4-mnist) or a file (./table3.yaml)")
    parser.add_argument(
        "overrides", nargs="*", default=[], help="key=value, for instance strategy=pipe_sgd strategy.K=3 seeds=5"
    )
    sizes = f"size of the experiment: {', '.join(SCALES)} (default: %(default)s)"
    parser.add_argument("--scale", default=QUICK, help=sizes)


def parse_draws(text: str) -> int:
    """The argparse type of a number of draws."""
    from repro.experiment.inputs import MOST_DRAWS, check_draws

    if not text.lstrip("-").isdecimal():
        raise argparse.ArgumentTypeError(f"{text}: must be a power of two, 2 to {MOST_DRAWS}")
    check_draws(int(text))
    return int(text)


def draws_argument(parser: argparse.ArgumentParser) -> None:
    text = (
        "instead of the usual runs, draw the assumed inputs of the simulated ones N times (a power of two; without N "
    )
    text += "as often as fits into a night)"
    parser.add_argument("--draws", metavar="N", type=parse_draws, nargs="?", const=ALLOT, default=0, help=text)
