"""Runs to mirror, and the MLflow runs that come of them."""

from pathlib import Path

from repro.answers.mlflow import Store, open_store, send_run, tracking_uri
from repro.answers.mlflow.source import Source, of_folder
from repro.core.phases import PHASES
from repro.experiment.files import yaml_of
from repro.records.events import EventLog
from repro.records.identity import Identity
from tests.support.records import record_of, write_summary

CHECKSUM = "0123456789abcdef" * 4


def evaluation(iteration, train_s, top1):
    return {"iteration": iteration, "epoch": iteration / 10, "train_s": train_s, "loss": 1.0, "top1": top1}


def summary_of(curve, **more):
    return {
        **{"key": "k1", "paper": "pipesgd", "experiment": "fig4-mnist", "run": "pipe-sgd-t-s3", "seed": 3},
        **{"variant": "Pipe-SGD + T", "strategy": "pipe_sgd", "kind": "measured", "testbed": "here"},
        **{"workers": 4, "batch": 100, "scale": "full", "fabric": "mpi", "ranks": 4, "launcher": "mpirun"},
        "dataset": {"name": "mnist-standin-digits", "standin": True, "checksum": CHECKSUM},
        **{"hardware": {"class": "cpu-2core-x"}, "iterations": 20, "curve": curve},
        "final": {"top1": 0.9, "train_s": 2.0, "test_loss": None},
        "targets": {"0.8": {"train_s": 1.5}, "0.99": None},
        "step": {"mean_s": 0.1, "median_s": 0.1, "min_s": 0.1, "max_s": 0.2},
        "phases": dict.fromkeys(PHASES, 0.0) | {"forward": 0.04, "communicate": 0.06},
        "server_phases": None,
        "communication": {"total_s": 0.05, "exposed_s": 0.01, "overlapped_s": 0.04},
        "bytes_sent": 4000,
        "provenance": {"started_at": "2026-01-31T12:00:00+00:00", "finished_at": "2026-01-31T12:00:09+00:00"},
        "wall": {"total_s": 9.0},
        **more,
    }


def runs_of(root, name="pipesgd/fig4-mnist (measured)", variants=False):
    """MLflow's client, and its runs of an experiment; variants: those of the variants, not of the seeds."""
    client = open_store(tracking_uri(None, root), root)
    experiment = client.get_experiment_by_name(name)
    every = client.search_runs([experiment.experiment_id]) if experiment else []
    return client, [run for run in every if ("repro.variant" in run.data.tags) == variants]


def write_finished(folder, curve=(), config=None, **more):
    """A finished run."""
    folder.mkdir(parents=True, exist_ok=True)
    write_summary(folder, summary_of(list(curve), **{"run": folder.name, **more}), config)
    return folder


CONFIG = record_of(summary_of([]), {"optimizer": {"lr": 0.1}}).identity.plain()


def write_events(folder, *evaluations, end=None, key="k1", **config):
    """A run that is not finished."""
    with EventLog(folder / "events.jsonl") as log:
        log.append("run_start", key=key, iteration=0)
        for each in evaluations:
            log.append("evaluation", **each)
        if end:
            log.append(**end)
    (folder / "config.yaml").write_text(yaml_of(CONFIG | config))


def mirrored(root, folder, running=False, store=None):
    """The store of the run in the folder, after an update; store: of the same command."""
    store = store or Store(root=root)
    send_run(store, of_folder(folder), running)
    return store


def planned(key="k1", folder=Path("pipe-sgd-t-s3"), **config):
    """A run that wrote nothing yet."""
    return Source(Identity.model_validate(CONFIG | config), key, folder.name, folder, [], "digest")
