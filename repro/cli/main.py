"""The command line: parse, run a command, print errors as one line, return the exit status."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from repro import __version__
from repro.cli import (
    batching,
    benchmarks,
    experiments,
    faults,
    listing,
    machine,
    new,
    pages,
    partition,
    plot,
    price,
    publishing,
    recommend,
    results,
    schedules,
    slurm,
    testbed,
    tracking,
    verify,
)
from repro.cli.options import Parser, error_prefix
from repro.core import config_folders, warnings
from repro.core.errors import UNUSABLE, InputError, ReproError, shortened
from repro.core.full_disk import place_of
from repro.core.warnings import one_line

# headings of `repro --help` -> modules of commands
MODULES = {
    "run experiments": (listing, experiments, slurm),
    "read and publish results": (results, plot, pages, publishing, verify),
    "plan without training": (recommend, partition, batching, schedules, price),
    "add your own": (new,),
    "this machine": (machine, testbed, tracking),
    "check the harness": (benchmarks, faults),
}
AGAIN_S = 0.05  # delay before a signal that had no effect is repeated


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 done, 1 a failure while running, 2 invalid input, 128 + signal number
    after a signal, as in shells (130 after Ctrl-C, 143 after SIGTERM)."""
    warnings.forget()
    try:
        chosen, args = parsed(arguments)
        with config_folders.used(chosen.config_dir), signals_interrupt():
            status = args.command(args) or 0
            sys.stdout.flush()
            return status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ReproError as error:
        print(f"{error_prefix()} {one_line(str(error))}", file=sys.stderr)
        return error.status
    except OSError as error:
        if error.errno not in UNUSABLE:
            raise
        print(f"{error_prefix()} {one_line(shortened(place_of(error)))}: {error.strerror}", file=sys.stderr)
        return InputError.status
    except KeyboardInterrupt as interrupt:
        (sign,) = interrupt.args or (signal.SIGINT,)
        how = "interrupted" if sign == signal.SIGINT else f"terminated by {sign.name}"
        print(f"repro: {how}; the same command resumes", file=sys.stderr)
        return 128 + sign


def parsed(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, argparse.Namespace]:
    """The options of every command, and the arguments of the chosen one."""
    parser = build_parser()
    chosen, arguments = config_folder().parse_known_args(arguments)
    args, rest = parser.parse_known_args(arguments)
    if rest and (not hasattr(args, "overrides") or any(word.startswith("-") for word in rest)):
        args.parser.refuse(rest)
    if rest:  # overrides behind options, which argparse does not collect
        args.overrides = [*args.overrides, *rest]
    return chosen, args


@contextlib.contextmanager
def signals_interrupt() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does, so that a command ends after its processes.

    Ignored signals (job scripts, nohup) stay ignored; outside the main thread nothing changes.
    """
    signs = [signal.SIGTERM, signal.SIGHUP] if threading.current_thread() is threading.main_thread() else []
    handled = [sign for sign in signs if signal.getsignal(sign) == signal.SIG_DFL]
    default_hook = sys.unraisablehook
    sys.unraisablehook = lambda dropped: _send_again(dropped) or default_hook(dropped)
    for sign in handled:
        signal.signal(sign, _interrupt)
    try:
        yield
    finally:
        for sign in handled:
            signal.signal(sign, signal.SIG_DFL)
        sys.unraisablehook = default_hook


def _send_again(dropped: Any) -> bool:
    """Send a signal again whose KeyboardInterrupt Python dropped, as it does in fork hooks; whether it was one."""
    if not isinstance(dropped.exc_value, KeyboardInterrupt):
        return False
    (sign,) = dropped.exc_value.args or (signal.SIGINT,)
    repeat = threading.Timer(AGAIN_S, os.kill, (os.getpid(), sign))
    repeat.daemon = True
    repeat.start()
    return True


def _interrupt(number: int, frame: Any) -> NoReturn:
    raise KeyboardInterrupt(signal.Signals(number))


def config_folder() -> Parser:
    """The parser of the option that every command accepts, before or after its name."""
    parser = Parser(add_help=False, allow_abbrev=False)
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
    parser.set_defaults(command=lambda args: parser.print_help())
    group = parser.add_subparsers(metavar="COMMAND", parser_class=Parser)
    for heading, modules in MODULES.items():
        with parser.under(heading, group):
            for module in modules:
                module.add(group)
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
