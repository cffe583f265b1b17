"""Files of users and others: strict JSON, and YAML within limits."""

from __future__ import annotations

import functools
import json
import os
from types import SimpleNamespace

import pytest

from repro.algorithms.imbalance import trace
from repro.algorithms.pipeline import profile
from repro.cli.main import main
from repro.core import user_files
from repro.core.errors import InputError
from repro.core.fields import Model
from repro.core.registry import PROBES, Registry
from repro.experiment import grid
from repro.launch.namespaces import network
from repro.launch.slurm import status
from repro.records import store
from repro.records.events import read_events
from tests.reports.data.probes import probe
from tests.reports.data.summaries import make
from tests.support.records import record_of

DEEP = "[" * 100_000
NOT_JSON = {
    DEEP: "nested too deeply",
    '{"event": "x", "a": ' + DEEP: "nested too deeply",
    '{"event": "a", "event": "b"}': "'event' occurs twice",
    '{"event": "x", "loss": NaN}': "NaN is no JSON number",
    '{"event": "x", "loss": -Infinity}': "-Infinity is no JSON number",
    '{"event": "x", "loss": 1e999}': "1e999 overflows a double",
    '{"event": "x"}\0': "Extra data",
    '{"event": "x", "n": 1' + "0" * 400 + "}": "overflows a 64-bit integer",
    '{"event": "\\ud800"}': "surrogates",
    "9" * 5000: "4300",
}


@pytest.mark.parametrize(("text", "words"), NOT_JSON.items(), ids=list(NOT_JSON.values()))
def test_what_is_not_json_is_one_line_wherever_it_is_read(tmp_path, monkeypatch, text, words):
    with pytest.raises(ValueError, match=words):
        user_files.parse_json(text)
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    monkeypatch.setenv("REPRO_RUNTIME", str(tmp_path))
    submission = tmp_path / "slurm" / "one" / "submission.json"
    submission.parent.mkdir(parents=True)
    kept = network.runtime_folder() / network.KEPT
    readers = {
        tmp_path / "summary.json": lambda: store.read(tmp_path),
        tmp_path / "events.jsonl": lambda: read_events(tmp_path / "events.jsonl"),
        tmp_path / "profile.json": lambda: profile.load_profile(tmp_path / "profile.json"),
        submission: lambda: list(status.read_submissions()),
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
            trace.read_delays(tmp_path / "trace.csv", 4)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("identity.variant", 5, "identity.variant=5: must be a text"),
        ("identity.workers", "4", "identity.workers='4': must be a whole number"),
        ("identity.seed", True, "identity.seed=True: must be a whole number"),
        ("identity.breakdown", "no", "identity.breakdown=no: must be true or false"),
        ("identity.testbed.alpha_s", "fast", "alpha_s is not made of numbers"),
        ("identity.newcomer", 1, "identity.newcomer"),
        ("result.dataset.name", 5, "result.dataset.name=5: must be a text"),
        ("result.curve", {}, "result.curve={}: must be a list"),
        ("result.curve", [{"iteration": 1, "loss": "low"}], "result.curve.0.loss"),
        ("result.final.top1", "0.97", "result.final.top1='0.97'"),
        ("result.step.mean_s", True, "result.step.mean_s=True"),
        ("result.phases.forward", "fast", "result.phases.forward=fast"),
        ("result.phases", {"forward": 0.1}, "result.phases={'forward': 0.1}: must have backward"),
        ("result.trace", [{"start": "now", "end": 1}], "must be intervals with start and end"),
        ("result.staleness", [{"0": "many"}], "result.staleness.0.0=many"),
        ("result.bytes_sent", [1], "result.bytes_sent=[1]"),
        ("result.targets", {"0.9": {"train_s": [1]}}, "result.targets.0.9.train_s=[1]"),
        ("result.memory", {"of": "gpu"}, "result.memory.peak_bytes: is missing"),
        ("result.allreduce", "auto", "result.allreduce=auto"),
        ("kind", "guessed", "kind=guessed: must be measured"),
        ("schema", 99, "schema 99, this version reads 2"),
    ],
)
def test_a_record_is_of_its_form(tmp_path, place, value, words):
    path, good = tmp_path / "summary.json", record_of(make("D-Sync", "simulated"))
    store.write(tmp_path, good)
    assert store.read(tmp_path) == good
    given = json.loads(path.read_text())
    *outer, last = place.split(".") if "targets" not in place else ("result", "targets")
    functools.reduce(dict.__getitem__, outer, given)[last] = value
    path.write_text(json.dumps(given))
    with pytest.raises(InputError) as refusal:
        store.read(tmp_path)
    line = str(refusal.value)
    assert words in line and str(path) in line and "\n" not in line and len(line) < 700


