"""Wrong values are answered before PyTorch is imported, which takes seconds."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from pandas.testing import assert_frame_equal

from repro.core import own_code
from repro.core.errors import InputError
from repro.records import catalogue, comparison
from repro.records.results import compare, results
from tests.reports.data.summaries import make
from tests.support.cli import EXPERIMENT
from tests.support.records import write_summary

CASES = {
    "strategy.codec=fp8": "strategy.codec",
    "testbed.ranks=0": "1 or more",
    "batch=101": "100, 104",
    "workers=3": "99, 102",
    "seeds=0": "1 or more",
    "seeds=1,1": "occurs twice",
    "seeds=a": "a whole number",
    "optimizer.lr=abc": "a number",
    "optimizer.name=adam": "adamw",
    "metric=acuracy": "top1",
    "metric=meteor": "top1",
    "targets=[2]": "0 to 1",
    "optimizer.momentum=2": "below 1",
    "data.root=/nowhere": "not a folder",
    "dataset.standin=maybe": "always",
    "testbed.launcher=slurm": "mpirun",
    "testbed=slurm": "repro submit",
    "testbed=virtual profile_steps=5": "testbed=here",
    "model=./nets.py:Nett": "Net",
    "model=./broken.py:Net": "broken.py:1: SyntaxError",
    "strategy=./broken.py": "broken.py:1: SyntaxError",
    f"strategy=./{'x' * 300}.py:Mine": "File name too long",
    "strategy=gtopk strategy.density=2": "1 or less",
    "strategy=pipe_sgd strategy.K=0": "1 or more",
    "strategy=dsync strategy.codec=gzip": "quantize8",
    "strategy=dsync strategy.algorithm=star": "ring_pipelined",
    "imbalance=random_one imbalance.delay_s=-1": "0 or more",
    "strategy=pipe_sgd strategy.warmup_epochs=99": "less than epochs=10",
    "strategy=ps_default strategy.push=nope": "after, batches, layerwise",
    "dataset=imagenet dataset.standin=never": "train/<class>/*.JPEG",
    "dataset.images=0": "1 or more",
    "dataset.validation=0": "from 1 to ",
    "dataset.validation=99999999": "from 1 to ",
    "data.videos=/nowhere": "is not made of videos",
    "dataset=./broken.npz": "not an .npz file",
    "model=lstm_ptb": "takes text, and mnist is images",
    "dataset=ptb": "ptb is text",
    "model=os:getcwd": "must be a class or function, written in Python",
    "model=./fails.py:Net": "fails.py:1: ZeroDivisionError",
    "model=./nets.py:Net model.depht=3": "model.depth",
    "model=./nets.py:Net model.depth=deep": "a whole number",
}

NETS = """
import torch

class Net(torch.nn.Module):
    def __init__(self, depth: int = 2):
        super().__init__()
"""
RECOMMEND = [("--gpu", "A101"), ("--bandwidth", "10"), ("--latency", "11s"), ("--memory", "x"), ("--step-ms", "-1")]


COMMANDS = {
    "profile mnist_mpl": "mnist_mlp",
    "profile resnet18 --dataset mnits": "mnist",
    "profile resnet18 --batch 0": "1 or more",
    "profile mnist_mlp model.depth=3": "model.depth",
    "recommend resnet51 --bandwidth 10g --workers 2": "resnet50",
    "recommend resnet50 --bandwidth 10g --workers 2 --imbalance much": "a number",
    "report pipesgd --out /proc/nowhere": "--out /proc/nowhere: no folder",
    "status pipesdg": "pipesgd",
    "publish pipesdg": "pipesgd",
    "publish gtopk": "repro run gtopk",
    "bench collective ring --codec gzip": "quantize8",
    "profile resnet18 --batch 9999999999": "or less",
    "price dsnc": "dsync",
    "price powersgd --model mnist_mpl": "mnist_mlp",
    "price powersgd --dataset ptb": "ptb is text",
    "price powersgd strategy.rank=0": "1 or more",
    "bench collective nope": "ring_pipelined",
    "profile resnet18 --dataset ptb": "ptb is text",
    "profile resnet18 dataset.images=0": "1 or more",
    "bench collective ring --ranks 0": "1 or more",
    "bench collective ring --bytes 3": "4 or more",
    "bench collective gtopk --density 2": "at most 1",
    "bench collective ring --alpha -1": "--alpha: -1: must be a finite number, 0 or more",
    "bench collective ring --beta x": "--beta: x: must be a finite number, 0 or more",
    "recommend ./nets.py:Nett --bandwidth 10g --workers 2": "Net",
    "recommend ./broken.json --bandwidth 10g --workers 2": "broken.json",
    "profile mnist_mlp --device cuda": "device=cpu",
    "profile mnist_mlp --dataset cifar10 dataset.standin=never": "repro data fetch cifar10",
    "track sync --paper pipesdg": "repro results",
    "queue epochs=abc": "epochs=abc: must be a number",
    "queue --device cpu strategy.KK=2": "unknown option 'strategy.KK'",
}


def test_what_needs_no_plugin_s_code_is_answered_without_it(tmp_path):
    code = f"""import sys; from repro.cli.main import main
