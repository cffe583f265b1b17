"""Results folders of other people: links in them are not followed to files outside."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace

import pytest

from repro.answers.mlflow import machine, sync_all
from repro.answers.mlflow.format import sampled_points
from repro.answers.pages import writing
from repro.core import atomic, locks, safe_files
from repro.core.atomic import write_atomically
from repro.core.errors import InputError
from repro.experiment import files
from repro.launch import runner
from repro.launch.slurm import status
from repro.rank.checkpoints import Checkpoints
from repro.records import store
from repro.records.events import EventLog, cut_back, read_events
from repro.records.store import run_dir
from tests.support.records import plain_of, write_summary
from tests.unit.mlflow.conftest import root, template  # noqa: F401 - fixtures
from tests.unit.mlflow.made import evaluation, summary_of, write_events

SECRET = b"the user's own"


@pytest.fixture
def results(tmp_path, monkeypatch):
    """The results folder, itself reached through a link, which is the user's."""
    (tmp_path / "scratch").mkdir()
    (tmp_path / "results").symlink_to(tmp_path / "scratch")
    monkeypatch.setattr("repro.core.paths.PROJECT", tmp_path)
    monkeypatch.delenv("REPRO_RESULTS", raising=False)
    return tmp_path / "results"


@pytest.fixture
def folder(results):
    """A run's."""
    made = run_dir("pipesgd", "fig4-mnist", "a-run", results)
    safe_files.make_folder(made)
    return made


@pytest.fixture
def victim(tmp_path):
    path = tmp_path / "victim"
    path.write_bytes(SECRET)
    yield path
    assert path.read_bytes() == SECRET and not path.is_symlink()


@pytest.fixture
def victims(tmp_path):
    path = tmp_path / "victims"
    path.mkdir()
    (path / "iteration000000001.rank0.pt").write_bytes(SECRET)
    yield path
    assert [each.read_bytes() for each in path.iterdir()] == [SECRET]


def refused(link, call, *arguments):
    """One line that names the link."""
    with pytest.raises(InputError) as caught:
        call(*arguments)
    assert str(link) in str(caught.value) and "link" in str(caught.value) and "\n" not in str(caught.value)


def held(folder):
    with runner.run_folder(SimpleNamespace(label="a run", folder=folder), print):
        pass


