"""The statistical cost of strategies, from the reference's trainings."""

from __future__ import annotations

import pytest

from repro.answers.ranking import statistical
from repro.answers.ranking.written import as_csv, from_csv, read_written
from tests.reports.data.summaries import make
from tests.support.records import record_of


def training(iterations, variant="D-Sync", **changes):
    """(identity, targets) of a training that reaches its target after so many iterations."""
    return record_of(make(variant, **changes)).identity, {"0.97": {"iteration": iterations}}


@pytest.fixture
def costs(monkeypatch):
    def of_trainings(*trainings):
        monkeypatch.setattr(statistical, "reference_trainings", lambda: iter(trainings))
        monkeypatch.setattr(statistical, "read_written", lambda kind, name: statistical.measured_pairs())
        statistical.all_costs.cache_clear()
        return statistical.all_costs()

    yield of_trainings
    statistical.all_costs.cache_clear()


def test_the_written_pairs_are_those_of_the_reference():
    rounded = from_csv(statistical.Pair, as_csv(statistical.Pair, statistical.measured_pairs()))
    assert rounded == read_written(statistical.Pair, "costs"), "repro map --out reports/recommend writes them"


@pytest.mark.parametrize(
    "change", [{"epochs": 9}, {"workers": 8}, {"batch": 50}, {"seed": 1}, {"optimizer": {"lr": 0.2}}]
)
def test_a_training_is_paired_with_the_synchronous_one_that_differs_in_the_strategy_alone(costs, change):
    others = training(100, **change)
    assert not costs(others, training(300, "Pipe-SGD"))
    (cost,) = costs(others, training(200), training(300, "Pipe-SGD")).values()
    assert cost.ratios == (1.5,)
