"""Runs that diverge, run out of memory, or fail in a user's strategy."""

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
from repro.experiment.expand import expand_runs
from repro.launch.supervise import KINDS
from repro.rank import evaluator, meters, programs, session
from repro.rank.divergence import NonFinite, divergence_error, first_loss, first_tensor, named_tensors
from repro.rank.summary import peak_bytes_by_rank
from repro.records import store
from repro.records.events import read_events
from repro.records.record import Found
from repro.records.results import results
from repro.records.run_columns import run_row
from repro.records.variants import WORKSPACE
from repro.testing import real, small
from repro.training.model_shard import ModelShard
from repro.training.worker import Worker
from tests.support import virtual_runs
from tests.support.cli import repro, summary
from tests.support.cli import run as run_cli
from tests.unit.mlflow.test_tracking import runs_of

EXPERIMENT = "pipesgd/fig4-mnist"
QUICK = ("dataset.standin=always", "epochs=0.5", "eval_every=0.25", "checkpoint_every=0.05")
TOO_LONG = ("optimizer.lr=1e30", "optimizer.momentum=0.9")
OURS = [name for name in strategies.strategy_names() if not real.needed_library(name)]


def run(folder: Path, workers: int, *overrides: str) -> dict:
    """The summary of a whole run, all ranks in this process; an iteration has 20 samples a worker."""
    fixed = ("testbed=virtual", f"workers={workers}", f"batch={20 * workers}")
    return virtual_runs.ended(virtual_runs.configured(EXPERIMENT, [*QUICK, *fixed, *overrides]), folder)


OWN = """from repro.strategies.shared.data_parallel import GradientStrategy

class Own(GradientStrategy):
    name = "own_wire"

    def exchange(self, gradient):
        gradient = sum(self.worker.fabric.allgather(gradient))
        return {}
"""
NOT_IDENTICAL = "    identical_replicas = False\n"


@pytest.mark.parametrize(("returned", "error", "words"), [
    ("gradient if self.worker.rank == 0 else 1 / 0", Crashed, r"^rank 1: .*own_wire\.py:8: ZeroDivisionError"),
    ("gradient[:3]", InputError, r"own_wire.py:6: exchange .* must .* shape \(\d+,\) .*; it .* shape \(3,\) and"),
    ("gradient.double()", InputError, r"own_wire.py:6: exchange .* must .*torch.float32; it .*torch.float64$"),
    ("None", InputError, r"own_wire.py:6: exchange .* must .* it returned a value of type NoneType$"),
])  # fmt: skip
def test_an_error_in_a_strategy_is_one_line_with_file_and_line(tmp_path, monkeypatch, returned, error, words):
    (tmp_path / "own_wire.py").write_text(OWN.replace("{}", returned))
    monkeypatch.setattr(strategies, "__path__", [*strategies.__path__, str(tmp_path)])
    try:
        with pytest.raises(error, match=words) as ended:
            run(tmp_path / "run", 2, "strategy=own_wire")
    finally:
        sys.modules.pop("repro.strategies.own_wire")
    # its mark is what the command that started the rank knows it by
    assert error is InputError or KINDS[ended.value.mark] is Crashed


@pytest.mark.parametrize(("body", "other"), [
    ("return gradient * (self.worker.rank + 1)", 1),
    ("return self.worker.fabric.allgather(gradient)[0] * (1 + (self.worker.rank == 2))", 2),
])  # fmt: skip
def test_replicas_that_differ_at_the_end_are_refused(tmp_path, monkeypatch, body, other):
    processors = iter("abc")
    (tmp_path / "own_wire.py").write_text(OWN.partition("        gradient =")[0] + f"        {body}\n")
    monkeypatch.setattr(strategies, "__path__", [*strategies.__path__, str(tmp_path)])
    try:
        with pytest.raises(InputError, match=f"^strategy own_wire: rank {other} ends with other weights than rank 0;"):
            run(tmp_path / "run", 3, "strategy=own_wire")
        assert not (tmp_path / "run" / "summary.json").exists()
        with monkeypatch.context() as patched:  # another processor may round otherwise
            patched.setattr(session, "processor_name", lambda _: next(processors))
            assert run(tmp_path / "mixed", 3, "strategy=own_wire")["weights_sha256"]
        (tmp_path / "own_wire.py").write_text((tmp_path / "own_wire.py").read_text() + NOT_IDENTICAL)
        sys.modules.pop("repro.strategies.own_wire")
        assert run(tmp_path / "other", 3, "strategy=own_wire")["weights_sha256"]
    finally:
        sys.modules.pop("repro.strategies.own_wire")


