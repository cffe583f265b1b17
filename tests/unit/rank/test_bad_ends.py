"""A run whose loss or weights are not finite ends as diverged, one without memory enough with a line."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from repro import strategies
from repro.answers.mlflow import sync_all
from repro.answers.mlflow.format import final_metrics
from repro.cli import main as cli
from repro.core.errors import Crashed, Diverged, FaultError, InputError, OutOfMemory
from repro.experiment.expand import expand
from repro.experiment.programs import ranks as ranks_of
from repro.fabric.virtual import fabric as virtual
from repro.launch.supervise import KINDS
from repro.rank import evaluator, memory, programs
from repro.rank import probe as of_probe
from repro.rank.divergence import Broken, diverged, first_loss, first_tensor, tensors
from repro.rank.summary import most
from repro.records import store, tidy
from repro.records.events import read_events
from repro.testing import real, small
from repro.training.model_shard import ModelShard
from repro.training.worker import Worker
from tests.support.cli import repro, summary
from tests.support.cli import run as run_cli
from tests.support.records import read_summary
from tests.unit.mlflow.test_tracking import runs_of

EXPERIMENT = "pipesgd/fig4-mnist"
QUICK = ("dataset.standin=always", "epochs=0.5", "eval_every=0.25", "checkpoint_every=0.05")
TOO_LONG = ("optimizer.lr=1e30", "optimizer.momentum=0.9")
OURS = [name for name in strategies.names() if not real.library(name)]


def run(folder: Path, workers: int, *overrides: str) -> None:
    """A whole run, all ranks in this process; an iteration has 20 minibatch samples a worker."""
    fixed = ("testbed=virtual", f"workers={workers}", f"batch={20 * workers}")
    (planned,) = expand(EXPERIMENT, [*QUICK, *fixed, *overrides])
    config = planned.config.model_copy(update={"key": "k", "hardware": {"class": "none"}, "provenance": {}})
    ranks = ranks_of(config)
    virtual.run(ranks, lambda fabric: programs.run(fabric, config, folder), small.NETWORK, small.COSTS)


OWN = """from repro.strategies.shared.data_parallel import GradientStrategy

class Own(GradientStrategy):
    name = "own_wire"

    def exchange(self, gradient):
        gradient = sum(self.worker.fabric.allgather(gradient))
        return {}