for override in {list(CASES)}:
    assert main(["run", {EXPERIMENT!r}, *override.split()]) == 2, override
print("torch" in sys.modules, "repro.launch.plan_process" in sys.modules)"""
    (tmp_path / "nets.py").write_text(NETS)
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "fails.py").write_text("Net = 1 / 0\n")
    (tmp_path / "broken.npz").write_text("")
    surroundings = {"REPRO_RESULTS": str(tmp_path), "PATH": ""}  # no helper process either
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=surroundings, cwd=tmp_path)
    assert done.stdout.split() == ["False", "False"], done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith("planning")]  # on a busy machine
    for line, (override, allowed) in zip(lines, CASES.items(), strict=True):
        entry = override.partition("=")[0].partition(".")[0]
        assert any(words in line for words in (entry, ".py", ".npz", "data set", " takes ", "os:getcwd")), line
        assert allowed in line, line


def test_names_and_numbers_of_other_commands_are_answered_before_pytorch(tmp_path):
    (tmp_path / "nets.py").write_text("import torch\n\nclass Net(torch.nn.Module):\n    pass\n")
    (tmp_path / "broken.json").write_text("{")
    code = f"""import sys; from repro.cli import partition; from repro.cli.main import main
partition.gpu_devices = list
for command in {list(COMMANDS)}:
    try:
        status = main(command.split())
    except SystemExit as refused:
        status = refused.code
    assert status == 2 and "torch" not in sys.modules, command"""
    without = os.environ | dict.fromkeys(("REPRO_DATA", "REPRO_RESULTS", "XDG_CACHE_HOME"), str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=without)
    assert done.returncode == 0, done.stderr
    for line, (command, allowed) in zip(done.stderr.splitlines(), COMMANDS.items(), strict=True):
        assert allowed in line, (command, line)


def test_a_wrong_argument_of_recommend_is_answered_before_pytorch_too(tmp_path):
    code = f"""import sys; from repro.cli.main import main
for option, value in {RECOMMEND}:
    assert main(["recommend", "resnet50", "--bandwidth=10g", "--workers=8", option, value]) == 2
print("torch" in sys.modules)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.split() == ["False"], done.stderr
    for line, (option, value) in zip(done.stderr.splitlines(), RECOMMEND, strict=True):
        assert option.strip("-").replace("-", "_") in line.lower().replace("-", "_") and value in line, line


def test_a_name_that_only_executing_a_file_can_tell_is_not_refused_before(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text in ("from nets import *", "def __getattr__(name): return dict", "globals()['Net'] = dict"):
        (tmp_path / "mine.py").write_text(text)
        own_code.admit_plugin("mine.py:Net")
    for text in ("Net, Other = dict, dict", "if True:\n    class Net: pass", "from nets import Nets as Net"):
        (tmp_path / "mine.py").write_text(text)
        own_code.admit_plugin("mine.py:Net")
        with pytest.raises(InputError, match="Nett"):
            own_code.admit_plugin("mine.py:Nett")


def test_a_column_or_side_that_no_run_has_is_refused_before_records_are_read(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    monkeypatch.setattr(catalogue, "runs", lambda paper: pytest.fail(f"{paper} was read"))
    for table, condition, near in (("runs", "wrokers=4", "workers"), ("points", "epocH=1", "epoch")):
        with pytest.raises(InputError, match=near):
            results(where=condition, table=table)
    for table, condition in (("runs", "step_s<fast"), ("runs", "options.density=low"), ("points", "top1>good")):
        with pytest.raises(InputError, match="must be a number"):
            results(where=condition, table=table)
    for paper in (None, "pipesgd"):
        with pytest.raises(InputError, match=r"unknown strategy .*'dsnc'.*dsync"):
            results(paper, where=["strategy=dsnc", "seed=0"])
    with pytest.raises(InputError, match="dsync"):
        compare("dsnc", "pipe_sgd")


def test_a_comparison_reads_the_experiments_that_have_both_sides_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    whole = comparison.compare(results("gtopk"), "wfbp", "topk")
    read, runs = [], catalogue.runs
    monkeypatch.setattr(catalogue, "runs", lambda *of, **only: [read.extend(only["experiments"]), runs(*of, **only)][1])
    both = compare("wfbp", "topk", "gtopk")
    assert len(both)
    assert_frame_equal(both, whole, check_dtype=False)
    assert {*read} < {run.identity.experiment for run in runs("gtopk")}


def test_a_side_that_no_run_has_is_refused_before_tables_are_made_of_own_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    folder = tmp_path / "pipesgd" / "fig4-mnist" / "run"
    folder.mkdir(parents=True)
    write_summary(folder, make("D-Sync", "simulated") | {"variant": "mine"})
    monkeypatch.setattr("repro.records.results.build_table", lambda *_: pytest.fail("the tables were made"))
    with pytest.raises(InputError, match="mine"):
        compare("min", "dsync")
