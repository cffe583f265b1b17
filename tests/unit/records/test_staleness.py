"""How stale each rank's gradients were: counted by the run log, kept over a resume, in the summary and in MLflow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from repro.common.errors import FaultError
from repro.fabric import virtual
from repro.launch import runs
from repro.rank import programs, recorder
from repro.records.events import read_events
from repro.records.store import read_summary
from repro.testing import small
from repro.tracking import Mirror, Store, open_store, tracking_uri
from repro.tracking.format import final_metrics, staleness
from tests.unit.tracking.test_tracking import RECORD, evaluation, summary_of, write_events

EXPERIMENT = "pipesgd/fig4-mnist"
QUICK = ("testbed=virtual", "dataset.standin=always", "batch=60", "eval_every=0.1", "checkpoint_every=0.1", "epochs=1")


def run(folder: Path, *overrides: str) -> dict:
    """The summary of a whole run, all ranks in this process: 24 iterations of three workers."""
    (planned,) = runs.expand(EXPERIMENT, [*QUICK, "workers=3", *overrides])
    config = planned.config.model_copy(update={"key": "k", "hardware": {}, "provenance": {}})
    folder.mkdir(exist_ok=True)
    ranks = programs.ranks(config)
    virtual.run(ranks, lambda fabric: programs.run(fabric, config, folder), small.NETWORK, small.COSTS)
    return read_summary(folder)


def test_a_pipelines_gradients_are_K_less_one_updates_old(tmp_path):
    found = run(tmp_path, "strategy=pipe_sgd", "strategy.K=3")
    steps = found["iterations"]
    # the last two updates are made when the run drains, outside of a step
    assert found["staleness"] == [{"0": 1, "1": 1, "2": steps - 4}] * 3


def test_a_server_says_it_of_each_push(tmp_path):
    found = run(tmp_path, "strategy=ps_async")
    *workers, server = found["staleness"]
    assert workers == [{}] * 3 and sum(server.values()) == 3 * found["iterations"]


def test_strategies_that_say_nothing_have_none(tmp_path):
    assert run(tmp_path, "strategy=dsync")["staleness"] == []
    assert not any("staleness" in event for event in read_events(tmp_path / "events.jsonl"))


def test_a_rank_that_is_late_shows_in_its_own_histogram(tmp_path):
    """Worker 0 needs a millisecond more in every step: solo takes what it has a round or more later."""
    (tmp_path / "delays").write_text("0.5,0,0\n0,0,0\n")
    delays = ("imbalance=trace", f"imbalance.file={tmp_path / 'delays'}")
    found = run(tmp_path / "run", "strategy=eager_solo", *delays)
    first, *others = found["staleness"]
    late = [sum(count for rounds, count in rank.items() if rounds != "0") for rank in (first, *others)]
    assert late[0] > 0 and late[0] > max(late[1:])
    assert sum(sum(rank.values()) for rank in found["staleness"]) == found["counters"]["accepted"]


@pytest.mark.parametrize("strategy", [("strategy=pipe_sgd", "strategy.K=3"), ("strategy=ps_async",)])
@pytest.mark.parametrize("stop", [5, 11, 20])
def test_a_resumed_run_counts_every_gradient_once(tmp_path, monkeypatch, strategy, stop):
    whole = run(tmp_path / "whole", *strategy)
    step, left = recorder.RunLog.step, [len(whole["staleness"]) * stop]  # of all ranks together

    def dies(self, work):
        left[0] -= 1
        if left[0] < 0:
            raise FaultError("died")
        return step(self, work)

    with monkeypatch.context() as patch:
        patch.setattr(recorder.RunLog, "step", dies)
        with pytest.raises(FaultError, match="died"):
            run(tmp_path / "again", *strategy)
    resumed = run(tmp_path / "again", *strategy)
    assert resumed["wall"]["resumes"] == 1
    assert resumed["staleness"] == whole["staleness"]
    assert resumed["weights_sha256"] == whole["weights_sha256"]
    # cumulative at every stop, so that the last one says all
    events = [event for event in read_events(tmp_path / "again" / "events.jsonl") if event["event"] == "steps"]
    totals = [sum(sum(rank.values()) for rank in event.get("staleness", [])) for event in events]
    assert totals == sorted(totals) and events[-1]["staleness"] == resumed["staleness"]


def test_means_and_shares_of_late_gradients():
    assert staleness({"0": 6, "1": 2, "4": 2}) == {"mean": 1.0, "late": pytest.approx(0.4)}
    assert staleness({"3": 5}) == {"mean": 3.0, "late": 1.0} and staleness({}) == {}
    found = final_metrics(summary_of([], staleness=[{"0": 1, "2": 1}, {}, {"0": 3}]))
    shown = {key: value for key, value in found.items() if key.startswith("staleness/")}
    assert shown == {
        "staleness/rank_0_mean": 1.0,
        "staleness/rank_0_late": 0.5,
        "staleness/rank_2_mean": 0.0,
        "staleness/rank_2_late": 0.0,
    }
    assert not any(key.startswith("staleness") for key in final_metrics(summary_of([])))


def test_the_histograms_are_an_artifact_in_mlflow(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    folder = tmp_path / "pipesgd" / "fig4-mnist" / "eager"
    write_events(folder, evaluation(10, 1.0, 0.8))
    ranks = [{"0": 8, "1": 2}, {"0": 10}]
    mirror = Mirror(Store(root=tmp_path))
    mirror.start(RECORD)
    mirror.finish(folder, summary_of([], staleness=ranks))
    client = open_store(tracking_uri(None, tmp_path), tmp_path)
    (run_,) = client.search_runs([client.get_experiment_by_name("pipesgd/fig4-mnist (measured)").experiment_id])
    assert run_.data.metrics["staleness/rank_0_late"] == pytest.approx(0.2)
    path = client.download_artifacts(run_.info.run_id, "staleness.json", str(tmp_path))
    assert json.loads(Path(path).read_text()) == {"ranks": ranks}
