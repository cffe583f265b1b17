"""The command line: parse, run one command (`repro/commands/`), turn errors into one line and an exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from repro import __version__, commands
from repro.commands.options import Parser
from repro.errors import UNWRITABLE, InputError, ReproError

LONGEST = 4000  # characters of a message


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
        print(f"repro: error: {one_line(str(error))}", file=sys.stderr)
        return error.status
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        print(f"repro: error: {error.filename or 'results folder'}: {error.strerror}", file=sys.stderr)
        return InputError.status
    except KeyboardInterrupt:
        print("repro: interrupted; the same command resumes", file=sys.stderr)
        return 130


def one_line(text: str) -> str:
    """A message as it is shown: what it cites of the input may be of any length and hold any character."""
    shown = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]} ... ({len(shown):,} characters)"


def build_parser() -> Parser:
    parser = Parser(
        prog="repro",
        description="Reproduce the experiments of five papers on distributed deep-learning training: "
        "measured on this machine, simulated on the papers' testbeds.",
    )
    parser.add_argument("--version", action="version", version=f"repro {__version__}")
    parser.set_defaults(command=lambda args: parser.print_help())
    group = parser.add_subparsers(metavar="COMMAND", parser_class=Parser)
    for module in commands.MODULES:
        module.add(group)
    return parser


if __name__ == "__main__":
    sys.exit(main())
