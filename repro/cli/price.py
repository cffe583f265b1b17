"""`repro price`: measure the cost of a strategy's arithmetic on this machine, as entries of a testbed."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.cli.options import add_dataset, add_device, as_json, new_file, parse_count, parse_plugin
from repro.cli.partition import group_overrides
from repro.core.without_pytorch import check_early

if TYPE_CHECKING:
    from repro.probes.shared.prices import Prices

EVERY = ("reduce", "update")  # work of every strategy; the testbed has its price


def add_commands(commands: Any) -> None:
    price = commands.add_parser("price", help="measure the cost of a strategy's arithmetic, as entries of a testbed")
    price.add_argument("strategy", type=parse_plugin("strategy"), help="strategy, for instance powersgd")
    price.add_argument("overrides", nargs="*", default=[], help="strategy.OPTION=value, model.OPTION, dataset.OPTION")
    price.add_argument(
        "--model",
        type=parse_plugin("model"),
        default="mnist_mlp",
        help="model whose gradients it takes (default: %(default)s)",
    )
    add_dataset(price)
    price.add_argument("--workers", type=parse_count, default=2, help="ranks, one after another on one device")
    price.add_argument("--batch", type=parse_count, default=4, help="samples in a worker's minibatch")
    price.add_argument("--steps", type=parse_count, default=20, help="iterations to time, after 3 untimed ones")
    add_device(price)
    price.add_argument(
        "--out", type=new_file, metavar="FILE", help="write the entries here, as YAML with their sources"
    )
    as_json(price)
    price.set_defaults(command=cmd_price)


def cmd_price(args: argparse.Namespace) -> None:
    options = group_overrides(args.overrides, "strategy", "model", "dataset")

    def check() -> None:
        from repro import strategies
        from repro.algorithms.pipeline import profiler

        strategies.load_strategy(args.strategy).parse(options["strategy"])
        profiler.check_workload(args.model, args.dataset, options)

    check_early(check)

    from functools import partial

    import torch

    from repro import models, strategies
    from repro.algorithms.pipeline import profiler
    from repro.experiment.testbeds import entry_of
    from repro.fabric.real.gpus import pick_device
    from repro.probes.shared import prices

    chosen = strategies.load_strategy(args.strategy).parse(options["strategy"])
    dataset, classes = profiler.profile_inputs(
        args.model, args.dataset or profiler.usual_dataset(args.model), options["dataset"]
    )
    place = pick_device(args.device, 0)
    torch.set_num_threads(1)  # as ranks of a simulation
    build = partial(models.build_model, args.model, dataset.input_shape, classes, 0, place, **options["model"])
    measured = prices.measure_prices(args.strategy, chosen, build, dataset, place, args.workers, args.batch, args.steps)
    entries, source = entries_of(measured), source_of(args, profiler.hardware_name(place))
    if args.out and entries:
        write_entries(args.out, entries, source)
    if args.json:
        shown = [vars(price) | {"entry": entry_of(price.kind)} for price in measured.prices]
        print(json.dumps({"prices": shown, "uncharged_s": measured.uncharged_s, "source": source}, indent=1))
        return
    print(format_prices(measured, source))
    if entries:
        overrides = " ".join(f"testbed.{name}={seconds:.3g}" for name, seconds in entries.items())
        print(f"next       repro run EXPERIMENT strategy={args.strategy} {overrides}")
        print(f"saved      {args.out}, to be put into a testbed's file" if args.out else "not saved: --out FILE")
        return
    if measured.uncharged_s:
        call = f'fabric.compute(worker.price("encode/{args.strategy}", nbytes))'
        print(f"next       charge it: with {call}: ...  (docs/authors.md)")
    print("not saved: the strategy has no price of its own")


def entries_of(measured: Prices) -> dict[str, float]:
    """Entry -> seconds a byte, to three digits, of the strategy's own work."""
    from repro.experiment.testbeds import entry_of

    prices = [(entry_of(price.kind), price) for price in measured.prices if price.kind not in EVERY]
    return {name: float(f"{price.s_per_byte:.3g}") for name, price in prices if name}


def source_of(args: argparse.Namespace, hardware: str) -> str:
    """The source of a price, for a testbed's `sources`."""
    command = " ".join(["repro price", args.strategy, *args.overrides, f"--model {args.model}"])
    day = datetime.now(UTC).date()
    return f"measured: {command}, median of {args.steps} iterations on {hardware}, {day}"


def write_entries(path: Path, entries: dict[str, float], source: str) -> None:
    """Write the entries as YAML, in the form of a testbed's file."""
    import yaml

    from repro.core.atomic import write_atomically

    made: dict[str, Any] = {}
    for name, seconds in entries.items():
        group, _, option = name.partition(".")
        made |= {group: made.get(group, {}) | {option: seconds}} if option else {group: seconds}
    write_atomically(
        path, yaml.safe_dump(made | {"sources": dict.fromkeys(entries, source)}, sort_keys=False, width=1000)
    )


def format_prices(measured: Prices, source: str) -> str:
    """A line for each kind of work."""
    from tabulate import tabulate

    from repro.experiment.testbeds import entry_of

    none = "none: call it encode/NAME or decode/NAME"
    rows = [
        [price.kind, entry_of(price.kind) or none, price.s_per_byte, 1e3 * price.step_s, price.calls]
        for price in measured.prices
    ]
    head = ["work", "entry of a testbed", "s a byte", "ms a step", "calls a step"]
    gradient = f"a gradient of {measured.parameters:,} float32, {4e-6 * measured.parameters:.3g} MB"
    charged = tabulate(rows, head, floatfmt=".3g") if rows else "no work is charged"
    ms = 1e3 * measured.uncharged_s
    rest = f'\nnot charged  {ms:.3g} ms a step of phase "compress"\n' if ms else ""
    return f"{source}\n{gradient}\n\n{charged}\n{rest}"
