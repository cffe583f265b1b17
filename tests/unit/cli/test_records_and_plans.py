"""Commands on profiles (`repro profile`, `partition`) and on runs (`repro results`, `publish`, `verify`)."""

from __future__ import annotations

import dataclasses
import json
import shutil

import pandas as pd
import pytest
import torch
from torch import nn

from repro import data
from repro.algorithms.pipeline import profiler
from repro.algorithms.pipeline.layers import Layer, Profile
from repro.algorithms.pipeline.partition import best_partition
from repro.answers.claims import published_verdicts
from repro.answers.pages import built, overview
from repro.cli import publishing, verify, workloads
from repro.cli.main import main
from repro.cli.partition import group_overrides
from repro.core import paths
from repro.core.errors import InputError
from repro.core.paths import PROJECT, reference_root
from repro.experiment import limits
from repro.experiment.config import compose
from repro.records import catalogue, crate, reference
from repro.records.tables import TABLES
from tests.reports.data.summaries import make
from tests.support import pipedream_vgg16
from tests.support.records import write_summary

# --- `repro profile` and `repro partition`: what they print, and one clear line for what they refuse


@pytest.fixture
def vgg16(tmp_path):
    path = tmp_path / "vgg16.graph.txt"
    path.write_text(pipedream_vgg16.text())
    return path


@pytest.fixture(autouse=True)
def threads():
    """`repro profile` sets torch's for the whole process."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_partition_as_json(vgg16, capsys):
    arguments = ["--machines", "8", "--bandwidth", "3.125e9", "--cost-model", "released-sum", "--activations", "off"]
    assert main(["partition", str(vgg16), *arguments, "--json"]) == 0
    best = json.loads(capsys.readouterr().out)
    assert best["pipeline_s"] == pytest.approx(0.09175018302222222, abs=1e-9)
    assert best["data_parallel_s"] == pytest.approx(0.16154709964, abs=1e-9)
    assert (best["optima"], best["config"], best["noam"]) == (3, "6-1-1", 2)
    given = {"machines": [8], "bandwidths_Bps": [3.125e9], "cost_model": "released-sum", "activations": False}
    assert best | given | {"model": "vgg16", "straight": False} == best
    first, *_, last = best["stages"]
    assert first["first"] == 0 and first["first_name"] == "node2 Conv2d" and first["replicas"] == 6
    assert last["last"] == 39 and last["last_name"] == "node41 Linear" and last["seconds"] > 0
    assert best["cuts"] == [stage["first"] for stage in best["stages"][1:]]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("partition {} --machines 41 --bandwidth 1e9 --straight", "41 stages are more than the 40 layers"),
        ("partition {} --machines 4 --bandwidth fast", "--bandwidth fast: must be numbers, in bytes a second"),
        ("partition {} --machines four --bandwidth 1", "--machines four: must be whole numbers"),
        ("partition {} --machines 4 --bandwidth 1 --cost-model pepar", "unknown cost model 'pepar'; valid: paper"),
        ("profile vgg", "unknown model 'vgg'; nearest: vgg"),
        ("profile mnist_mlp --batch 0", "batch=0"),
        ("profile mnist_mlp workers=2", "'workers=2': must be model.OPTION=value or dataset.OPTION=value"),
        ("profile mnist_mlp model.width={{", "its value cannot be read"),
    ],
)
def test_what_profile_and_partition_refuse(vgg16, capsys, command, words):
    assert main(command.format(vgg16).split()) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and words in shown.err and shown.err.count("\n") == 1


def test_profile_then_partition(tmp_path, capsys):
    path = tmp_path / "mlp.json"
    short = ["--minibatches", "2", "--warmup", "1", "--batch", "8", "--device", "cpu", "dataset.standin=always"]
    assert main(["profile", "mnist_mlp", *short, "--out", str(path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == json.loads(path.read_text())
    assert (shown["model"], shown["batch"], shown["minibatches"], shown["source"]) == ("mnist_mlp", 8, 2, "measured")
    assert "1 thread, torch" in shown["hardware"]
    assert main(["partition", str(path), "--machines", "2", "--bandwidth", "1e6"]) == 0
    text = capsys.readouterr().out
    assert "mnist_mlp, measured, minibatch of 8, 2 after a warm-up of 1" in text and "fc1" in text


def test_an_option_has_the_value_that_a_run_gives_it(capsys):
    texts = ("1e-3", "1E+2", "[1,2e-1]", "true", "no", "null", "a b", "'1e-3'")
    overrides = [f"model.o{number}={text}" for number, text in enumerate(texts)]
    in_a_run = compose("pipesgd/fig4-mnist", [f"+{override}" for override in overrides])["model"]
    given = group_overrides(overrides, "model")["model"]
    assert given["o0"] == 0.001 and given == {name: in_a_run[name] for name in given} and len(given) == len(texts)
    for text in ("1,2", "a=b", "${seed}"):
        assert main(["price", "topk", f"strategy.density={text}"]) == 2
        assert f"'strategy.density={text}': its value cannot be read; " in capsys.readouterr().err


def test_a_module_whose_forward_does_not_fit_is_one_line():
    digits = data.load_dataset("mnist", standin="always")
    narrow = nn.Sequential(nn.Flatten(), nn.Linear(7, 10))
    with pytest.raises(InputError) as caught:
        profiler.of_model("mine", narrow, digits, 8, 1, 0, torch.device("cpu"), 0)
    assert "model mine" in str(caught.value) and "8 x 1 x 8 x 8" in str(caught.value) and "\n" not in str(caught.value)


def test_a_search_on_two_levels_that_takes_minutes_is_refused_at_once():
    layers = tuple(Layer(str(index), 1.0, 1.0, 1.0, 1.0) for index in range(2000))
    with pytest.raises(InputError, match=f"must be {limits.STAGES_OF_GROUPS:,} or less"):
        best_partition(Profile("long", 1, "made up", layers, 1, 0, "measured"), (8, 2), (1e9, 1e8))


# --- `repro results`, `repro publish`, `repro verify`: what they print, refuse and leave


rendered = publishing.render_pages  # as it is, where the fixture replaces it


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A workspace and a reference of the test's own; no page is built."""
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "workspace"))
    for module in (paths, catalogue, reference, published_verdicts):
        monkeypatch.setattr(module, "reference_root", lambda: tmp_path / "reference")
    for module in (publishing, verify):
        monkeypatch.setattr(module, "render_pages", lambda paper: None)
    return tmp_path


