"""The probes of the experiments `gpu` (`profiler`, `layer_times`, `loop`, `repeats`), and its experiments."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from repro import data
from repro.algorithms.pipeline import profile
from repro.core.errors import InputError
from repro.core.paths import PROJECT
from repro.experiment import config as experiments
from repro.experiment import files
from repro.experiment.expand import expand_runs
from repro.experiment.key import keyed_values
from repro.fabric.virtual import fabric as virtual
from repro.probes import profiler, repeats
from repro.testing.small import NETWORK
from repro.training.clock import Clock, Interval
from repro.training.stops import TrainingPlan
from tests.support import virtual_runs
from tests.support.cli import run as run_cli
from tests.support.cli import summary
from tests.support.records import summaries

FIG4 = "pipesgd/fig4-mnist"
STRATEGIES = PROJECT / "strategies"
HERE = ["strategy=dsync", "testbed=here", "seeds=2", "dataset.standin=always"]


def event(cat: str, name: str, tid: int, ts: float, dur: float, **more) -> dict:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": 1e6 * ts, "dur": 1e6 * dur, **more}


CPU = [  # thread 1 is the main line's
    event("user_annotation", "forward", 1, 0, 4),
    event("cpu_op", "aten::mm", 1, 0, 2),
    event("cpu_op", "aten::addmm", 1, 1, 2),  # within another
    event("user_annotation", "communicate", 1, 4, 2),  # exposed
    event("user_annotation", "communicate (exchange)", 2, 2, 6),
    event("cpu_op", "aten::add_", 2, 2, 6),  # another thread's is no computation
    event("cpu_op", "aten::mul", 1, 7, 0.5),
    {"ph": "M", "name": "process_name", "pid": 1},
]
GPU = [  # the host runs ahead: its times tell nothing; stream 7 is the main line's, 20 a task's, 30 NCCL's
    event("user_annotation", "communicate (exchange)", 2, 0, 0.1),
    event("cpu_op", "aten::mm", 1, 0, 9),
    event("gpu_user_annotation", "forward", 7, 1, 4),
    event("kernel", "gemm", 7, 1, 3),
    event("kernel", "relu", 7, 4, 1),
    event("gpu_user_annotation", "communicate (exchange)", 20, 3, 4),
    event("gpu_memcpy", "Memcpy DtoH", 20, 3, 1),
    event("kernel", "add", 20, 6, 1),
    event("kernel", "ncclDevKernel_AllReduce", 30, 10, 2),
    event("kernel", "gemm", 7, 11, 5),
]


BETWEEN = [  # the phase computes from 2 to 7; phases without operators, and "wait", do not
    event("user_annotation", "forward", 1, 0, 10),
    event("cpu_op", "aten::mm", 1, 2, 1),
    event("cpu_op", "aten::mm", 1, 6, 1),
    event("user_annotation", "backward", 1, 20, 5),
    event("user_annotation", "wait", 1, 30, 5),
    event("cpu_op", "aten::mul", 1, 30, 0),
    event("cpu_op", "aten::mul", 1, 34, 0),
    event("user_annotation", "communicate (x)", 2, 0, 50),
]
# kernels so short that the GPU waits for the processor: a phase still lasts from its first to its last
SHORT_KERNELS = [e | ({"dur": 0.5e6} if e["name"] == "gemm" and e["ts"] == 1e6 else {}) for e in GPU]
OVER_TCP = [e for e in GPU if e["tid"] not in (2, 20, 30)] + [event("user_annotation", "communicate (x)", 2, 3, 4)]


@pytest.mark.parametrize(
    ("events", "communication_s", "hidden_s"),
    [(CPU, 6, 1.5), (BETWEEN, 50, 5), (GPU, 6, 3), (SHORT_KERNELS, 6, 3), (OVER_TCP, 4, 2)],
    ids=["cpu", "between operators", "gpu", "between kernels", "host messages of a gpu"],
)
def test_the_profilers_view_of_a_trace(events, communication_s, hidden_s):
    expected = {"communication_s": communication_s, "hidden_s": hidden_s, "share": hidden_s / communication_s}
    assert profiler.of_trace(events, main_thread=1) == pytest.approx(expected)


def test_without_communication_there_is_no_share():
    none = profiler.of_trace([event("cpu_op", "aten::mm", 1, 0, 9)], 1)
    assert none == {"communication_s": 0, "hidden_s": 0, "share": None}
    assert profiler.compare_views(0, none, none)["difference"] is None and profiler.summary_line([])


def test_the_clocks_view_is_its_overlapped_time():
    def body(fabric):
        clock = Clock(fabric)
        clock.start()

        def task():
            with clock.phase("communicate"):
                fabric.sleep(5)

        line = fabric.spawn(task, "exchange")
        with clock.phase("backward"):
            fabric.sleep(2)
        with clock.phase("wait"):
            line.join()
        return clock.take()["overlapped"], profiler.of_clock(clock.middle(100.0))

    [(overlapped, view)] = virtual.run(1, body, NETWORK)
    assert view["hidden_s"] == overlapped == 2 and view["share"] == 0.4
    exposed = [Interval("main", "communicate", 0, 3), Interval("main", "forward", 3, 4)]
    assert profiler.of_clock(exposed)["share"] is None


# --- the run beside those that are timed


def test_recording_is_a_run_of_its_own_and_changes_nothing_of_the_others():
    plain, recorded = expand_runs(FIG4, HERE), expand_runs(FIG4, [*HERE, "profile_steps=3"])
    *same, extra = recorded
    assert [keyed_values(run.config) for run in same] == [keyed_values(run.config) for run in plain]
    assert (extra.config.program, extra.config.probe.steps, extra.seed) == ("profiler", 3, 0)
    assert extra.config.experiment == "fig4-mnist-profile" and "profiled" in extra.label
    assert extra.folder.parent != same[0].folder.parent


@pytest.mark.parametrize(("overrides", "message"), [
    (["testbed=virtual", "profile_steps=3"], "profile_steps=3: only measured runs can be profiled; set testbed=here"),
    (["testbed=virtual", "program=profiler", "+probe.steps=2"], "time on testbed virtual is modelled; testbed=here"),
])  # fmt: skip
def test_modelled_time_cannot_be_recorded(overrides, message):
    with pytest.raises(InputError, match=message):
        expand_runs(FIG4, ["strategy=dsync", "dataset.standin=always", *overrides])


@pytest.mark.ranks
def test_traces_lie_in_the_runs_folder_and_in_mlflow(tmp_path):
    done = run_cli(tmp_path / "results", "strategy=pipe_sgd", "testbed=here", "profile_steps=2", "epochs=0.2", flags=())
    assert done.returncode == 0, done.stderr
    trained, found = summaries(done.stdout)
    assert trained["program"] == "train" and found["program"] == "profiler"
    assert [row["rank"] for row in found["result"]["rows"]] == [0, 1]
    for row in found["result"]["rows"]:
        assert 0 <= row["clock"]["share"] <= 1 and 0 <= row["profiler"]["share"] <= 1
    folder = tmp_path / "results" / "pipesgd" / "fig4-mnist-profile" / found["run"]
    for rank in (0, 1):
        trace = json.loads((folder / f"trace.rank{rank}.json").read_text())
        names = {event["name"] for event in trace["traceEvents"]}
        assert {"forward", "backward"} <= names and any(name.startswith("communicate (") for name in names)
        assert not {"host_name", "traceName"} & trace.keys()
    mirrored = {path.name for path in Path(tmp_path).rglob("artifacts/trace.rank*.json")}
    assert mirrored == {"trace.rank0.json", "trace.rank1.json"}


@pytest.mark.ranks
@pytest.mark.parametrize("strategy", [["ddp"], ["torch_pipelining"], ["pipedream", "strategy.config=1-1"]], ids=str)
def test_strategies_of_libraries_and_pipelines_are_recorded_too(tmp_path, strategy):
    name, *options = strategy
    program = ["program=profiler", "+probe.steps=2", "+probe.warmup=1", "grid=null", "testbed.launcher=torchrun"]
    found = summary(run_cli(tmp_path, f"strategy={name}", "testbed=here", *options, *program))
    assert found["result"]["iteration_s"] > 0 and len(found["result"]["rows"]) == 2


# --- the layers of a model


LAYERS = ["strategy=dsync", "testbed=here", "workers=1", "program=layer_times", "+probe.minibatches=2"]


@pytest.mark.ranks
def test_a_profile_is_a_record_and_a_file_for_the_partitioner(tmp_path):
    run = summary(run_cli(tmp_path, *LAYERS, "model=alexnet_cifar", "dataset=cifar100", "batch=4"))
    result = run["result"]
    assert run["kind"] == "measured" and result["profile"]["batch"] == 4
    written = profile.load_profile(tmp_path / "pipesgd" / "fig4-mnist" / run["run"] / "profile.json")
    assert [layer["name"] for layer in result["profile"]["layers"]] == [layer.name for layer in written.layers]
    assert result["seconds"] == written.seconds > 0
    assert result["parameter_bytes"] == 4 * run["model"]["parameters"]


# --- the harness against a bare loop


ONE = ["strategy=dsync", "testbed=here", "workers=1", "program=loop", "+probe.iterations=2", "+probe.turns=2"]


@pytest.mark.ranks
def test_the_bare_loop_trains_the_same_weights_in_other_numerics(tmp_path):
    """In fp32: `tests/distributed/test_benchmarks.py`."""
    numerics = ("numerics.precision=bf16", "numerics.channels_last=true")
    found = summary(run_cli(tmp_path, *ONE, *numerics, "optimizer.momentum=0.9"))
    result = found["result"]
    assert result["same_weights"] and result["timed"] == "CPU time" and len(result["rows"]) == 2
    assert result["met"] is (result["of_best"] <= result["goal"])
    assert found["numerics"]["precision"] == "bf16" and found["numerics"]["channels_last"]


@pytest.mark.parametrize(("program", "override", "message"), [
    (LAYERS, "workers=2", "workers=2: program layer_times times the blocks of one worker; must be 1"),
    (LAYERS, "testbed=virtual", "program layer_times: time on testbed virtual is modelled; testbed=here"),
    (ONE, "workers=2", "workers=2: program loop compares one rank with a bare loop; must be 1"),
    (ONE, "optimizer.clip_norm=1", "plain SGD at one rate"),
    (ONE, "accumulate=2", "takes minibatches whole"),
])  # fmt: skip
def test_unusable_configurations_are_refused(program, override, message):
    with pytest.raises(InputError, match=message):
        expand_runs(FIG4, [*program, "dataset.standin=always", override])


# --- the same bits again


def repeated(folder, *overrides):
    """The result of a run of the program, all ranks in this process."""
    fixed = ("testbed=virtual", "workers=2", "batch=40", "dataset.standin=always", "program=repeats")
    config = virtual_runs.configured(FIG4, [*fixed, "+probe.iterations=6", *overrides])
    return virtual_runs.ended(config, folder)["result"]


@pytest.mark.parametrize(
    "strategy", [["pipe_sgd"], ["gtopk", "strategy.density=0.01"], ["ps_sync"], ["pipedream"]], ids=str
)
def test_strategies_come_to_the_same_bits_again_and_from_a_checkpoint(tmp_path, strategy):
    name, *options = strategy
    found = repeated(tmp_path, f"strategy={name}", *options)
    assert found["same"] and [row["what"] for row in found["rows"]] == ["again", "resumed"]


def test_a_strategy_that_forgets_its_state_is_detected(tmp_path, monkeypatch):
    chosen = repeats.strategies.load_strategy("pipe_sgd")
    load = chosen.load_state_dict
    monkeypatch.setattr(chosen, "load_state_dict", lambda self, state: load(self, state | {"ready": []}))
    found = repeated(tmp_path, "strategy=pipe_sgd", "strategy.K=3")
    assert {row["what"]: row["same"] for row in found["rows"]} == {"again": True, "resumed": False}


@pytest.mark.parametrize("sync", ["bsp", "asp"])
def test_the_result_states_whether_the_strategy_is_deterministic(tmp_path, sync):
    assert repeated(tmp_path, "strategy=ps_default", f"strategy.sync={sync}")["deterministic"] is (sync == "bsp")


@pytest.mark.ranks
def test_real_ranks_repeat_the_same_bits(tmp_path):
    program = ["testbed=here", "program=repeats", "+probe.iterations=4", "numerics.deterministic=true"]
    assert summary(run_cli(tmp_path, "strategy=ibatch", *program))["result"]["same"]


# --- the experiments of `repro list gpu`


def planned(experiment, *overrides):
    return [run.config for run in expand_runs(experiment, ["device=cpu", *overrides], lacking=[])]


def test_every_strategy_trains_with_two_ranks(monkeypatch):
    monkeypatch.setattr("repro.strategies.horovod.missing_horovod", lambda: None)
    ours = {path.stem for path in STRATEGIES.glob("*.py") if not path.stem.startswith("_")} - {"base"}
    configs = planned("gpu/02-strategies", "dataset.standin=always")
    # torch's pipelining cannot communicate between ranks that share a GPU
    assert {config.strategy.name for config in configs} == ours - {"torch_pipelining"}
    assert {config.workers for config in configs} == {2}
    assert all(config.timeout_s <= 20 for config in configs)


def test_probes_without_training_need_no_data(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)  # MNIST's stand-in comes with it
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    for experiment in ("gpu/05-profiles", "gpu/09-selection"):
        for config in planned(experiment):
            assert config.dataset.name != "mnist"
    assert data.dataset_for(planned("gpu/09-selection")[0]).standin


def test_each_of_the_five_workloads_is_trained_for_a_hundred_steps():
    steps = {}
    for config in planned("gpu/04-hundred-steps"):
        options = {name: value for name, value in config.dataset.options.items() if name != "standin"}
        dataset = data.load_shapes(config.dataset.name, **options)
        steps[config.model.name] = TrainingPlan.of(config, dataset.iterations(config.batch)).iterations
        assert config.program == "train" and config.experiment == "hundred-steps" and not config.targets
    workloads = [name for name in experiments.experiment_names() if files.own_file(name).get("workload")]
    names = {experiments.compose(name)["model"]["name"] for name in workloads}
    assert steps == dict.fromkeys(names, 100)
