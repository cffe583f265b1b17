"""`repro draws`: the draws that headlines rest on, whether they decide, and what more would cost."""

from __future__ import annotations

import argparse
import json
import math
from typing import Any

from repro.cli.options import as_json


def add_commands(commands: Any) -> None:
    text = "list the draws behind the headlines: how many, whether they decide, and what the next would cost"
    draws = commands.add_parser("draws", help=text)
    draws.add_argument("paper", nargs="?", help="a paper (default: all)")
    as_json(draws)
    draws.set_defaults(command=cmd_draws)


def cmd_draws(args: argparse.Namespace) -> None:
    from repro.answers.pages.overview import papers
    from repro.core.errors import unknown_name

    known = papers()
    if args.paper and args.paper not in known:
        raise unknown_name("paper", args.paper, known)
    headlines = [row for paper in ([args.paper] if args.paper else known) for row in rows_of_headlines(paper)]
    headlines.sort(key=lambda row: math.inf if row["seconds"] is None else row["seconds"])
    if args.json:
        print(json.dumps(headlines, indent=1))
    elif headlines:
        print(text_of(headlines))


def rows_of_headlines(paper: str) -> list[dict[str, Any]]:
    """A row for each headline of a paper that rests on draws. seconds: of one core for the missing draws of
    the sides that it reads; the command may draw others too."""
    from repro.answers.claims.draws_due import draws_of_headlines
    from repro.answers.pages import wording
    from repro.answers.pages.claim_tables import run_argument
    from repro.answers.tables import results

    read = results.read(paper, None)
    deciding = [wording.deciding(kinds) for kinds in wording.by_claim(read.verdicts).values()]
    return [
        {
            "paper": paper, "claim": due.verdict.claim.id, "verdict": due.verdict.verdict.words, "draws": due.draws,
            "undecided": due.undecided, "wanted": due.wanted,
            "seconds": None if math.isnan(due.seconds) else due.seconds,
            "command": f"repro run {run_argument(paper, due.verdict.claim, read.experiments)} --scale {due.scale} "
            f"--draws {due.wanted}",
        }
        for due in draws_of_headlines(read, deciding)
    ]  # fmt: skip


def text_of(headlines: list[dict[str, Any]]) -> str:
    """A line a headline, those that cost least first; the command where more draws are wanted."""
    from repro.launch.progress import format_duration

    lines = []
    for row in headlines:
        more = row["wanted"] > row["draws"]
        cost = "unknown" if row["seconds"] is None else format_duration(row["seconds"])
        lines.append(
            [
                f"{row['paper']} {row['claim']}", row["verdict"], f"{row['draws']} draws",
                "undecided" if row["undecided"] else "decided",
                f"{row['wanted']} take {cost}" if more else "", row["command"] if more else "",
            ]
        )  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
