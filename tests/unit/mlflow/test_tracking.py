"""The mirror of one run: its content, and that it can be repeated."""

import getpass
import math
from dataclasses import replace

import pytest

from repro.answers.mlflow import Store, open_store, send_run, sync_all, tracking_uri
from repro.answers.mlflow.format import sampled_points, tags
from repro.answers.mlflow.machine import sampled
from repro.answers.mlflow.source import of_folder
from repro.core.errors import InputError
from repro.records.events import EventLog
from tests.support.waiting import wait_until
from tests.unit.mlflow.made import CHECKSUM, evaluation, mirrored, planned, runs_of, write_events, write_finished


def test_a_finished_run_has_curve_numbers_tags_parameters_and_files(root, folder, capfd):
    write_events(folder, evaluation(0, 0.0, 0.1), evaluation(10, 1.0, 0.8), evaluation(20, 2.0, 0.9))
    store = mirrored(root, folder, running=True)
    config = {"optimizer": {"lr": 0.1}, "dataset": {"name": "mnist"}, "targets": [0.8, 0.99]}
    write_finished(folder, config=config)
    mirrored(root, folder, store=store)
    client, [run] = runs_of(root)
    assert run.info.status == "FINISHED" and run.info.run_name == "Pipe-SGD + T, seed 3"
    history = client.get_metric_history(run.info.run_id, "top1")
    assert [(point.step, point.value) for point in history] == [(0, 0.1), (10, 0.8), (20, 0.9)]
    # Relative time in the UI is the time since the first point: the training clock.
    assert [point.timestamp - run.info.start_time for point in history] == [0, 1000, 2000]
    metrics, tags = run.data.metrics, run.data.tags
    expected = {"final/top1": 0.9, "time_to/0.8_s": 1.5, "speed/samples_per_s": 1000}
    expected |= {"phases/forward_ms": 40, "communication/overlapped_ms": 40}
    assert {name: metrics[name] for name in expected} == pytest.approx(expected)
    assert "time_to/0.99_s" not in metrics
    assert run.data.params["optimizer.lr"] == "0.1" and "epochs" not in run.data.params  # has no value
    assert tags["stand_in"] == "True" and tags["paper"] == "pipesgd" and tags["figure"].startswith("Figure 4")
    assert "pipesgd/fig4-mnist" in tags["mlflow.source.name"] and run.info.run_name in tags["mlflow.note.content"]
    [given] = run.inputs.dataset_inputs
    assert given.dataset.name == tags["dataset"] == run.data.params["dataset.name"] == "mnist"
    assert CHECKSUM.startswith(given.dataset.digest)
    assert tags["kind"] == "measured" and tags["hardware"] == "cpu-2core-x"
    assert tags["mlflow.user"] == getpass.getuser() and run.data.params["targets"] == "[0.8, 0.99]"
    files = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert files == {"summary.json", "events.jsonl", "config.yaml"}
    assert (root / "mlflow-artifacts" / "pipesgd" / "fig4-mnist (measured)").is_dir()
    assert capfd.readouterr().out == ""


def test_seeds_are_children_of_the_run_of_their_variant(root, folder):
    for seed in (3, 4):
        write_finished(folder.with_name(f"seed{seed}"), seed=seed, key=f"k{seed}")
    write_finished(folder.with_name("other"), variant="D-Sync", key="k5")
    assert sync_all(root).done == 3
    client, parents = runs_of(root, variants=True)
    children = {run.data.tags["repro.run"]: run.data.tags["mlflow.parentRunId"] for run in runs_of(root)[1]}
    names = {run.info.run_id: run.info.run_name for run in parents}
    for tag in ("group", "stand_in"):  # as the charts group them: also on stand-in data
        assert {run.data.tags[tag] for run in parents} == {run.data.tags[tag] for run in runs_of(root)[1]}
    assert {run: names[parent] for run, parent in children.items()} == {
        "seed3": "Pipe-SGD + T", "seed4": "Pipe-SGD + T", "other": "D-Sync"
    }  # fmt: skip
    assert len(parents) == 2 and all(run.info.status == "FINISHED" and not run.data.metrics for run in parents)
    assert {run.info.end_time - run.info.start_time for run in parents} == {9000}  # as its seeds' runs
    client.delete_run(children["seed3"])
    write_finished(folder.with_name("seed3"), seed=3, key="k3", counters={"skipped": 1})
    assert sync_all(root).done == 1  # with a new parent in the place of the one that a user deleted
    names = {run.info.run_id: run.info.run_name for run in runs_of(root, variants=True)[1]}
    again = next(run for run in runs_of(root)[1] if run.data.tags["repro.run"] == "seed3")
    assert names[again.data.tags["mlflow.parentRunId"]] == "Pipe-SGD + T"