"""


@pytest.mark.parametrize(
    ("returned", "error", "words"),
    [
        ("gradient if self.worker.rank == 0 else 1 / 0", Crashed, r"^rank 1: .*own_wire\.py:8: ZeroDivisionError"),
        ("gradient + gradient[:3]", Crashed, r"^rank \d: .*own_wire\.py:8: RuntimeError: .*size"),
        (
            "gradient[:3]",
            InputError,
            r"^strategy own_wire: exchange must .*, shape \(\d+,\); it returned shape \(3,\)$",
        ),
        ("None", InputError, r"^strategy own_wire: exchange must .* it returned a value of type NoneType$"),
    ],
)
def test_a_strategy_that_is_wrong_is_one_line_with_where(tmp_path, monkeypatch, returned, error, words):
    (tmp_path / "own_wire.py").write_text(OWN.replace("{}", returned))
    monkeypatch.setattr(strategies, "__path__", [*strategies.__path__, str(tmp_path)])
    try:
        with pytest.raises(error, match=words) as ended:
            run(tmp_path / "run", 2, "strategy=own_wire")
    finally:
        sys.modules.pop("repro.strategies.own_wire")
    # its mark is what the command that started the rank knows it by
    assert error is InputError or KINDS[ended.value.mark] is Crashed


def test_infinity_is_not_finite_either():
    assert first_loss([1.0, math.inf]) == first_loss([1.0, math.nan]) == 1 and first_loss([1.0, 2.0]) is None


@pytest.mark.parametrize("name", OURS)
def test_every_strategy_ends_so(name, tmp_path):
    with pytest.raises(Diverged, match=r"^diverged: .*(fc\d\.\d|loss).* rank \d.* step \d"):
        run(tmp_path, 3, f"strategy={name}", *TOO_LONG)
    assert not (tmp_path / "summary.json").exists()
    for path in (tmp_path / "checkpoints").glob("*.pt"):
        assert first_tensor(tensors(torch.load(path))) is None


@pytest.mark.parametrize(("workers", "aggregation", "K"), [(3, "tree", 2), (6, "tree", 1), (3, "allgather", 1)])
def test_gtopk_ends_so_where_all_ranks_have_nan(workers, aggregation, K, tmp_path):
    given = (f"strategy.aggregation={aggregation}", f"strategy.K={K}", "checkpoint_every=1")
    with pytest.raises(Diverged, match=r"NaN or infinity in the gradient of fc1.1.weight on rank \d at step \d"):
        run(tmp_path, workers, "strategy=gtopk", *given, *TOO_LONG)


@pytest.mark.parametrize(("strategy", "rank"), [
    (["strategy=dsync"], 1), (["strategy=ps_sync"], 1), (["strategy=pipedream", "strategy.config=1-1-1"], 2),
    (["strategy=pipedream", "strategy.config=1-2"], 1),
], ids=str)  # fmt: skip
def test_the_step_is_that_of_the_first_loss_that_is_not_finite(strategy, rank, tmp_path, monkeypatch):
    """Minibatch 22 is the second of iteration 8; the weights stay finite."""
    gradients, forward = Worker.gradients, Worker.forward

    def broken(loss, minibatch):
        return loss * math.nan if minibatch >= 22 else loss

    def labelled(worker, minibatch, x, y=None, timed=True):
        output = forward(worker, minibatch, x, y, timed)
        if y is not None:
            output.data = broken(output.data, minibatch)
        return output

    def told(worker, minibatch, *hooks, **more):
        return broken(gradients(worker, minibatch, *hooks, **more), minibatch)

    monkeypatch.setattr(Worker, "gradients", told)
    monkeypatch.setattr(Worker, "forward", labelled)
    with pytest.raises(Diverged, match=f"^diverged: the loss of rank {rank} is not finite at step 8$"):
        run(tmp_path, 3, *strategy, "checkpoint_every=1")


def test_a_test_loss_counts_although_the_weights_are_finite(tmp_path, monkeypatch):
    monkeypatch.setattr(evaluator, "evaluate", lambda *_: {"test_loss": math.inf, "top1": 0.5})
    with pytest.raises(Diverged, match="the test loss is not finite after step 0"):
        run(tmp_path, 2, "strategy=dsync")


def test_momentum_counts_and_has_its_parameters_name():
    part = ModelShard(small.model(), small.SGD.model_copy(update={"momentum": 0.9}), torch.device("cpu"))
    part.update(torch.ones(part.size))
    assert first_tensor(part.tensors()) is None
    part.optimizer.state[part.parameters[2]]["momentum_buffer"][1] = math.inf
    assert first_tensor(part.tensors()) == "momentum_buffer of b.0.weight"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_the_first_tensor_that_is_not_finite_is_found_among_all_kinds(bad):
    state = {"n": 3, "empty": torch.empty(0), "whole": torch.tensor([7]), "parts": [torch.ones(2, dtype=torch.float64)]}
    assert first_tensor(tensors(state)) is None
    state["parts"] += [torch.tensor([[1.0], [bad]]), torch.full((3,), bad)]
    assert first_tensor(tensors(state)) == "parts.1"


def test_the_line_names_rank_layer_and_step():
    late, first = Broken(1, 7, "b.0.bias"), Broken(3, 5, None)
    assert str(diverged([first, late], 10)) == (
        "diverged: the loss of rank 3 is not finite at step 5, nor is b.0.bias on rank 1 after step 10"
    )
    assert str(diverged([Broken(2, None, "a")], 4)) == "diverged: a on rank 2 is not finite after step 4"


@pytest.mark.usefixtures("pooled")
def test_a_command_says_so_keeps_it_and_does_not_run_it_again(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("REPRO_REPORTS", str(tmp_path / "reports"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    overrides = [*QUICK, *TOO_LONG, "strategy=dsync", "testbed=virtual", "workers=2", "batch=40"]
    command = ["run", EXPERIMENT, "--no-mlflow", "--json", *overrides]
    seen, logs = [], []
    for flags in ([], [], ["--force"]):
        assert cli.main([*command, *flags]) == 1
        out, err = capfd.readouterr()
        assert json.loads(out) == []
        seen.append(err.splitlines()[-1])
        (path,) = (tmp_path / "results").rglob("events.jsonl")
        logs.append(path.read_text())
        last = read_events(path)[-1]
        assert last["event"] == "diverged" and last["reason"] in seen[-1]
    assert logs[0] == logs[1] != logs[2]  # which holds wall-clock times: it was run again
    assert seen[0] == seen[1] == seen[2]
    assert "dsync · virtual · seed 0: diverged: the loss of rank 0 is not finite at step" in seen[0]
    assert "does not run it again, --force does" in seen[0]
    assert not list(tmp_path.rglob("summary.json"))
    sync_all(tmp_path / "results")
    [mirrored] = runs_of(tmp_path / "results", "pipesgd/fig4-mnist (simulated)")[1]
    assert mirrored.info.status == "FAILED" and mirrored.data.tags["failed"] == last["reason"]
    assert not any("final" in name for name in mirrored.data.metrics)


@pytest.mark.ranks
@pytest.mark.parametrize("name", ["ddp", "gtopk"])
def test_real_ranks_end_so(name, tmp_path):
    launcher = ["testbed.launcher=torchrun"] if name == "ddp" else []
    overrides = [*QUICK, *TOO_LONG, f"strategy={name}", "testbed=here", *launcher, "workers=3", "batch=60"]
    done = repro(tmp_path, "run", EXPERIMENT, "--no-mlflow", "--json", *overrides)
    assert done.returncode == 1 and done.stdout.strip() == "[]"
    assert "seed 0: diverged: " in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("summary.json"))


# --- memory: each rank's peak is on record, and a rank that has not enough ends the run with one line


@pytest.mark.ranks
def test_each_ranks_peak_is_on_record_and_a_column(tmp_path):
    found = summary(run_cli(tmp_path, "strategy=dsync", "testbed=here"))
    assert found["memory"]["of"] == "process" and len(found["memory"]["peak_bytes"]) == found["ranks"]
    assert all(peak > 10**7 for peak in found["memory"]["peak_bytes"]), "PyTorch alone is more than 10 MB"
    row = tidy.run(found)
    assert row["peak_mb"] == 1e-6 * max(found["memory"]["peak_bytes"])
    (folder,) = store.run_folders(tmp_path)
    assert final_metrics(store.read(folder))["memory/peak_mb"] == row["peak_mb"]
    done = repro(tmp_path, "results", "pipesgd")
    assert "peak_mb" in done.stdout and "process" in done.stdout


def test_simulated_ranks_share_a_process_whose_peak_is_nobodys(tmp_path):
    run(tmp_path, 2, "strategy=dsync")
    assert read_summary(tmp_path)["memory"] is None


def test_a_peak_is_that_of_all_attempts():
    events = [{"peak_bytes": [5, 9]}, {}, {"peak_bytes": [7, 8]}]
    assert most(events) == [7, 9] and most([{}]) == []


def test_on_a_gpu_it_is_what_torch_had_since_the_last_evaluation(monkeypatch):
    gpu, calls = torch.device("cuda", 1), []
    monkeypatch.setattr("torch.cuda.max_memory_allocated", lambda device: 77 if device == gpu else 0)
    monkeypatch.setattr("torch.cuda.reset_peak_memory_stats", calls.append)
    assert (memory.kind(gpu), memory.peak_bytes(gpu)) == ("gpu", 77)
    memory.forget(torch.device("cpu"))
    memory.forget(gpu)
    assert calls == [gpu] and memory.kind(torch.device("cpu")) == "process"


GPU_SAYS = (
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 1 GiB of which 3 MiB is free. "
    "Including non-PyTorch memory, this process has 9 GiB\nin use."
)


@pytest.mark.parametrize(("error", "words"), [
    (torch.OutOfMemoryError(GPU_SAYS), "rank 1: out of memory of the GPU: model mnist_mlp, 20 samples a worker "
     "(batch=40, accumulate=1), at an allocation of 2.50 GiB"),
    (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be reported later"),
     "rank 1: out of memory of the GPU: model mnist_mlp, 20 samples a worker (batch=40, accumulate=1)"),
    (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
     "rank 1: out of memory of the GPU: model mnist_mlp, 20 samples a worker (batch=40, accumulate=1)"),
    (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes. Error"),
     "rank 1: out of memory of the host: model mnist_mlp, 20 samples a worker (batch=40, accumulate=1), at an "
     "allocation of 8 bytes"),
    (MemoryError(), "rank 1: out of memory of the host: model mnist_mlp, 20 samples a worker (batch=40, accumulate=1)"),
])  # fmt: skip
def test_the_line_names_rank_model_and_batch(tmp_path, monkeypatch, error, words):
    gradients = Worker.gradients

    def failing(worker, minibatch, *hooks, **more):
        if worker.rank == 1 and minibatch > 4:
            raise error
        return gradients(worker, minibatch, *hooks, **more)

    monkeypatch.setattr(Worker, "gradients", failing)
    with pytest.raises(OutOfMemory) as raised:
        run(tmp_path, 2, "strategy=dsync")
    assert str(raised.value) == words


def test_other_errors_are_left_alone_and_operations_without_a_deterministic_algorithm_are_input():
    (planned,) = expand(EXPERIMENT, [*QUICK, "testbed=here", "strategy=dsync", "numerics.deterministic=true"])
    with pytest.raises(RuntimeError, match=r"^something else$"), memory.explained(0, planned.config):
        raise RuntimeError("something else")
    said = "cumsum_cuda does not have a deterministic implementation, but you set x. You can turn it off"
    with pytest.raises(InputError, match=r"model mnist_mlp: cumsum_cuda does not have") as raised:
        with memory.explained(0, planned.config):
            raise RuntimeError(said)
    assert "You can" not in str(raised.value)


def test_a_probe_is_told_apart_too(monkeypatch, tmp_path):
    (planned,) = expand("pipesgd/fig3-ring", ["testbed=virtual"])[:1]
    probe = SimpleNamespace(run=lambda *_: (_ for _ in ()).throw(MemoryError()))
    monkeypatch.setattr(of_probe, "PROBES", SimpleNamespace(load=lambda name: probe))
    with pytest.raises(OutOfMemory):
        programs.run(SimpleNamespace(rank=0), planned.config, tmp_path)


@pytest.mark.ranks
def test_a_command_ends_as_with_other_failures(tmp_path):
    """The blocks' weights would be terabytes: the ranks fail as they build them."""
    huge = ("model=lstm_ptb", "model.hidden=100000000", "dataset=ptb", "metric=perplexity", "targets=[100]")
    done = run_cli(tmp_path, "strategy=dsync", "testbed=here", *huge)
    assert done.returncode == FaultError.status and "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert "out of memory of the host: model lstm_ptb, 20 samples a worker (batch=40" in last
    assert "a smaller batch may help" in last and not list(tmp_path.rglob("summary.json"))
