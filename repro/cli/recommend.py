"""`repro recommend`, `repro map`: rank strategies for a model on a network, and map the fastest ones."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from repro.cli.options import as_json
from repro.core.errors import InputError, unknown_name


def add_commands(commands: Any) -> None:
    recommend = commands.add_parser("recommend", help="rank strategies for a model on a network")
    recommend.add_argument(
        "model", help="a model (resnet50, bert_base), FILE.py:Class of a module, or FILE.json of `repro profile`"
    )
    recommend.add_argument(
        "--bandwidth", metavar="BITS", help="line rate of a machine's network card, bits/s: 10g; its goodput is drawn"
    )
    recommend.add_argument(
        "--goodput", metavar="BITS", help="instead, what you measured between two machines: 9.4g, 940m"
    )
    recommend.add_argument("--transport", default="tcp", help="of the messages over the line: tcp (default) or rdma")
    recommend.add_argument("--workers", type=int, help="GPUs that compute; must be given")
    recommend.add_argument(
        "--latency",
        metavar="SECONDS",
        help="one-way latency of a small message, at most 10s: 50us (default: drawn, 3 to 100 us)",
    )
    recommend.add_argument(
        "--gpus-per-node", type=int, default=1, metavar="N", help="GPUs in a machine, which share its network card"
    )
    recommend.add_argument(
        "--intra", metavar="LINK", help="between the GPUs of a machine: nvlink, pcie3, pcie4, or GB/s (default: drawn)"
    )
    recommend.add_argument(
        "--step-ms", type=float, metavar="MS", help="time of one worker's forward and backward pass on a minibatch"
    )
    recommend.add_argument(
        "--gpu", nargs="?", const="", metavar="NAME", help="instead, a GPU with published steps: V100, A100 ..."
    )
    recommend.add_argument(
        "--precision",
        default="fp32",
        metavar="NAME",
        help="of that GPU's steps: fp32 (default); fp16 or bf16, which are mixed precision",
    )
    recommend.add_argument("--batch", type=int, default=32, help="samples in one worker's minibatch (default 32)")
    recommend.add_argument(
        "--imbalance",
        type=float,
        metavar="SHARE",
        help="delay of a random worker in each iteration, as a share of its computation",
    )
    recommend.add_argument(
        "--memory", metavar="BYTES", help="memory of a GPU, as 16G (default: of --gpu); what needs more is not named"
    )
    recommend.add_argument(
        "--measured",
        action="append",
        default=[],
        metavar="TIME@WORKERS",
        help="an iteration of your own run with DDP, as 412ms@8: scales all predictions; three fit step and goodput",
    )
    recommend.add_argument("--input", metavar="SHAPE", help="shape of a module's sample: 3,224,224; 128 for words")
    recommend.add_argument("--all", action="store_true", help="print all rows of the table, not only the best")
    as_json(recommend)
    recommend.set_defaults(command=cmd_recommend)

    map_ = commands.add_parser("map", help="map the fastest strategy over bandwidth, computation, workers, imbalance")
    map_.add_argument(
        "--simulations", type=int, default=400, metavar="N", help="cells near borders to simulate at most (default 400)"
    )
    map_.add_argument("--out", metavar="FOLDER", help="save the page's tables in this folder: map.csv and others")
    map_.add_argument(
        "--check-forms",
        nargs="*",
        metavar="CANDIDATE",
        help="instead, compare closed forms with simulations in random settings (hours for all), and save forms.csv "
        "with the rows that it has of other candidates",
    )
    map_.add_argument(
        "--first-case",
        type=int,
        metavar="N",
        help="the first of these settings: others than before (default 0)",
    )
    map_.set_defaults(command=cmd_map)


def cmd_map(args: argparse.Namespace) -> None:
    """Build the map, or check the forms behind it."""
    if args.simulations < 0:
        raise InputError(f"--simulations {args.simulations}: must be 0 or more")
    if args.first_case is not None and args.check_forms is None:
        raise InputError("--first-case is a setting of --check-forms, which is not given")

    from repro.core.user_files import make_target_folder

    folder = Path(args.out) if args.out else None
    if folder:
        make_target_folder("--out", folder)
    if args.check_forms is not None:
        return check_forms(args.check_forms, args.first_case or 0, folder)

    from repro.answers.ranking import (
        against,
        calibration,
        cells,
        emulated,
        paper_places,
        published,
        statistical,
        written,
    )
    from repro.answers.ranking import map as maps
    from repro.core.atomic import write_atomically

    compared = published.compare_published()
    lead = calibration.fit_calibration(compared).lead
    mapped = maps.build_map(args.simulations, lead, lambda line: print(line, file=sys.stderr))
    if folder:
        tables: dict[str, tuple[type, list[Any]]] = {
            "map": (cells.Cell, mapped),
            "published": (against.Compared, compared),
            "headlines": (cells.Placed, [paper_places.locate_paper(place) for place in paper_places.PAPER_PLACES]),
            "emulated": (against.Emulated, emulated.emulated_rows()),
            "costs": (statistical.Pair, statistical.measured_pairs()),
        }
        for name, (kind, rows) in tables.items():
            write_atomically(folder / f"{name}.csv", written.as_csv(kind, rows))
    print(cells.describe_map(mapped))


def check_forms(names: list[str], first: int, folder: Path | None) -> None:
    """names: of candidates; none: all."""
    from repro.answers.ranking.candidates import read_candidates

    among = read_candidates()
    if unknown := [name for name in names if name not in among]:
        raise unknown_name("candidate", unknown[0], among)

    from repro.answers.ranking import form_checks, written  # import PyTorch
    from repro.answers.ranking.form_errors import CASES, SHARE, WITHIN, Checked, FormError
    from repro.core.atomic import write_atomically

    file = folder / "forms.csv" if folder else None
    every = written.from_csv(Checked, file.read_text(encoding="utf-8")) if file and file.exists() else []
    for name in names or among:
        candidate = among[name]
        rows = form_checks.check_form(candidate, CASES, first)
        error = FormError.of(rows)
        print(
            f"{candidate.label}: within {WITHIN:.0%} in {error.within:.1%} of {error.cases} settings "
            f"({SHARE:.0%} are needed); {error.ends[0]:+.1%} to {error.ends[1]:+.1%}",
            flush=True,
        )
        every = [row for row in every if row.candidate != name] + rows
        if file:
            order = list(among)
            every.sort(key=lambda row: (order.index(row.candidate), row.case))
            write_atomically(file, written.as_csv(Checked, every))


def cmd_recommend(args: argparse.Namespace) -> None:
    from repro.answers.ranking import answer_question
    from repro.answers.ranking.arguments import Question

    if args.workers is None:
        raise InputError("recommend needs --workers, the number of GPUs that compute")
    asked = Question(
        args.model, args.bandwidth, args.workers, args.goodput, args.transport, args.latency, args.gpus_per_node,
        args.intra, args.step_ms, args.gpu, args.batch, args.imbalance, args.memory, _shape(args.input),
        args.measured, args.precision,
    )  # fmt: skip
    answer = answer_question(asked)

    from repro.answers.ranking import text  # imports PyTorch

    print(
        json.dumps(text.plain_answer(answer), indent=1, allow_nan=False)
        if args.json
        else text.format_answer(answer, args.all)
    )


def _shape(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = text.replace("x", ",").split(",")
    if not all(part.strip().isdecimal() and int(part) for part in parts):
        raise InputError(f"--input {text}: must be whole numbers, 1 or more, as 3,224,224")
    return tuple(map(int, parts))