SUMMARY = summary_of([evaluation(10, 1.0, 0.5)])
WRITERS = {
    "events.jsonl": lambda folder: EventLog(folder / "events.jsonl"),
    "config.yaml.tmp": lambda folder: files.write_resolved(folder / "config.yaml", {}),
    "summary.json.tmp": lambda folder: write_summary(folder, SUMMARY),
    "run.lock": lambda folder: locks.take_lock(folder / "run.lock"),
    "submission.json.tmp": lambda folder: status.write_submission(folder, {}),
    "page.md.tmp": lambda folder: writing.write_text(folder / "page.md", "text"),
    "cut": lambda folder: cut_back(folder / "cut"),
}
READERS = {
    "events.jsonl": lambda folder: read_events(folder / "events.jsonl"),
    "config.yaml": lambda folder: files.read_resolved(folder / "config.yaml"),
    "summary.json": store.read,
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_link_in_the_place_of_a_file_is_not_written_through(folder, victim, name):
    (folder / name).symlink_to(victim)
    refused(folder / name, WRITERS[name], folder)
    refused(folder / name, held, folder)  # before any rank starts


@pytest.mark.parametrize("name", READERS)
def test_nor_read_through(folder, victim, name):
    (folder / name).symlink_to(victim)
    refused(folder / name, READERS[name], folder)


@pytest.mark.parametrize("name", [*WRITERS, "checkpoints", "new/page"])
def test_nor_is_a_folder_on_the_way(results, tmp_path, victims, name):
    (results / "pipesgd").symlink_to(victims)
    write = WRITERS.get(name, lambda folder: safe_files.make_folder(folder / name))
    refused(results / "pipesgd", write, results / "pipesgd" / "fig4-mnist" / "a-run")


def test_checkpoints_elsewhere_are_neither_deleted_nor_written(folder, victims):
    (folder / "checkpoints").symlink_to(victims)
    refused(folder / "checkpoints", Checkpoints, folder, 0)
    refused(folder / "checkpoints", runner.clear_run, SimpleNamespace(folder=folder))
    refused(folder / "checkpoints", held, folder)
    (folder / "checkpoints").unlink()
    (folder / "checkpoints").mkdir()
    link = folder / "checkpoints" / "iteration000000001.rank0.tmp"
    link.symlink_to(victims / "iteration000000001.rank0.pt")
    refused(link, Checkpoints(folder, 0).save, 1, {})


def test_whether_the_results_can_be_written_is_not_tried_on_another_file(results, victim):
    (results / ".writable.tmp").symlink_to(victim)
    refused(results / ".writable.tmp", runner.check_results_folder)
    (results / ".writable.tmp").unlink()
    runner.check_results_folder()
    assert not list(results.iterdir())


def test_the_machine_s_samples_go_to_no_other_file(folder, victim):
    (folder / machine.SAMPLES).symlink_to(victim)
    with machine.sampled(folder, 0.01):
        pass
    refused(folder / machine.SAMPLES, sampled_points, folder)


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_has_no_end_is_not_waited_for(folder, make):
    make(folder / "summary.json")
    with pytest.raises(InputError, match=r"summary\.json"):
        store.read(folder)
    make(folder / "events.jsonl")
    with pytest.raises(InputError, match=r"events\.jsonl"):
        EventLog(folder / "events.jsonl")
    with pytest.raises(InputError, match=r"\.json"):
        held(folder)


def test_files_of_a_killed_process_are_no_hindrance(folder):
    (folder / "config.yaml.tmp").write_text("half")
    files.write_resolved(folder / "config.yaml", {"a": 1})
    assert files.read_resolved(folder / "config.yaml") == {"a": 1}
    assert [path.name for path in folder.iterdir()] == ["config.yaml"]


def test_two_that_write_one_file_at_once_do_not_share_a_temporary_one(folder, monkeypatch):
    def meanwhile(_):
        monkeypatch.undo()
        atomic.replace_file(folder / "page.md", b"another command's")

    monkeypatch.setattr(os, "fsync", meanwhile)
    atomic.replace_file(folder / "page.md", b"the slower one's")
    assert (folder / "page.md").read_bytes() == b"the slower one's"
    assert [path.name for path in folder.iterdir()] == ["page.md"]


@pytest.mark.parametrize("name", ["..", "../..", "/tmp", "a/b", "", ".hidden", "a\nb", "a\0b", 5, "x" * 256])
def test_names_of_a_record_are_plain(folder, name):
    for names in ((name, "e", "r"), ("p", name, "r"), ("p", "e", name)):
        with pytest.raises(InputError, match="plain name") as caught:
            run_dir(*names)
        assert "\n" not in str(caught.value)
    for part in ("paper", "experiment", "run"):
        (folder / "summary.json").write_text(json.dumps(plain_of({**SUMMARY, part: name})))
        with pytest.raises(InputError, match=rf"summary\.json: .*{part}") as caught:
            store.read(folder)
        assert "\n" not in str(caught.value)


def test_what_leads_out_by_dots_is_refused(results, victim):
    with pytest.raises(InputError, match="leads out of"):
        write_atomically(results / ".." / "victim", b"x")
    with pytest.raises(InputError, match="leads out of"):
        safe_files.read_safely(results / "p" / ".." / ".." / "victim")


# --- track sync


@pytest.fixture
def mirrored(root, monkeypatch):  # noqa: F811
    """The folder of a finished run in a results folder that MLflow is to have."""
    monkeypatch.setenv("REPRO_RESULTS", str(root))
    made = root / "pipesgd" / "fig4-mnist" / "pipe-sgd-t-s3"
    write_events(made, evaluation(10, 1.0, 0.5))
    write_summary(made, SUMMARY)
    return made


@pytest.mark.parametrize("name", ["config.yaml", "trace.rank0.json", "system.jsonl"])
def test_nothing_that_a_link_leads_to_is_uploaded(root, mirrored, victim, capsys, name):  # noqa: F811
    (mirrored / name).unlink(missing_ok=True)
    (mirrored / name).symlink_to(victim)
    assert sync_all(root).done == 0
    assert f"{mirrored / name}: is a link" in capsys.readouterr().err
    assert not [
        path for path in (root / "mlflow-artifacts").rglob("*") if path.is_file() and SECRET in path.read_bytes()
    ]


def test_artifacts_stay_in_the_folder_of_the_store(root, mirrored, capsys):  # noqa: F811
    before = {*root.parent.rglob("*")}
    for key in ("paper", "experiment", "kind"):
        (mirrored / "summary.json").write_text(json.dumps(plain_of(SUMMARY | {key: "../../../elsewhere"})))
        assert sync_all(root).done == 0
        assert key in capsys.readouterr().err
    assert not [path for path in {*root.parent.rglob("*")} - before if "elsewhere" in str(path)]