def put(places, name, variant="D-Sync", dirty=False, **changes):
    folder = places / "workspace" / "pipesgd" / "fig4-mnist" / name
    folder.mkdir(parents=True, exist_ok=True)
    write_summary(folder, make(variant, run=name, provenance={"dirty": dirty}, **changes))


def output_of(capsys, *arguments):
    status = main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_a_clean_run_is_published_in_the_place_of_an_older_one(places, capsys):
    put(places, "a-1", step={"mean_s": 1.0})
    put(places, "b-1", "Pipe-SGD")
    status, out, _ = output_of(capsys, "publish", "pipesgd")
    assert status == 0 and out.startswith("published 2 runs of pipesgd in ") and out.endswith(", kept 0\n")
    put(places, "a-2", step={"mean_s": 2.0})
    status, out, _ = output_of(capsys, "publish", "pipesgd", "--where", "run=fig4-mnist/a-2")
    assert status == 0 and out.startswith("published 1 runs") and out.endswith(", kept 1\n")
    first, second = reference.read("pipesgd")
    assert [first.run, second.run] == ["a-2", "b-1"] and first.result.step.mean_s == 2.0


def test_a_run_does_not_replace_one_of_another_scale(places, capsys):
    put(places, "a-1")
    assert output_of(capsys, "publish", "pipesgd")[0] == 0
    put(places, "a-quick", scale="quick")
    assert output_of(capsys, "publish", "pipesgd", "--where", "scale=quick")[0] == 0
    assert {run.run: run.identity.scale for run in reference.read("pipesgd")} == {"a-1": "full", "a-quick": "quick"}


def test_what_is_not_published(places, capsys):
    put(places, "a-1", dirty=True)
    put(places, "b-1", "Pipe-SGD")
    for arguments, words in (
        (("pipesgd",), "fig4-mnist/a-1 was made by code that was not committed (1 such runs)"),
        (("gtopk",), "unknown paper with results 'gtopk'"),
        (("pipesgd", "--where", "seed=9"), "no run of pipesgd matches --where seed=9"),
        (("pipesgd", "--where", "sead=9"), "unknown column 'sead'"),
    ):
        status, _, err = output_of(capsys, "publish", *arguments)
        assert status == 2 and words in err and err.count("\n") == 1
    assert not (places / "reference").exists()