def test_the_run_of_a_variant_says_what_its_seeds_took_to_a_target_and_how_many_reach_it(root, folder):
    took = {3: {"train_s": 1.5, "epoch": 2.0}, 4: {"train_s": 2.0, "epoch": 2.5}, 5: None}
    for seed, reached in took.items():
        write_finished(folder.with_name(f"seed{seed}"), seed=seed, key=f"k{seed}", targets={"0.8": reached})
    sync_all(root)
    [variant] = runs_of(root, variants=True)[1]
    [data] = variant.inputs.dataset_inputs  # once, not once a seed
    tags = variant.data.tags
    assert data.dataset.name == tags["dataset"] and CHECKSUM.startswith(data.dataset.digest)
    assert tags["time_to/0.8_s"] == "1.5 to 2 (2 of 3 seeds)" and tags["epochs_to/0.8"] == "2 to 2.5 (2 of 3 seeds)"


def test_a_run_s_name_says_what_is_not_as_the_experiment_has_it(root, folder):
    write_events(folder, evaluation(10, 1.0, 0.8), epochs=9, changed=["epochs", "eval_every"])
    mirrored(root, folder)
    assert runs_of(root)[1][0].info.run_name == "Pipe-SGD + T, 9 epochs, seed 3"


def test_a_resumed_run_goes_on_in_its_mlflow_run_and_repeats_no_point(root, folder):
    write_events(folder, evaluation(10, 1.0, 0.8))
    mirrored(root, folder, store=mirrored(root, folder, running=True))
    client, [killed] = runs_of(root)
    assert killed.info.status == "KILLED"
    add_by_hand(client, killed)
    with EventLog(folder / "events.jsonl") as log:
        log.append("resume", iteration=10)
        log.append("evaluation", **evaluation(20, 2.0, 0.9))
    store = mirrored(root, folder, running=True)
    assert runs_of(root)[1][0].info.status == "RUNNING"
    mirrored(root, folder, running=True, store=store)
    client, [run] = runs_of(root)
    assert run.info.run_id == killed.info.run_id and has_what_was_added(run)
    history = client.get_metric_history(run.info.run_id, "top1")
    assert [point.step for point in history] == [0, 10, 20]
    assert math.isnan(history[0].value) and history[0].timestamp == run.info.start_time  # holds the axis' beginning


def add_by_hand(client, run):
    client.set_tag(run.info.run_id, "checked by", "Ann")
    client.set_tag(run.info.run_id, "mlflow.note.content", "the fan was off")
    client.update_run(run.info.run_id, name="the good one")


def has_what_was_added(run):
    tags = run.data.tags
    added = (tags["checked by"], tags["mlflow.note.content"], run.info.run_name)
    return added == ("Ann", "the fan was off", "the good one")


def test_iterations_done_again_replace_the_points_and_keep_what_was_added_by_hand(root, folder):
    write_events(folder, evaluation(10, 1.0, 0.8), evaluation(20, 2.0, 0.9))
    store = mirrored(root, folder, running=True)
    add_by_hand(*((found := runs_of(root))[0], found[1][0]))
    with EventLog(folder / "events.jsonl") as log:
        log.append("resume", iteration=10)
        log.append("evaluation", **evaluation(20, 2.5, 0.9))
    mirrored(root, folder, running=True, store=store)
    client, [run] = runs_of(root)
    history = client.get_metric_history(run.info.run_id, "top1")
    assert [point.timestamp - run.info.start_time for point in history] == [0, 1000, 2500]
    assert has_what_was_added(run)


def test_a_failed_run_says_why_until_it_is_carried_out_again(root, folder):
    write_events(folder, end={"event": "failed", "reason": "rank 2 was lost"})
    mirrored(root, folder)
    [failed] = runs_of(root)[1]
    assert failed.info.status == "FAILED" and failed.data.tags["failed"] == "rank 2 was lost"
    write_finished(folder)
    mirrored(root, folder)
    [run] = runs_of(root)[1]
    assert run.info.run_id == failed.info.run_id
    assert run.info.status == "FINISHED" and "failed" not in run.data.tags


def test_what_a_run_warns_of_is_its_tag_and_in_its_note_until_it_does_no_more(root, folder):
    line = "as if a sum of 4 were not divided"
    write_events(folder, end={"event": "warning", "line": line})
    assert sync_all(root).done == 1
    for run in (runs_of(root)[1][0], runs_of(root, variants=True)[1][0]):
        assert run.data.tags["warnings"] == line
    assert runs_of(root)[1][0].data.tags["mlflow.note.content"].endswith(line)
    write_finished(folder)
    assert sync_all(root).done == 1
    for run in (runs_of(root)[1][0], runs_of(root, variants=True)[1][0]):
        assert "warnings" not in run.data.tags and line not in run.data.tags.get("mlflow.note.content", "")


