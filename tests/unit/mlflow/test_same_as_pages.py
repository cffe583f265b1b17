"""What a page draws of a run's time to accuracy is what MLflow shows of it."""

import math

import pytest

from repro.answers.mlflow import sync_all
from repro.answers.tables.runs import Runs
from repro.records import catalogue
from repro.records.run_columns import TARGET
from tests.reports.data.summaries import make, put
from tests.unit.mlflow.made import runs_of


@pytest.mark.parametrize("best", [0.985, 0.96])  # which reaches every target, and the lowest alone
def test_a_page_and_mlflow_have_the_same_time_to_accuracy_and_phases(root, best):
    put(root, [make(variant, best=best) for variant in ("D-Sync", "Pipe-SGD + T")])
    assert sync_all(root).done == 2
    page = Runs.of(catalogue.runs("pipesgd", root))
    client, mirrored = runs_of(root)
    for run in mirrored:
        (number,) = page.frame.index[page.frame["variant"] == run.data.tags["variant"]]
        row, own = page.frame.loc[number], page.records[number]
        targets = [name for name in page.frame.columns if name.startswith(TARGET) and name.endswith("_s")]
        assert len(targets) == 3
        for name in targets:
            held = run.data.metrics.get(f"time_to/{name.removeprefix(TARGET)}", math.inf)  # MLflow has no infinity
            assert held == pytest.approx(row[name])
        for part, seconds in own.training.phases.items():
            assert run.data.metrics[f"phases/{part}_ms"] == pytest.approx(1000 * seconds)
        drawn = [(point["train_s"], point["top1"]) for point in own.training.curve]
        held = [
            ((point.timestamp - run.info.start_time) / 1000, point.value)
            for point in client.get_metric_history(run.info.run_id, "top1")
            if not math.isnan(point.value)
        ]
        assert len(held) == len(drawn)
        for (at, score), (train_s, top1) in zip(held, drawn, strict=True):
            assert score == top1 and at == pytest.approx(train_s, abs=1e-3)  # to a millisecond
