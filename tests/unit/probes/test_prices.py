"""What a strategy's arithmetic costs: measured by kind, written as entries of a testbed, said where it is nothing."""

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
from repro.experiment.expand import expand
from repro.fabric.costs import Costs
from repro.probes.shared import prices
from repro.rank.draws import evaluate
from repro.rank.factory import virtual_costs
from repro.records import catalogue, comparison
from repro.strategies.dsync import DSync
from repro.testing import small
from repro.training.device_times import BlockSeconds

FIG4 = "pipesgd/fig4-mnist"
SIMULATED = ["testbed=paper/pipesgd", "testbed.arithmetic=none", "grid=null", "dataset.standin=always", "epochs=0.1"]
CPU = torch.device("cpu")


class Ticking(DSync):
    """Its work takes ticks: of three a step two are charged, to two bytes, and one is not."""

    ticks = 0.0

    def exchange(self, gradient: torch.Tensor) -> torch.Tensor:
        with self.worker.clock.phase("compress"):
            with self.worker.fabric.compute(self.worker.price("encode/ticks", 2)):
                Ticking.ticks += 2
            Ticking.ticks += 1
        return super().exchange(gradient)


@pytest.fixture
def ticking(monkeypatch):
    monkeypatch.setattr(strategies, "load", lambda name: Ticking)
    monkeypatch.setattr(prices.TimedFabric, "stopwatch", lambda self: Ticking.ticks)


def measured(workers: int) -> prices.Prices:
    shape = {"classes": small.CLASSES, "input_shape": (small.INPUTS,)}
    data = Dataset("tiny", True, "none", small.split(), small.split(), **shape)
    return prices.measure("ticking", Ticking.parse({}), small.model, data, CPU, workers, steps=5)


@pytest.mark.usefixtures("ticking")
@pytest.mark.parametrize("workers", [2, 3])
def test_each_kind_has_its_own_seconds_and_what_is_charged_to_none_is_said(workers):
    found = measured(workers)
    by_kind = {one.kind: one for one in found.prices}
    assert by_kind.keys() == {"encode/ticks", "reduce", "update"}
    assert (by_kind["encode/ticks"].s_per_byte, by_kind["encode/ticks"].step_s) == (1.0, 2.0)
    assert by_kind["encode/ticks"].calls == 1 and by_kind["reduce"].step_s == 0
    assert found.uncharged_s == 1.0 and found.parameters == small.initial().numel()


def test_entries_go_into_a_testbed(tmp_path, capsys):
    """Printed, written and taken: whatever the names of a codec or selection."""
    out = tmp_path / "prices.yaml"
    small_one = ["--steps", "2", "dataset.standin=always"]
    assert main(["price", "powersgd", "strategy.rank=1", "--json", "--out", str(out), *small_one]) == 0
    told = json.loads(capsys.readouterr().out)
    written = yaml.safe_load(out.read_text())
    assert {one["entry"] for one in told["prices"]} >= {
        "encode_s_per_byte.powersgd_r1",
        "decode_s_per_byte.powersgd_r1",
    }
    assert written["sources"].keys() == {"encode_s_per_byte.powersgd_r1", "decode_s_per_byte.powersgd_r1"}
    assert all("repro price powersgd strategy.rank=1" in source for source in written.pop("sources").values())
    given = [f"testbed.{group}.{name}={s!r}" for group, each in written.items() for name, s in each.items()]
    costs = virtual_costs(testbeds.testbed_of(compose(FIG4, ["testbed=virtual", *given])["testbed"]))
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


def test_the_devices_rate_is_known_however_its_speed_is_given():
    """Twice the batch's operations in twice the seconds: of 2 TFLOP/s at a half, and of a published iteration."""
    for device in ({"peak_flops": 2e12, "utilisation": 0.5, "launch_s": 0.0}, {"iteration_s": 1.0, "batch": 4}):
        given = testbeds.testbed_of(compose(FIG4, ["testbed=virtual"])["testbed"] | {"device": {"name": "x"} | device})
        blocks = prices_of(given.device)
        assert sum(blocks.forward) * blocks.flops_per_s == pytest.approx(2 * 4 * (6 * 5 + 5 * 3))


def prices_of(device) -> BlockSeconds:
    from repro.training.device_times import block_seconds

    return block_seconds(small.model(), (small.INPUTS,), 4, device)


class Free(DSync):
    """It compresses, and charges that to nothing."""

    def exchange(self, gradient: torch.Tensor) -> torch.Tensor:
        with self.worker.clock.phase("compress"):
            short = gradient.to(torch.bfloat16)
        return super().exchange(short.float())


def test_a_simulation_says_whose_arithmetic_costs_nothing(monkeypatch):
    """In its record, and in the table at the end, which is without a word of it for the others."""
    load = strategies.load
    records = []
    for strategy in (["strategy=dsync"], ["strategy=powersgd"], ["strategy=dsync", "strategy.algorithm=tree"]):
        if "strategy.algorithm=tree" in strategy:
            monkeypatch.setattr("repro.rank.session.load", lambda name: Free if name == "dsync" else load(name))
        [run] = expand(FIG4, [*SIMULATED, *strategy, "seeds=1"])
        records.append(evaluate(run.config.model_copy(update={"key": "0" * 64, "hardware": {"class": "any"}})))
    assert [record.result.free_arithmetic for record in records] == [False, False, True]
    texts = []
    for record in records:
        found = catalogue.Found(catalogue.WORKSPACE, record)
        table = catalogue.table("runs", [found])
        texts.append(comparison.of(comparison.ending(table, table.iloc[:0])))
    assert ["costs nothing" in text for text in texts] == [False, False, True]


def test_a_strategy_for_a_library_has_no_price():
    with pytest.raises(InputError, match="a library does its arithmetic"):
        prices.measure("ddp", None, small.model, None, CPU)