def test_a_run_that_stopped_half_way_is_completed_and_made_once(root, folder):
    """Whatever request was the last: no run twice, no point twice, nothing missing."""
    write_events(folder, evaluation(0, 0.0, 0.1), evaluation(10, 1.0, 0.8))
    write_finished(folder)
    client = open_store(tracking_uri(None, root), root)
    writes = ("create_experiment", "set_experiment_tag", "create_run", "log_batch", "log_artifacts", "set_tag")
    writes += ("set_terminated", "delete_tag", "update_run", "delete_run")
    again_after = 3  # writes
    count, complete = 0, False

    def attempt(key, most):
        store = Store(root=root)
        store._client = Dying(client, writes, iter(range(most)))
        source = replace(of_folder(folder), key=key)
        send_run(store, source, running=True)
        send_run(store, source)

    while not complete:
        key = f"after {count} writes"
        try:
            attempt(key, count)
            complete = True
        except ConnectionError:
            if count == again_after:  # a request whose answer came too late for its sender was made again
                experiment = client.get_experiment_by_name("pipesgd/fig4-mnist (measured)")
                client.create_run(experiment.experiment_id, tags=tags(planned(key)))
            attempt(key, 100)
        count += 1
    client, runs = runs_of(root)
    assert len(runs) == len({run.data.tags["repro.key"] for run in runs}) == count > again_after
    for run in runs:
        assert run.info.status == "FINISHED" and run.data.params["workers"] == "4"
        assert run.data.tags["repro.mirrored"]
        history = client.get_metric_history(run.info.run_id, "top1")
        assert [(point.step, point.value) for point in history] == [(0, 0.1), (10, 0.8)]
        assert len(client.get_metric_history(run.info.run_id, "final/top1")) == 1
        assert len(client.list_artifacts(run.info.run_id)) == 3


class Dying:
    """A client whose connection is lost at the first write after so many."""

    def __init__(self, client, writes, calls):
        self.client, self.writes, self.calls = client, writes, calls

    def __getattr__(self, name):
        if name in self.writes and next(self.calls, None) is None:
            raise ConnectionError("lost")
        return getattr(self.client, name)


def test_a_run_made_again_shows_its_new_numbers_and_keeps_what_was_added_by_hand(root, folder):
    write_events(folder)
    ids = []
    for top1 in (0.9, 0.9, 0.7):
        write_finished(folder, final={"top1": top1, "train_s": 2.0})
        mirrored(root, folder)
        client, [run] = runs_of(root)
        assert run.data.metrics["final/top1"] == top1
        if ids:
            assert has_what_was_added(run)
        else:
            add_by_hand(client, run)
        ids.append(run.info.run_id)
    assert ids[0] == ids[1] != ids[2]


def test_of_two_mlflow_runs_of_one_run_one_stays_with_what_was_added_to_either(root, folder):
    write_events(folder, evaluation(10, 1.0, 0.8))
    mirrored(root, folder)
    client, [run] = runs_of(root)
    again = client.create_run(run.info.experiment_id, tags=tags(planned()))
    client.set_tag(run.info.run_id, "one", "1")
    client.set_tag(again.info.run_id, "two", "2")
    with pytest.raises(InputError, match="gtopk"):
        sync_all(root, paper="gtopk")
    assert sync_all(root, paper="pipesgd").done == 1
    _, [run] = runs_of(root)
    assert (run.data.tags["one"], run.data.tags["two"]) == ("1", "2")


def test_a_configuration_is_enough(root):
    testbed = {"name": "paper/pipesgd", "kind": "simulated", "launcher": "virtual"}
    send_run(Store(root=root), planned(testbed=testbed, strategy={"name": "dsync", "codec": "none"}))
    [run] = runs_of(root, "pipesgd/fig4-mnist (simulated)")[1]
    assert run.data.tags["testbed"] == "paper/pipesgd" and run.data.tags["strategy"] == "dsync"
    assert run.data.params["strategy.codec"] == "none" and not {"paper", "experiment", "changed"} & set(run.data.params)


def test_a_configuration_that_is_none_is_named(folder):
    write_events(folder, workers="many")
    with pytest.raises(InputError, match=r"config\.yaml: .*workers"):
        of_folder(folder)


def test_the_machine_is_sampled_while_a_run_trains_and_shown_with_it(root, folder):
    write_events(folder, evaluation(10, 1.0, 0.8))
    with sampled(folder, every_s=0.05):
        wait_until(lambda: len(sampled_points(folder)) >= 6, "two samples")
    with open(folder / "system.jsonl", "a") as file:
        file.write('{"time": 17')  # as a command that was killed leaves it
    points = sampled_points(folder)
    names = {"system/cpu_utilization_percentage", "system/system_memory_usage_megabytes"}
    assert names <= {point.key for point in points}
    assert all(point.value >= 0 for point in points) and points[0].timestamp <= points[-1].timestamp
    write_finished(folder)
    for _ in range(2):
        mirrored(root, folder, store=mirrored(root, folder, running=True))
    client, [run] = runs_of(root)
    history = client.get_metric_history(run.info.run_id, "system/cpu_utilization_percentage")
    assert len(history) == len([point for point in points if point.key == history[0].key])
    assert "system.jsonl" in {file.path for file in client.list_artifacts(run.info.run_id)}