@pytest.mark.parametrize("result", [{"fit": {"alpha_s": "fast"}}, {"rows": [{"seconds": {"median": "1"}}]}])
def test_numbers_of_a_probe_are_numbers(result):
    with pytest.raises(ValueError, match="is not made of numbers"):
        record_of(make("D-Sync") | {"program": "mine", "result": result})


def test_a_summary_that_is_no_object_is_refused(tmp_path):
    for text in ("[]", "5", "null", '"finished"'):
        (tmp_path / "summary.json").write_text(text)
        with pytest.raises(InputError, match="not an object"):
            store.read(tmp_path)


@pytest.mark.parametrize("program", PROBES.own_modules())
def test_what_a_probes_result_lacks_is_named(program):
    made = probe(program, "experiment", "variant", {})
    record_of(made).check_probe_result()
    needed = [name for name, field in PROBES.load(program).Result.model_fields.items() if field.is_required()]
    del made["result"][needed[-1]]
    with pytest.raises(ValueError, match=rf"result\.found\.{needed[-1]}: is missing"):
        record_of(made).check_probe_result()


def test_a_probes_result_is_of_the_form_that_it_declares(monkeypatch):
    class Result(Model):
        slope: float

    monkeypatch.setattr(Registry, "load", lambda self, name: SimpleNamespace(Result=Result))
    record_of(make("D-Sync") | {"program": "mine", "result": {"slope": 2.0}}).check_probe_result()
    with pytest.raises(ValueError, match=r"result\.found\.slope=steep: must be a number"):
        record_of(make("D-Sync") | {"program": "mine", "result": {"slope": "steep"}}).check_probe_result()


BOMB = "\n".join(["l0: &l0 [lol]", *(f"l{n}: &l{n} [{', '.join(10 * [f'*l{n - 1}'])}]" for n in range(1, 10))])
REFUSED = {
    "aliases": (BOMB, "more than 100,000 values"),
    "merged entries": ("a: &a {x: 1, y: 2}\nb: {<<: [" + ", ".join(50_000 * ["*a"]) + "]}", "more than 100,000 values"),
    "an alias in its own value": ("a: &a [*a]", "an alias"),
    "nesting": ("[" * 500, "nested more than 100 deep"),
    "size": (" " * (user_files.MOST_BYTES + 1), "more than"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_an_experiment_s_file_that_would_expand_without_end_is_one_line(tmp_path, capsys, kind):
    text, words = REFUSED[kind]
    (tmp_path / "table.yaml").write_text(text)
    assert main(["show", str(tmp_path / "table.yaml")]) == 2
    error = capsys.readouterr().err
    assert "table.yaml: not a readable YAML file" in error and words in error and error.count("\n") == 1


def test_aliases_are_read(tmp_path):
    (tmp_path / "a.yaml").write_text("a: &a [1, 2]\nb: {c: *a, d: *a}\n")
    assert user_files.read_yaml(tmp_path / "a.yaml") == {"a": [1, 2], "b": {"c": [1, 2], "d": [1, 2]}}


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.yaml")
    with pytest.raises(InputError, match="not a regular file"):
        user_files.read_yaml(tmp_path / "a.yaml")


def test_a_grid_of_too_many_combinations_is_refused_before_they_are_made():
    factors = {f"factor{n}": {str(value): [] for value in range(10)} for n in range(12)}
    with pytest.raises(InputError, match="grid: combinations of values: 1,000,000,000,000; must be"):
        grid.list_variants({"grid": factors, "strategy": {"name": "dsync"}})