def test_sweeps_are_published_without_a_run_beside_them(places, capsys, monkeypatch):
    swept = reference.sweeps("pipesgd", PROJECT / "results" / "reference")[:1]
    monkeypatch.setattr(publishing, "own_sweeps", lambda args: swept)
    status, out, _ = output_of(capsys, "publish", "pipesgd")
    assert status == 0 and "published 1 sweeps over draws" in out
    assert [each.record.run for each in reference.sweeps("pipesgd")] == [swept[0].record.run]


def test_an_interrupted_sweep_does_not_take_the_place_of_a_longer_one(places, capsys, monkeypatch):
    every = reference.sweeps("pipesgd", PROJECT / "results" / "reference")[:2]
    drawn = [dataclasses.replace(each, draws=each.draws[:5]) for each in every]
    reference.write("pipesgd", [], swept=drawn)
    cut_off = dataclasses.replace(drawn[0], key="of newer code", draws=drawn[0].draws[:3])
    anew = dataclasses.replace(drawn[1], key="of newer code")
    monkeypatch.setattr(publishing, "own_sweeps", lambda args: [cut_off, anew])
    status, out, err = output_of(capsys, "publish", "pipesgd")
    assert status == 0 and "published 1 sweeps over draws" in out
    assert cut_off.name in err and "has 3 draws" in err and "--replace" in err
    assert [(each.key, each.draws) for each in reference.sweeps("pipesgd")] == [
        (drawn[0].key, drawn[0].draws), (anew.key, anew.draws)]  # fmt: skip
    assert output_of(capsys, "publish", "pipesgd", "--replace")[0] == 0
    assert [each.draws for each in reference.sweeps("pipesgd")] == [cut_off.draws, anew.draws]


def test_of_two_publishes_at_once_the_second_is_refused(places, capsys):
    put(places, "a-1")
    with publishing.lock_reference("publish"):
        status, _, err = output_of(capsys, "publish", "pipesgd")
        assert status == 2 and str(places / "reference") in err and err.count("\n") == 1
    assert not (places / "reference" / "pipesgd").exists()
    assert output_of(capsys, "publish", "pipesgd")[0] == 0


def test_results_of_both_are_one_table(places, capsys, tmp_path):
    put(places, "a-1")
    assert output_of(capsys, "publish", "pipesgd")[0] == 0
    put(places, "b-1", "Pipe-SGD", step={"mean_s": 0.25})
    _, out, _ = output_of(capsys, "results", "pipesgd", "--json")
    rows = json.loads(out)
    assert [(row["run"], row["origin"], row["strategy"]) for row in rows] == [
        ("fig4-mnist/a-1", "workspace", "dsync"), ("fig4-mnist/b-1", "workspace", "pipe_sgd")]  # fmt: skip
    assert rows[1]["step_s"] == 0.25 and isinstance(rows[1]["workers"], int)
    (places / "workspace" / "pipesgd" / "fig4-mnist" / "a-1" / "summary.json").unlink()
    _, out, _ = output_of(capsys, "results")
    assert "pipesgd/fig4-mnist" in out and "Pipe-SGD" in out and "reference" in out and "workspace" in out
    _, out, _ = output_of(capsys, "results", "--csv", "--where", "origin=reference")
    assert out.splitlines()[0].startswith("origin,paper,run,variant,") and len(out.splitlines()) == 2
    output_of(capsys, "results", "--table", "points", "--parquet", str(tmp_path / "points.parquet"))
    points = pd.read_parquet(tmp_path / "points.parquet")
    assert set(points["run"]) == {"fig4-mnist/a-1", "fig4-mnist/b-1"} and points["top1"].notna().all()


def test_a_summary_that_cannot_be_read_is_left_out_with_one_warning(places, capsys):
    put(places, "a-1")
    put(places, "b-1", "Pipe-SGD")
    put(places, "c-1", "PS-Sync")
    broken = places / "workspace" / "pipesgd" / "fig4-mnist" / "c-1" / "summary.json"
    broken.write_bytes(broken.read_bytes()[:100])
    asked = (["results", "pipesgd", "--json"], ["compare", "dsync", "pipe_sgd"], ["show", "pipesgd/fig4-mnist"],
             ["run", "pipesgd/fig4-mnist", "--dry-run"], ["publish", "pipesgd"])  # fmt: skip
    for arguments in asked:
        status, out, err = output_of(capsys, *arguments)
        (line,) = [line for line in err.splitlines() if line.startswith("warning: ")]
        assert status == 0 and out and str(broken) in line, arguments
    assert [run.run for run in reference.read("pipesgd")] == ["a-1", "b-1"]


