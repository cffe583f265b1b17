"""JSON that somebody else wrote: read as what it is, or refused in one line that names the file."""

from __future__ import annotations

import json

import pytest

from repro.algorithms.imbalance import trace
from repro.algorithms.pipeline import profile
from repro.core import strict_json
from repro.core.errors import InputError
from repro.core.paths import PROJECT
from repro.launch.namespaces import network
from repro.launch.slurm import record
from repro.records.events import read_events
from tests.support.records import read_summary

DEEP = "[" * 100_000
NOT_JSON = {
    DEEP: "nested too deeply",
    '{"event": "x", "a": ' + DEEP: "nested too deeply",
    '{"event": "a", "event": "b"}': "'event' stands there twice",
    '{"event": "x", "loss": NaN}': "NaN is no number",
    '{"event": "x", "loss": -Infinity}': "-Infinity is no number",
    '{"event": "x", "loss": 1e999}': "1e999 is beyond all numbers",
    '{"event": "x"}\0': "Extra data",
    '{"event": "x", "n": 1' + "0" * 400 + "}": "beyond all whole numbers",
    '{"event": "\\ud800"}': "surrogates",
    "9" * 5000: "4300",
}
GOOD = {
    "status": "finished", "key": "k", "paper": "pipesgd", "experiment": "fig1", "variant": "D-Sync", "seed": 0,
    "metric": "top1", "workers": 4, "breakdown": False, "dataset": {"name": "mnist"}, "final": {"top1": None},
    "curve": [{"iteration": 1, "train_s": 0.5, "loss": None}], "phases": {"forward": 0.1}, "server_phases": None,
    "step": {"mean_s": 0.1}, "trace": [{"start": 0, "end": 1.5, "name": "forward"}],
    "testbed_model": {"alpha_s": 1e-5, "sources": {"alpha_s": "printed"}}, "result": {"fit": {"alpha_s": 1e-5}},
    "staleness": [{"0": 3}], "newcomer": ["anything"],
}  # fmt: skip


@pytest.mark.parametrize(("text", "words"), NOT_JSON.items(), ids=list(NOT_JSON.values()))
def test_what_is_not_json_is_one_line_wherever_it_is_read(tmp_path, monkeypatch, text, words):
    with pytest.raises(ValueError, match=words):
        strict_json.parse(text)
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    monkeypatch.setenv("REPRO_RUNTIME", str(tmp_path))
    submission = tmp_path / "slurm" / "one" / "submission.json"
    submission.parent.mkdir(parents=True)
    kept = network.runtime_folder() / network.KEPT
    readers = {
        tmp_path / "summary.json": lambda: read_summary(tmp_path),
        tmp_path / "events.jsonl": lambda: read_events(tmp_path / "events.jsonl"),
        tmp_path / "profile.json": lambda: profile.read(tmp_path / "profile.json"),
        submission: lambda: list(record.read()),
        kept: lambda: network.take_down(),
    }
    for path, read in readers.items():
        path.write_text(text + "\n")
        with pytest.raises(InputError) as refusal:
            read()
        line = str(refusal.value)
        assert str(path) in line and "\n" not in line and (words in line or path.name == "profile.json"), line
    if text.startswith("["):
        (tmp_path / "trace.csv").write_text(text)
        with pytest.raises(InputError, match="neither numbers"):
            trace.read(tmp_path / "trace.csv", 4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"variant": 5}, "variant is not a text"),
        ({"status": None}, "status is not a text"),
        ({"paper": ["a"]}, "paper is not a text"),
        ({"workers": "4"}, "workers is not a whole number"),
        ({"workers": 4.5}, "workers is not a whole number"),
        ({"seed": True}, "seed is not a whole number"),
        ({"breakdown": "no"}, "breakdown is not true or false"),
        ({"dataset": "mnist"}, "dataset is not an object"),
        ({"dataset": {"name": 5}}, "dataset.name is not a text"),
        ({"curve": {}}, "curve is not a list of objects"),
        ({"curve": [{"iteration": 1, "loss": "low"}]}, "curve is not made of numbers"),
        ({"final": {"top1": "0.97"}}, "final is not made of numbers"),
        ({"step": {"mean_s": True}}, "step is not made of numbers"),
        ({"phases": {"forward": "fast"}}, "phases is not made of numbers"),
        ({"server_phases": {"forward": "fast"}}, "server_phases is not made of numbers"),
        ({"metrics": {"slope": "steep"}}, "metrics is not made of numbers"),
        ({"trace": [{"start": "now", "end": 1}]}, "in trace is not a number"),
        ({"trace": [3]}, "trace is not a list of objects"),
        ({"testbed_model": {"alpha_s": "fast"}}, "alpha_s is not made of numbers"),
        ({"result": {"fit": {"alpha_s": "fast"}}}, "alpha_s is not made of numbers"),
        ({"result": {"rows": [{"seconds": {"median": "1"}}]}}, "seconds is not made of numbers"),
        ({"staleness": [{"0": "many"}]}, "staleness is not made of numbers"),
        ({"schema": 99}, "schema 99, this version reads 1"),
        ({"bytes_sent": [1]}, "bytes_sent is not a number"),
        ({"model": {"parameters": [1]}}, "model.parameters is not a number"),
        ({"final": {"top1": [0.5]}}, "final.top1 is not a number"),
        ({"step": {"mean_s": [0.1]}}, "step.mean_s is not a number"),
        ({"targets": {"0.9": 5}}, "targets.0.9 is neither null nor"),
        ({"targets": {"0.9": {"train_s": [1]}}}, "targets.0.9.train_s is not a number"),
        ({"phases": {"communicate": None}}, "phases.communicate is not a number"),
        ({"memory": {"of": "gpu"}}, "memory.peak_bytes is not a list of numbers"),
        ({"memory": [1]}, "memory is not an object"),
        ({"testbed_model": [1]}, "testbed_model is not an object"),
        ({"allreduce": "auto"}, "allreduce is not an object"),
    ],
)
def test_a_summary_is_of_its_form(tmp_path, change, words):
    path = tmp_path / "summary.json"
    path.write_text(json.dumps(GOOD))
    assert read_summary(tmp_path)["phases"] == {"forward": 0.1, "imbalance": 0.0}
    path.write_text(json.dumps(GOOD | change))
    with pytest.raises(InputError) as refusal:
        read_summary(tmp_path)
    line = str(refusal.value)
    assert words in line and str(path) in line and "\n" not in line and len(line) < 500


def test_a_summary_that_is_no_object_is_refused(tmp_path):
    for text in ("[]", "5", "null", '"finished"'):
        (tmp_path / "summary.json").write_text(text)
        with pytest.raises(InputError, match="not an object"):
            read_summary(tmp_path)


def test_every_committed_summary_is_of_its_form():
    found = [path.parent for path in sorted((PROJECT / "results").rglob("summary.json"))]
    assert all(map(read_summary, found))
