"""Invalid input: unknown options, values that lead out of the results folder, of a job script or of a line."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from repro.core import user_files
from repro.core.errors import InputError
from repro.core.paths import PROJECT
from repro.experiment import files
from repro.experiment.expand import expand_runs
from repro.experiment.launched import config_digest
from repro.launch.slurm import client, prepared, site, submit
from tests.support.refusals import error_of

FIG4 = "pipesgd/fig4-mnist"
pytestmark = pytest.mark.usefixtures("elsewhere")


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("+x=1", ["unknown option 'x'; nearest: "]),
        ("inputs.beta=1e-9", ["unknown option 'inputs.beta'", "testbed.inputs.beta"]),
        ("+testbed.rank=4", ["unknown option 'testbed.rank'; nearest: testbed.ranks, "]),
        ("~optimizer=1", ["override '~optimizer=1': must be key=value"]),
        ("hydra.run.dir=x", ["unknown option 'hydra.run.dir'"]),
        ("scale=paper", ["--scale paper"]),
        ("grid=5", ["grid=5: must be factors with their values"]),
        ("+grid.method.a=['epochs=-1']", ["epochs=-1: must be above 0"]),
        ("+grid.method.a=b", ["grid.method.a=b: must be a list of overrides"]),
        ("testbeds=here", ["testbeds=here: must be names"]),
        ("testbeds=[]", ["testbeds=[]: must be entries, as {name: value}"]),
        ("exclude={a: 1}", ["exclude={a: 1}: must be a list"]),
        ("+testbeds.nowhere=[]", ["unknown testbed 'nowhere'"]),
        ("optimizer=5", ["optimizer=5: must be entries"]),
        ("testbed.ranks=9", ["testbed.ranks=9", "4 workers"]),
        ("title=Ünïcode", ["title=Ünïcode", "needs quotes"]),
        ("strategy.name=pipe_sgd", ["strategy.name=pipe_sgd", "use strategy=pipe_sgd"]),
        ("paper=../../x", ["paper=../../x: must be a plain name"]),
        ("paper=Slurm", ["paper=Slurm: must be another name"]),
        ("experiment=../../../x", ["experiment=../../../x", "an experiment is named first"]),
        (f"paper={'x' * 300}", ["must be a plain name"]),
        ("title=${oc.env:HOME}", ["oc.env", "another value of the configuration"]),
        ("+grid.method.a=['title=${now:%Y}']", ["now"]),
        ("testbeds.here=['title=${oc.env:HOME}']", ["oc.env"]),
        ("model=lstm_ptb", ["model lstm_ptb takes text, and mnist is images; models for it: alexnet, "]),
        ("dataset=ptb", ["model mnist_mlp takes images, and ptb is text; models for it: lstm_ptb"]),
        ("title=a\nb", ["override 'title=a\\nb': has a line break"]),
        ("title=" + "[" * 10_000, ["[[ ... [["]),
        ("optimizer.lr=nan", ["optimizer.lr=nan: must be a finite number"]),
        ("testbed.kind=[a]", ["unknown testbed.kind '['a']'; valid: measured"]),
        ("testbed.alpha_s=-1", ["testbed.alpha_s=-1: must be"]),
        ("testbed.device.utilisation=50", ["testbed.device.utilisation=50: must be 1 or less"]),
        ("+testbed.encode_s_per_byte.x=no", ["testbed.encode_s_per_byte.x=no: must be"]),
        ("breakdown=5", ["breakdown=5: must be true or false"]),
        ("seeds=1000000", [" testbeds x 1,000,000 seeds): ", ",000,000; must be 10,000 or less"]),
    ],
)
def test_an_override_that_cannot_be_is_one_line_of_show_too(capsys, override, words):
    on = ["testbed=virtual"] if override.lstrip("+").startswith("testbed.") and "rank" not in override else []
    on += ["testbed=paper/pipesgd"] if override.startswith("inputs.") else []
    line = error_of(capsys, "show", FIG4, *on, override)
    assert all(word in line for word in words), line
    assert "+x=1" not in line.replace("unknown option 'x'", "") and len(line) < 5000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", FIG4, "strategy=pipesgd"], ["unknown strategy 'pipesgd'", "nearest: pipe_sgd"]),
        (["show", FIG4, "strategy.codek=none"], ["unknown option 'strategy.codek'", "valid: strategy.codec"]),
        (["show", FIG4, "testbed=paper/pipe"], ["unknown testbed", "nearest: paper/pipesgd"]),
        (["show", FIG4, "--scale", "papr"], ["unknown scale 'papr'", "valid: paper"]),
        (["show", FIG4, "epochs"], ["must be key=value"]),
        (["show", FIG4, "epochs=1,"], ["override 'epochs=1,': its value cannot be read", "must be a value, several"]),
        (["show", "pipesgd/fig4-mnits"], [f"nearest: {FIG4}, ", "(repro list names all)"]),
        (["report", "pipesdg"], ["unknown paper", "pipesgd"]),
        (["report", "--out", __file__], [f"--out {__file__}: must be a folder"]),
        (["report", "--out", f"{__file__}/pages"], [f"--out {__file__}/pages: must be a folder"]),
        (["report", "--out", ""], ["--out: is empty"]),
        (["report", ""], ["paper: is empty"]),
        (["run", FIG4, ""], ["overrides: is empty"]),
        (["queue", "--out", ""], ["--out: is empty"]),
        (["queue", "--file="], ["--file: is empty"]),
        (["submit", FIG4, "--site", ""], ["--site: is empty"]),
        (["new", "paper", "mine", "--out", ""], ["--out: is empty"]),
        (["bench", "collective", "topk", "--allgather", ""], ["--allgather: is empty"]),
        (["--config-dir", "", "list"], ["--config-dir: is empty"]),
        (["rnu"], ["unknown command 'rnu'", "nearest: run"]),
        (["show", FIG4, "--jsno"], ["unknown option '--jsno'", "valid: --json"]),
        (["data", "fetch"], ["needs a name: cifar10"]),
        (["run", "pipesgd", "--scale", "ful"], ["unknown scale 'ful'", "full"]),
        (["run", "pipesgd", "--scale", "ful", "--draws", "4"], ["unknown scale 'ful'", "full"]),
        (["queue", "nothing"], ["override 'nothing': must be key=value"]),
        (["queue", "--list", "nothing"], ["override 'nothing': must be key=value"]),
        (["map", "--first-case", "3"], ["--first-case", "--check-forms"]),
        (["show", FIG4, "testbed.alpha_s=1"], ["testbed here", "unknown option 'testbed.alpha_s'"]),
        (["results", "pipesgd", "--where", "workers"], ["where workers: must be COLUMN"]),
        (["run", FIG4, "--draws", "x"], ["x: must be a power of two, 2 to "]),
        (["run", FIG4, "--draws", "3"], ["3: must be a power of two, 2 to "]),
    ],
)
def test_bad_words_are_named_with_the_valid_ones(capsys, tmp_path, arguments, words):
    line = error_of(capsys, *arguments)
    assert all(word in line for word in words) and not (tmp_path / "results").exists(), line


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", FIG4, "strategy=dsync", "imbalance=trace", "imbalance.file={}"],
        ["show", "ibatch/measured-vgg", "strategy=ibatch", "strategy.profile={}"],
        ["submit", FIG4, "--site", "{}"],
        ["partition", "{}", "--machines", "2", "--bandwidth", "1e9"],
        ["batches", "{}"],
    ],
    ids=lambda arguments: f"{arguments[0]} {arguments[-1]}",
)
def test_only_files_that_end_and_are_not_too_large_are_read(capsys, monkeypatch, tmp_path, arguments):
    monkeypatch.setenv("REPRO_SITE", "")  # `submit --site` sets it for what it starts
    os.mkfifo(tmp_path / "pipe")
    with open(tmp_path / "large", "wb") as file:
        file.truncate(user_files.LARGEST_FILE + 1)
    for path, words in (("/dev/zero", "not a regular file"), (tmp_path / "pipe", "not a regular file"),
                        (tmp_path / "large", f"must be {user_files.LARGEST_FILE:,} or less")):  # fmt: skip
        line = error_of(capsys, *(argument.format(path) for argument in arguments))
        assert str(path) in line and words in line


@pytest.mark.parametrize(
    "command", ["profile mnist_mlp --out", "price topk --out", "results --parquet"], ids=lambda each: each.split()[0]
)
def test_a_file_is_written_only_in_the_place_of_a_file(capsys, tmp_path, command):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("nothing")
    os.mkfifo(tmp_path / "pipe")
    before = {path: path.lstat().st_mode for path in tmp_path.iterdir()}
    for path, words in (
        *((tmp_path / name, "is a link, pipe or device") for name in ("pipe", "link", "dangling")),
        (tmp_path, "is a folder"),
        (tmp_path / "no" / "file", "there is no folder"),
    ):
        *words_of_it, option = command.split()
        line = error_of(capsys, *words_of_it, option, str(path))
        assert f"{option}: {path}: {words}" in line
    assert before == {path: path.lstat().st_mode for path in tmp_path.iterdir()}


ADDRESSES = {"nope://x": "unknown scheme 'nope'", "sqlite:////nowhere/x.db": "there is no folder /nowhere"}


@pytest.mark.parametrize(
    "command", [f"run {FIG4} strategy=dsync", "track sync", "ui"], ids=lambda each: each.split()[0]
)
@pytest.mark.parametrize(("address", "words"), ADDRESSES.items())
def test_a_wrong_address_of_mlflow_is_told_before_anything_starts(
    capsys, monkeypatch, tmp_path, address, words, command
):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    line = error_of(capsys, *command.split())
    assert line.startswith(f"MLFLOW_TRACKING_URI={address}: {words}") and not [*tmp_path.iterdir()]


@pytest.mark.parametrize("command", [f"run {FIG4} epochs=x", f"run {FIG4} --draws 4 epochs=x", "report nope"])
def test_a_refused_command_makes_no_folder(capsys, tmp_path, command):
    error_of(capsys, *command.split())
    assert not [*tmp_path.iterdir()]


LONG = "x" * 300


@pytest.mark.parametrize(
    "command",
    [
        f"new strategy {LONG}",
        f"recommend ./{LONG}.py:Net --bandwidth 1g --workers 4",
        f"profile mnist_mlp --out {LONG}",
        f"show {FIG4} model=./{LONG}.py:Net",
        f"run {FIG4} strategy=./{LONG}.py:Mine",
        f"show {FIG4} dataset=./{LONG}.npz",
        f"list --config-dir {LONG}",
        f"run-prepared {LONG}=0",
    ],
    ids=lambda each: each.split()[0],
)
def test_a_name_that_no_file_can_have_is_one_line(capsys, monkeypatch, tmp_path, command):
    monkeypatch.chdir(tmp_path)
    line = error_of(capsys, *command.split())
    assert "x ... x" in line and line.endswith(": File name too long") and len(line) < 300
    assert not [path for path in tmp_path.rglob("*") if path.stat().st_size and not path.is_dir()]


@pytest.mark.parametrize(("variable", "command"), [("REPRO_RESULTS", "results"), ("REPRO_DATA", "data list")])
def test_a_folder_of_such_a_name_is_one_line_too(capsys, monkeypatch, variable, command):
    monkeypatch.setenv(variable, LONG)
    assert error_of(capsys, *command.split()).endswith(": File name too long")


PROFILE = str(PROJECT / "paper_configs" / "profile" / "measured-vgg.json")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("profile mnist_mlp --threads 100000000", "--threads: 100,000,000; must be 1,024 or less"),
        ("profile mnist_mlp model.hidden=" + "[" * 10_000, "its value cannot be read"),
        (f"show {FIG4} workers=100000 batch=100000", "workers=100000: must be 1,024 or less"),
        ("schedule 1-1-1-1 --minibatches 100000000", "800,000,000; must be 200,000 or less"),
        ("schedule 100000000-1", "ranks: 100,000,001; must be 1,024 or less"),
        (f"partition {PROFILE} --machines 1000000 --bandwidth 1e8", "machines: 1,000,000; must be 1,024 or less"),
        (f"partition {PROFILE} --machines -4 --bandwidth 1e8", "machines=-4: must be whole numbers, 1 or more"),
        ("bench collective ring --ranks 100000", "workers=100000: must be 1,024 or less"),
        ("price powersgd --steps 0", "--steps: 0: must be a whole number, 1 or more"),
        ("price powersgd --device tpu", "--device: tpu: must be auto, "),
    ],
)
def test_a_size_that_cannot_be_is_answered_at_once(capsys, command, words):
    assert words in error_of(capsys, *command.split())


# --- Slurm


@pytest.mark.parametrize(("squeue", "words"), [
    ("echo 'squeue: error: no controller' >&2; exit 1", "squeue: no controller"),
    ("exec sleep 600", "squeue: no answer within 0.2 s"),
])  # fmt: skip
def test_nothing_is_written_before_slurm_answers(capsys, monkeypatch, tmp_path, squeue, words):
    for name, text in (("sbatch", "exit 1"), ("squeue", squeue)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(client, "ANSWER_S", 0.2)
    line = error_of(capsys, "submit", FIG4, "strategy=dsync")
    assert words in line and "must be a cluster's login node" in line and not (tmp_path / "results").exists()


def test_nothing_leaves_its_line_of_a_job_script(tmp_path, monkeypatch, capsys):
    evil = "x\n#SBATCH --uid=0"
    assert "line break" in error_of(capsys, "submit", FIG4, f"+grid.method.new=['title={evil}']", "--dry-run")
    (tmp_path / "site.yaml").write_text("")
    monkeypatch.setenv("REPRO_SITE", str(tmp_path / "site.yaml"))
    runs, _ = submit.find_runs(FIG4, ["dataset.standin=always", "strategy=dsync"], "quick")
    options = site.load_site()

    def refused():
        with pytest.raises(InputError, match=r"^job script: .*\\n.* has a line break"):
            submit.array_scripts(runs, options, tmp_path, False)

    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", ["repro", "submit", f"title={evil}"])
        refused()
    with monkeypatch.context() as patch:
        patch.setenv("REPRO_RESULTS", str(tmp_path / evil))
        refused()
    with monkeypatch.context() as patch:
        patch.setenv("REPRO_SITE", str(tmp_path / evil))
        refused()
    ((_, _, text),) = submit.array_scripts(runs, options, tmp_path, False)
    assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0
    runs[0].variant = evil
    refused()


def test_a_prepared_run_cannot_lead_out_of_the_results(tmp_path):
    for text, words in (
        ("[" * 100_000, "not a readable configuration"),
        ("a: [", "not a readable configuration"),
        ("5", "must be entries"),
        ("key: other", "has changed since the launch"),
        ("key: k", "is missing"),
    ):
        (tmp_path / "config.yaml").write_text(text)
        with pytest.raises(InputError, match=words) as refusal:
            prepared.load_prepared([f"{tmp_path}={config_digest({'key': 'k'}, {})}"])
        assert "\n" not in str(refusal.value)
    configured = expand_runs(FIG4, ["strategy=dsync", "testbed=virtual"])[0].config.plain() | {"experiment": "../../x"}
    files.write_resolved(tmp_path / "config.yaml", configured)
    with pytest.raises(InputError, match=r"experiment=../../x: must be a plain name"):
        prepared.load_prepared([f"{tmp_path}={config_digest(configured, {})}"])