def test_tables_that_there_are_not(places, capsys):
    put(places, "a-1")
    status, _, err = output_of(capsys, "results", "--table", "run")
    assert status == 2 and "unknown table 'run'; valid: runs" in err
    status, _, err = output_of(capsys, "results", "pipedream")
    assert status == 2 and "unknown paper with results 'pipedream'; valid: pipesgd" in err


def test_verify_finds_an_altered_table_and_another_verdict(places, capsys):
    put(places, "a-1")
    put(places, "b-1", "Pipe-SGD")
    assert output_of(capsys, "publish", "pipesgd")[0] == 0
    path = published_verdicts.write_verdicts("pipesgd")
    status, out, _ = output_of(capsys, "verify")
    verdicts = json.loads(path.read_text())
    assert status == 0
    assert (
        f"pipesgd: 2 runs, tables unchanged; {len(verdicts['claims'] + verdicts['causes'])} verdicts, none changed"
        in out
    )
    claim = {"claim": "dsync-faster-than-ps", "kind": "measured"}
    (changed,) = [entry for entry in verdicts["claims"] if entry | claim == entry]
    changed["verdict"] = "guessed"
    verdicts["causes"][0]["verdict"] = "proved"
    path.write_text(json.dumps(verdicts))
    status, out, err = output_of(capsys, "verify")
    assert status == 1 and "2 verdicts changed" in err
    assert f"(cause {verdicts['causes'][0]['cause']}): conjecture, published: proved" in out
    assert "dsync-faster-than-ps (measured): " in out and ", published: guessed" in out
    path.write_text("{}")
    assert output_of(capsys, "verify")[0] == 2
    (places / "reference" / "pipesgd" / "points.parquet").write_bytes(b"")
    status, _, err = output_of(capsys, "verify")
    assert status == 2 and "points.parquet: not as it was published" in err


def test_verify_tells_of_a_publish_that_was_cut_off_and_completes_it(places, capsys, monkeypatch):
    put(places, "a-1")
    with monkeypatch.context() as patch:  # killed as soon as the manifest is there
        patch.setattr(reference, "finish_publish", lambda folder: None)
        assert output_of(capsys, "publish", "pipesgd")[0] == 0
    assert [run.run for run in reference.read("pipesgd")] == ["a-1"]
    published_verdicts.write_verdicts("pipesgd")
    status, _, err = output_of(capsys, "verify")
    assert status == 1 and "a publish of pipesgd was interrupted" in err
    assert output_of(capsys, "verify", "--write")[0] == 0
    assert output_of(capsys, "verify")[0] == 0
    tables = {path.name for path in (places / "reference" / "pipesgd").glob("*.parquet*")}
    assert tables == {f"{name}.parquet" for name in TABLES}


def test_verify_writes_pages_and_verdicts_without_runs_of_ones_own(places, capsys, monkeypatch):
    def build(paper, root, out, say):
        assert paper is None and root == places / "reference"
        (out / "figures").mkdir()
        (out / "figures" / "a.png").write_bytes(b"")
        (out / "figures" / "a.pdf").write_bytes(b"")
        (out / built.FOLDER).mkdir()
        (out / "index.md").write_text("*Seen.* [PDF](figures/a.pdf) [CSV](figures/a.csv) [Every](b.md)")

    monkeypatch.setattr("repro.answers.pages.build.build", build)
    monkeypatch.setattr(crate, "write_crate", lambda root: None)  # describes the project's own files
    monkeypatch.setattr(paths, "PROJECT", places)
    put(places, "a-1")
    assert output_of(capsys, "publish", "pipesgd")[0] == 0
    shutil.rmtree(places / "workspace")
    monkeypatch.setattr(verify, "render_pages", rendered)
    assert output_of(capsys, "verify")[0] == 2  # no verdicts yet
    assert output_of(capsys, "verify", "--write")[0] == 0 and output_of(capsys, "verify")[0] == 0
    out = places / "reports" / "out"
    assert {path.name for path in out.rglob("*")} == {"index.md", "figures", "a.png"}
    assert (out / "index.md").read_text() == "*Seen.* [Every](b.md)"


def test_the_committed_reference_is_as_published():
    """Every table has its digest, and docs/gpu.md its table of workloads; `tests/reports` compares the verdicts."""
    assert {*overview.papers()} < {paper for paper in reference.papers() if reference.check(reference_root() / paper)}
    assert not workloads.is_outdated(
        PROJECT / workloads.PAGE, workloads.NAME, workloads.workloads_table(reference_root())
    )
