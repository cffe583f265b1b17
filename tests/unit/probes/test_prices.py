"""Prices of a strategy's arithmetic: measured by kind, written as entries of a testbed, reported if missing."""

from __future__ import annotations

import json

import pytest
import torch
import yaml

from repro import strategies
from repro.cli.main import main
from repro.core.errors import InputError
from repro.data.base import Dataset
from repro.experiment import testbeds
from repro.experiment.config import compose
from repro.experiment.expand import expand_runs
from repro.fabric.costs import Costs
from repro.fabric.virtual.modelled import virtual_costs
from repro.probes.shared import prices
from repro.rank.draws import simulate_draw
from repro.records import catalogue, comparison
from repro.records.record import Found
from repro.records.tables import build_table
from repro.strategies.dsync import DSync
from repro.testing import small
from repro.training.device_times import BlockSeconds, block_seconds

FIG4 = "pipesgd/fig4-mnist"
SIMULATED = ["testbed=paper/pipesgd", "testbed.arithmetic=none", "grid=null", "dataset.standin=always", "epochs=0.1"]
CPU = torch.device("cpu")


class Ticking(DSync):
    """Its work takes three ticks a step: two are charged, for two bytes, and one is not."""

    ticks = 0.0

    def exchange(self, gradient: torch.Tensor) -> torch.Tensor:
        with self.worker.clock.phase("compress"):
            with self.worker.fabric.compute(self.worker.price("encode/ticks", 2)):
                Ticking.ticks += 2
            Ticking.ticks += 1
        return super().exchange(gradient)


@pytest.fixture
def ticking(monkeypatch):
    monkeypatch.setattr(strategies, "load_strategy", lambda name: Ticking)
    monkeypatch.setattr(prices.TimedFabric, "stopwatch", lambda self: Ticking.ticks)


def measured(workers: int) -> prices.Prices:
    shape = {"classes": small.CLASSES, "input_shape": (small.INPUTS,)}
    data = Dataset("tiny", True, "none", small.split(), small.split(), **shape)
    return prices.measure_prices("ticking", Ticking.parse({}), small.model, data, CPU, workers, steps=5)


@pytest.mark.usefixtures("ticking")
@pytest.mark.parametrize("workers", [2, 3])
def test_charged_work_is_timed_by_kind_and_uncharged_work_apart(workers):
    result = measured(workers)
    by_kind = {one.kind: one for one in result.prices}
    assert by_kind.keys() == {"encode/ticks", "reduce", "update"}
    assert by_kind["encode/ticks"] == prices.Price("encode/ticks", 1.0, 2.0, 1) and by_kind["reduce"].step_s == 0
    assert result.uncharged_s == 1.0 and result.parameters == small.initial_weights().numel()


def test_a_setup_that_does_not_reach_the_base_class_is_named(ticking, monkeypatch):
    """By the user's class, and not by a missing attribute somewhere in ours."""
    monkeypatch.setattr(Ticking, "setup", lambda self, worker: None)
    with pytest.raises(InputError, match=r"does not call super\(\).setup\(worker\)"):
        measured(2)


def test_entries_go_into_a_testbed(tmp_path, capsys):
    """They are printed and written, and a testbed accepts them."""
    out, entries = tmp_path / "prices.yaml", {"encode_s_per_byte.powersgd_r1", "decode_s_per_byte.powersgd_r1"}
    options = ["--json", "--out", str(out), "--steps", "2", "dataset.standin=always"]
    assert main(["price", "powersgd", "strategy.rank=1", *options]) == 0
    assert {one["entry"] for one in json.loads(capsys.readouterr().out)["prices"]} >= entries
    written = yaml.safe_load(out.read_text())
    sources = written.pop("sources")
    assert sources.keys() == entries
    assert all("repro price powersgd strategy.rank=1" in source for source in sources.values())
    overrides = [f"testbed.{group}.{name}={s!r}" for group, each in written.items() for name, s in each.items()]
    costs = virtual_costs(testbeds.testbed_of(compose(FIG4, ["testbed=virtual", *overrides])["testbed"]))
    for way in ("encode", "decode"):
        assert costs.seconds(f"{way}/powersgd_r1", 2) == pytest.approx(2 * written[f"{way}_s_per_byte"]["powersgd_r1"])


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nonsense"], "unknown strategy 'nonsense'"),
        (["ddp"], "strategy ddp: a library does its arithmetic"),
        (["powersgd", "rank=2"], "override 'rank=2': must be strategy.OPTION=value or model.OPTION=value"),
    ],
)
def test_what_has_no_price_is_one_line(words, complaint, capsys):
    assert main(["price", *words, "dataset.standin=always"]) == 2
    assert complaint in capsys.readouterr().err


def test_a_price_is_the_testbeds_or_by_flops():
    def price(costs: Costs, blocks: BlockSeconds | None) -> float | None:
        fabric = small.virtual.run(1, lambda fabric: fabric, small.NETWORK, costs)[0]
        shard = small.ModelShard(small.model(), small.SGD, CPU)
        worker = small.Worker(1, fabric, small.Clock(fabric), shard, small.NoBatches(), 1, 0, blocks=blocks)
        return worker.price("encode/mine", 8, flops=6)

    device = BlockSeconds([1.0, 1.0], [1.0, 1.0], flops_per_s=3.0)
    assert price(Costs(True, {"encode/mine": 0.5}), device) == 4.0
    assert price(Costs(True), device) == 2.0
    assert price(Costs(True), BlockSeconds([1.0, 1.0], [1.0, 1.0])) == 0.0
    assert price(Costs(), None) is None


@pytest.mark.parametrize(
    "device", [{"peak_flops": 2e12, "utilisation": 0.5, "launch_s": 0.0}, {"iteration_s": 1.0, "batch": 4}], ids=str
)
def test_the_devices_rate_follows_from_its_flops_or_a_published_iteration(device):
    entries = compose(FIG4, ["testbed=virtual"])["testbed"] | {"device": {"name": "x"} | device}
    blocks = block_seconds(small.model(), (small.INPUTS,), 4, testbeds.testbed_of(entries).device)
    assert sum(blocks.forward) * blocks.flops_per_s == pytest.approx(2 * 4 * (6 * 5 + 5 * 3))


class Free(DSync):
    """It compresses without charging for it."""

    def exchange(self, gradient: torch.Tensor) -> torch.Tensor:
        with self.worker.clock.phase("compress"):
            short = gradient.to(torch.bfloat16)
        return super().exchange(short.float())


def test_a_simulation_reports_arithmetic_that_costs_nothing(monkeypatch):
    """In its record, and in the table at the end of the command."""
    load = strategies.load_strategy
    records = []
    for strategy in (["strategy=dsync"], ["strategy=powersgd"], ["strategy=dsync", "strategy.algorithm=tree"]):
        if "strategy.algorithm=tree" in strategy:
            monkeypatch.setattr(
                "repro.rank.session.load_strategy", lambda name: Free if name == "dsync" else load(name)
            )
        [run] = expand_runs(FIG4, [*SIMULATED, *strategy, "seeds=1"])
        records.append(simulate_draw(run.config.model_copy(update={"key": "0" * 64, "hardware": {"class": "any"}})))
    assert [record.result.free_arithmetic for record in records] == [False, False, True]
    tables = [build_table("runs", [Found(catalogue.WORKSPACE, record)]) for record in records]
    texts = [comparison.format_tables(comparison.tabulate_ending(table, table.iloc[:0])) for table in tables]
    assert ["costs nothing" in text for text in texts] == [False, False, True]
