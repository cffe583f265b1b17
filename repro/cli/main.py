"""The command line: parse, run a command, print errors as one line, return the exit status."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from repro import __version__
from repro.cli import (
    batching,
    benchmarks,
    draws,
    experiments,
    listing,
    machine,
    new,
    pages,
    partition,
    plot,
    price,
    publishing,
    queue,
    recommend,
    results,
    schedules,
    slurm,
    testbed,
    tracking,
    verify,
)
from repro.cli.options import Parser, error_prefix
from repro.core import command_process, config_folders, terminal
from repro.core.errors import UNUSABLE, InputError, ReproError, error_place, shorten_path
from repro.core.terminal import one_line

# headings of `repro --help` -> modules of commands
MODULES = {
    "run experiments": (listing, experiments, queue, slurm),
    "read and publish results": (results, plot, pages, publishing, verify),
    "plan without training": (recommend, partition, batching, schedules, price, draws),
    "add your own": (new,),
    "this machine": (machine, testbed, tracking, benchmarks),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 done, 1 a failure while running, 2 invalid input, 128 + signal number
    after a signal, as in shells (130 after Ctrl-C, 143 after SIGTERM).

    arguments: None: those of this process, which is then the command's own (`repro.core.command_process`).
    """

    def command() -> int | None:
        chosen, args = parse_arguments(arguments)
        if arguments is None:
            command_process.start_guard()
        ended = command_process.signals_interrupt(args.statuses, args.resumes)
        with config_folders.using_folders(chosen.config_dir), ended:
            status: int | None = args.command(args)
            sys.stdout.flush()
            return status

    return run_reporting_errors(command)


def run_reporting_errors(command: Callable[[], int | None]) -> int:
    """Call a command; returns its exit status, as `main`. An error is printed as one line."""
    terminal.forget_warnings()
    try:
        return command() or 0
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ReproError as error:
        print(f"{error_prefix()} {one_line(str(error))}", file=sys.stderr)
        return error.status
    except OSError as error:
        if error.errno not in UNUSABLE:
            raise
        print(f"{error_prefix()} {one_line(shorten_path(error_place(error)))}: {error.strerror}", file=sys.stderr)
        return InputError.status
    except KeyboardInterrupt as interrupt:
        return command_process.status_after(interrupt)


def parse_arguments(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, argparse.Namespace]:
    """The options of every command, and the arguments of the chosen one."""
    parser = build_parser()
    chosen, arguments = config_folder().parse_known_args(arguments)
    args, rest = parser.parse_known_args(arguments)
    if rest and (not hasattr(args, "overrides") or any(word.startswith("-") for word in rest)):
        args.parser.refuse(rest)
    if rest:  # overrides behind options, which argparse does not collect
        args.overrides = [*args.overrides, *rest]
    return chosen, args


def config_folder() -> Parser:
    """The parser of the option that every command accepts, before or after its name."""
    parser = Parser(add_help=False)
    text = "a folder of other experiments and papers, laid out as paper_configs/ (also: $REPRO_CONFIGS); repeatable"
    parser.add_argument("--config-dir", metavar="DIR", type=Path, action="append", default=[], help=text)
    return parser


def build_parser() -> Parser:
    parser = Parser(
        prog="repro",
        parents=[config_folder()],
        description="Reproduce the experiments of papers on distributed deep-learning training: "
        "measured on this machine, simulated on the papers' testbeds.",
    )
    parser.add_argument("--version", action="version", version=f"repro {__version__}")
    parser.set_defaults(command=lambda args: parser.print_help(), statuses={}, resumes=False)
    group = parser.add_subparsers(metavar="COMMAND", parser_class=Parser)
    for heading, modules in MODULES.items():
        with parser.under(heading, group):
            for module in modules:
                module.add_commands(group)
    with parser.under("your shell", group):
        completion = group.add_parser("completion", help='print shell completion: eval "$(repro completion bash)"')
        completion.add_argument("shell", choices=["bash", "zsh", "tcsh"])
        completion.set_defaults(command=lambda args: print_completion(parser, args.shell))
    return parser


def print_completion(parser: Parser, shell: str) -> None:
    """Print the shell code for completion of commands and options."""
    import shtab

    print(shtab.complete(parser, shell))


if __name__ == "__main__":
    sys.exit(main())