@pytest.mark.parametrize("name", OURS)
def test_every_strategy_ends_as_diverged(name, tmp_path):
    with pytest.raises(Diverged, match=r"^diverged: .*(fc\d\.\d|loss).* rank \d.* step \d"):
        run(tmp_path, 3, f"strategy={name}", *TOO_LONG)
    assert not (tmp_path / "summary.json").exists()
    for path in (tmp_path / "checkpoints").glob("*.pt"):
        assert first_tensor(named_tensors(torch.load(path))) is None


@pytest.mark.parametrize(("workers", "aggregation", "K"), [(6, "tree", 2), (3, "allgather", 1)])
def test_gtopk_diverges_before_the_next_stop(workers, aggregation, K, tmp_path):
    options = (f"strategy.aggregation={aggregation}", f"strategy.K={K}", "checkpoint_every=1")
    with pytest.raises(Diverged, match=r"NaN or infinity in the gradient of fc1.1.weight on rank \d at step \d"):
        run(tmp_path, workers, "strategy=gtopk", *options, *TOO_LONG)


@pytest.mark.parametrize(("strategy", "rank"), [
    (["strategy=dsync"], 1), (["strategy=ps_sync"], 1), (["strategy=pipedream", "strategy.config=1-1-1"], 2),
    (["strategy=pipedream", "strategy.config=1-2"], 1),
], ids=str)  # fmt: skip
def test_the_step_is_that_of_the_first_loss_that_is_not_finite(strategy, rank, tmp_path, monkeypatch):
    """Minibatch 22 is the second of iteration 8; the weights stay finite."""
    gradients, forward = Worker.gradients, Worker.forward

    def broken(loss, minibatch):
        return loss * math.nan if minibatch >= 22 else loss

    def broken_forward(worker, minibatch, x, y=None, timed=True):
        output = forward(worker, minibatch, x, y, timed)
        if y is not None:
            output.data = broken(output.data, minibatch)
        return output

    def broken_gradients(worker, minibatch, *hooks, **more):
        return broken(gradients(worker, minibatch, *hooks, **more), minibatch)

    monkeypatch.setattr(Worker, "gradients", broken_gradients)
    monkeypatch.setattr(Worker, "forward", broken_forward)
    with pytest.raises(Diverged, match=f"^diverged: the loss of rank {rank} is not finite at step 8$"):
        run(tmp_path, 3, *strategy, "checkpoint_every=1")


def test_a_test_loss_counts_although_the_weights_are_finite(tmp_path, monkeypatch):
    monkeypatch.setattr(evaluator, "evaluate_weights", lambda *_: {"test_loss": math.inf, "top1": 0.5})
    with pytest.raises(Diverged, match="the test loss is not finite after step 0"):
        run(tmp_path, 2, "strategy=dsync")


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_losses_tensors_and_momentum_that_are_not_finite(bad):
    assert first_loss([1.0, bad]) == 1 and first_loss([1.0, 2.0]) is None
    state = {"n": 3, "empty": torch.empty(0), "whole": torch.tensor([7]), "parts": [torch.ones(2, dtype=torch.float64)]}
    assert first_tensor(named_tensors(state)) is None
    state["parts"] += [torch.tensor([[1.0], [bad]]), torch.full((3,), bad)]
    assert first_tensor(named_tensors(state)) == "parts.1"
    part = ModelShard(small.model(), small.SGD.model_copy(update={"momentum": 0.9}), torch.device("cpu"))
    part.update(torch.ones(part.size))
    assert first_tensor(part.tensors()) is None
    part.optimizer.state[part.parameters[2]]["momentum_buffer"][1] = bad
    assert first_tensor(part.tensors()) == "momentum_buffer of b.0.weight"


def test_the_line_names_rank_layer_and_step():
    late, first = NonFinite(1, 7, "b.0.bias"), NonFinite(3, 5, None)
    assert str(divergence_error([first, late], 10)) == (
        "diverged: the loss of rank 3 is not finite at step 5, nor is b.0.bias on rank 1 after step 10"
    )
    assert str(divergence_error([NonFinite(2, None, "a")], 4)) == "diverged: a on rank 2 is not finite after step 4"


@pytest.mark.usefixtures("pooled")
def test_a_command_reports_divergence_and_repeats_the_run_only_with_force(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("REPRO_REPORTS", str(tmp_path / "reports"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    overrides = [*QUICK, *TOO_LONG, "strategy=dsync", "testbed=virtual", "workers=2", "batch=40"]
    command = ["run", EXPERIMENT, "--no-mlflow", "--json", *overrides]
    errors, logs = [], []
    for flags in ([], [], ["--force"]):
        assert cli.main([*command, *flags]) == 1
        out, err = capfd.readouterr()
        assert json.loads(out) == []
        errors.append(err.splitlines()[-1])
        (path,) = (tmp_path / "results").rglob("events.jsonl")
        logs.append(path.read_text())
        last = read_events(path)[-1]
        assert last["event"] == "diverged" and last["reason"] in errors[-1]
        assert ("1 diverged" in err) is (len(errors) == 2) is not ("1 to do" in err)
    assert logs[0] == logs[1] != logs[2], "only the last log has new wall-clock times"
    assert errors[0] == errors[1] == errors[2]
    assert "dsync · virtual · seed 0: diverged: the loss of rank 0 is not finite at step" in errors[0]
    assert "--force does" in errors[0]
    assert not list(tmp_path.rglob("summary.json"))
    (row,) = results("pipesgd", table="unfinished").to_dict("records")
    assert (row["state"], row["reason"]) == ("diverged", last["reason"])
    assert cli.main(["results", EXPERIMENT, "--where", "workers=2"]) == 0
    assert last["reason"] in capfd.readouterr().out
    assert cli.main(["show", EXPERIMENT, *overrides]) == 0
    assert "0 missing, 1 diverged" in capfd.readouterr().out
    sync_all(tmp_path / "results")
    [mirrored] = runs_of(tmp_path / "results", "pipesgd/fig4-mnist (simulated)")[1]
    [variant] = runs_of(tmp_path / "results", "pipesgd/fig4-mnist (simulated)", variants=True)[1]
    assert variant.data.tags["failed"] == last["reason"]
    assert mirrored.info.status == "FAILED" and mirrored.data.tags["failed"] == last["reason"]
    assert not any("final" in name for name in mirrored.data.metrics)


@pytest.mark.ranks
@pytest.mark.parametrize("name", ["ddp", "gtopk"])
def test_real_ranks_end_as_diverged(name, tmp_path):
    launcher = ["testbed.launcher=torchrun"] if name == "ddp" else []
    overrides = [*QUICK, *TOO_LONG, f"strategy={name}", "testbed=here", *launcher, "workers=3", "batch=60"]
    done = repro(tmp_path, "run", EXPERIMENT, "--no-mlflow", "--json", *overrides)
    assert done.returncode == 1 and done.stdout.strip() == "[]"
    assert "seed 0: diverged: " in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("summary.json"))


# --- memory: each rank's peak is recorded, and a rank that runs out of memory ends the run with one line


@pytest.mark.ranks
def test_each_ranks_peak_is_recorded_and_a_column(tmp_path):
    found = summary(run_cli(tmp_path, "strategy=dsync", "testbed=here"))
    assert found["memory"]["of"] == "process" and len(found["memory"]["peak_bytes"]) == found["ranks"]
    assert all(peak > 10**7 for peak in found["memory"]["peak_bytes"]), "PyTorch alone is more than 10 MB"
    (folder,) = store.run_folders(tmp_path)
    row = run_row(Found(WORKSPACE, store.read(folder)))
    assert row["peak_mb"] == 1e-6 * max(found["memory"]["peak_bytes"])
    assert final_metrics(store.read(folder))["memory/peak_mb"] == row["peak_mb"]
    done = repro(tmp_path, "results", "pipesgd")
    assert "peak_mb" in done.stdout and "process" in done.stdout


def test_simulated_ranks_have_no_peak(tmp_path):
    assert run(tmp_path, 2, "strategy=dsync")["memory"] is None


def test_a_peak_is_of_all_attempts_and_on_a_gpu_since_the_last_evaluation(monkeypatch):
    events = [{"peak_bytes": [5, 9]}, {}, {"peak_bytes": [7, 8]}]
    assert peak_bytes_by_rank(events) == [7, 9] and peak_bytes_by_rank([{}]) == []
    gpu, calls = torch.device("cuda", 1), []
    monkeypatch.setattr("torch.cuda.max_memory_allocated", lambda device: 77 if device == gpu else 0)
    monkeypatch.setattr("torch.cuda.reset_peak_memory_stats", calls.append)
    assert (meters.memory_kind(gpu), meters.peak_bytes(gpu)) == ("gpu", 77)
    meters.reset_peak(torch.device("cpu"))
    meters.reset_peak(gpu)
    assert calls == [gpu] and meters.memory_kind(torch.device("cpu")) == "process"


GPU_SAYS = (
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 1 GiB of which 3 MiB is free. "
    "Including non-PyTorch memory, this process has 9 GiB\nin use."
)


@pytest.mark.parametrize(("error", "where"), [
    (torch.OutOfMemoryError(GPU_SAYS), ("GPU", ", at an allocation of 2.50 GiB")),
    (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be reported later"), ("GPU", "")),
    (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), ("GPU", "")),
    (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes. Error"),
     ("host", ", at an allocation of 8 bytes")),
    (MemoryError(), ("host", "")),
    (RuntimeError("something else"), None),
    (RuntimeError("cumsum_cuda does not have a deterministic implementation, but you set x. You can turn it off"),
     "model mnist_mlp: cumsum_cuda does not have a deterministic implementation, but you set x; leave it out"),
])  # fmt: skip
def test_the_line_names_rank_model_and_batch(error, where):
    config = virtual_runs.configured(
        EXPERIMENT, [*QUICK, "testbed=here", "strategy=dsync", "numerics.deterministic=true", "workers=2", "batch=40"]
    )
    with pytest.raises((OutOfMemory, RuntimeError, InputError)) as raised, meters.explaining_errors(1, config):
        raise error
    if isinstance(where, tuple):
        what = "model mnist_mlp, 20 samples a worker (batch=40, accumulate=1)"
        assert raised.type is OutOfMemory
        assert str(raised.value) == f"rank 1: out of memory of the {where[0]}: {what}{where[1]}"
    elif where:
        assert raised.type is InputError and str(raised.value).endswith(where)
    else:
        assert raised.value is error


def test_memory_that_runs_out_in_training_and_in_a_probe(monkeypatch, tmp_path):
    def failing(*_, **__):
        raise MemoryError

    monkeypatch.setattr(Worker, "gradients", failing)
    with pytest.raises(OutOfMemory):
        run(tmp_path, 2, "strategy=dsync")
    (planned,) = expand_runs("pipesgd/fig3-ring", ["testbed=virtual"])[:1]
    monkeypatch.setattr(programs, "PROBES", SimpleNamespace(load=lambda name: SimpleNamespace(run=failing)))
    with pytest.raises(OutOfMemory):
        programs.run_program(SimpleNamespace(rank=0), planned.config, tmp_path)


@pytest.mark.ranks
def test_a_command_reports_that_memory_ran_out(tmp_path):
    """The weights would take terabytes, so the ranks fail when they build the model."""
    huge = ("model=lstm_ptb", "model.hidden=100000000", "dataset=ptb", "metric=perplexity", "targets=[100]")
    done = run_cli(tmp_path, "strategy=dsync", "testbed=here", *huge)
    assert done.returncode == FaultError.status and "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert "out of memory of the host: model lstm_ptb, 20 samples a worker (batch=40" in last
    assert "a smaller batch may help" in last and not list(tmp_path.rglob("summary.json"))
