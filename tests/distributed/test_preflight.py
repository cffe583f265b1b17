"""The preflight check: ranks that differ are refused with a one-line error before anything is written; their GPUs."""

from __future__ import annotations

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from PIL import Image

from repro.core.errors import InputError
from repro.core.paths import PROJECT
from repro.core.processes import local_rank
from repro.experiment.expand import expand_runs
from repro.experiment.identify import identify_runs
from repro.fabric.real import gpus, torch_start
from repro.fabric.real.torch_start import Seat, choose_backend
from repro.launch import local
from repro.launch.runner import run_unfinished
from repro.rank import preflight
from repro.rank.preflight import Facts, find_disagreement

ALIKE = Facts("a", {"torch": "2.13.0+cpu", "Python": "3.11.2"}, "c0de", "mnist (12ab)", "cpu", "mpi")


def complaint(*changes: dict) -> str | None:
    """The error of one rank for each change; ranks from the third on are on host b."""
    return find_disagreement(
        [replace(ALIKE, **({"host": "ab"[rank // 2]} | each)) for rank, each in enumerate(changes)]
    )


def test_a_server_may_be_on_the_cpu_beside_workers_on_gpus(monkeypatch):
    worker, server = {"device": "cuda", "gpu": "GPU-0", "gpus": ("GPU-0",)}, {"device": ""}
    assert complaint(worker, worker | {"gpu": "GPU-1"}, server) is None
    assert "compute on different devices" in str(complaint(worker, {"device": "cpu"}, server))
    bed = ["strategy=ps_sync", "workers=2", "testbed=here", "+testbed.gpu_ranks=2", "dataset.standin=always"]
    config = expand_runs("pipesgd/fig4-mnist", bed, "quick")[0].config
    monkeypatch.setattr(preflight, "gpu_of", lambda device, rank: None if device == "cpu" else f"GPU-{rank}")
    monkeypatch.setattr(preflight, "visible_gpus", lambda device: () if device == "cpu" else ("GPU-0", "GPU-1"))
    facts = [preflight.rank_facts(SimpleNamespace(rank=rank, name="mpi"), config) for rank in range(3)]
    assert [(each.device, each.gpu) for each in facts] == [("cuda", "GPU-0"), ("cuda", "GPU-1"), ("", None)]
    assert find_disagreement(facts) is None and preflight.most_on_a_gpu(facts) == 1


def test_the_number_of_ranks_on_the_fullest_gpu():
    places = [("a", "GPU-0"), ("a", "GPU-0"), ("a", "GPU-1"), ("b", "GPU-0"), ("b", None)]
    everybody = [replace(ALIKE, host=host, gpu=gpu) for host, gpu in places]
    assert preflight.most_on_a_gpu(everybody) == 2
    assert preflight.most_on_a_gpu([ALIKE, ALIKE]) == 0


@pytest.mark.parametrize(
    "ids, mps, shared, through",
    [
        (["GPU-0", "GPU-0", "GPU-1"], [True, True, True], 2, "MPS"),
        (["GPU-0", "GPU-0", "GPU-1"], [True, True, False], 2, "time slices"),  # of another host
        (["GPU-0", "GPU-1"], [True, True], None, None),
        ([None, None], [False, False], None, None),
    ],
)
def test_the_record_says_how_many_ranks_share_a_gpu_and_how(ids, mps, shared, through, monkeypatch):
    here = ["strategy=dsync", "testbed=here", "dataset.standin=always"]
    config = expand_runs("pipesgd/fig4-mnist", here, "quick")[0].config
    facts = [replace(ALIKE, gpu=gpu, mps=runs) for gpu, runs in zip(ids, mps)]
    monkeypatch.setattr(preflight, "rank_facts", lambda fabric, config: facts[0])
    checked = preflight.check_ranks(SimpleNamespace(exchange=lambda mine: facts), config)
    recorded = [checked.hardware.get(name) for name in ("gpu_shared_by", "gpu_shared_through")]
    assert recorded == [shared, through] and "gpu_shared_by" not in config.hardware
    assert checked.hardware.get("backend") == (ALIKE.backend if any(ids) else None)


def test_mps_runs_if_its_pipe_has_a_reader(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    assert not gpus.mps_runs()
    os.mkfifo(tmp_path / "control")
    assert not gpus.mps_runs(), "its reader has ended"
    reader = os.open(tmp_path / "control", os.O_RDONLY | os.O_NONBLOCK)
    assert gpus.mps_runs()
    os.close(reader)


def test_each_difference_is_one_line_with_both_values_ranks_and_hosts():
    other = {"torch": "2.12.1+cu126", "Python": "3.11.2"}
    assert complaint({}, {}, {"versions": other}, {"versions": other}) == (
        "the ranks have different versions of torch: 2.13.0+cpu on ranks 0, 1 (host a); 2.12.1+cu126 on ranks 2, 3 "
        "(host b); use one environment for all hosts"
    )
    assert "of CUDA: none on rank 0 (host a); 12.6 on rank 1" in complaint(
        {}, {"versions": {**ALIKE.versions, "CUDA": "12.6"}}
    )
    line = complaint({}, {}, {"data": "mnist-standin-digits (34cd)"})
    assert "different data: mnist (12ab) on ranks 0, 1 (host a); mnist-standin-digits (34cd) on rank 2 (host b)" in line
    line = complaint({"device": "cuda", "gpu": "x"}, {"device": "cuda", "gpu": "y"}, {})
    assert "different devices: cuda on ranks 0, 1 (host a); cpu on rank 2 (host b); set device=cpu" in line
    line = complaint({}, {}, {"problem": "data set 'mnist' not found", "data": ""})
    assert line == "rank 2 (host b): data set 'mnist' not found"


def test_the_error_of_many_ranks_is_short():
    line = find_disagreement([replace(ALIKE, host=f"n{rank}", data=str(rank > 50)) for rank in range(100)])
    assert "ranks 0, 1, 2, 3, 4, 5 and 45 more (hosts n0, n1, n2, n3, n4, n5 and 45 more)" in line and len(line) < 500


def test_different_code_names_the_files():
    ranks = [ALIKE, replace(ALIKE, host="b", code="beef")]
    sources = [
        {"repro.rank.loop": "1", "repro.training.clock": "1"},
        {"repro.rank.loop": "2", "repro.training.clock": "1", "repro.new": "1"},
    ]
    line = preflight.different_code(ranks, sources)
    assert "c0de on rank 0 (host a); beef on rank 1 (host b) (repro.new, repro.rank.loop); update" in line


def test_the_digest_covers_the_code_that_determines_numbers():
    config = expand_runs("pipesgd/fig4-mnist", ["strategy=dsync", "testbed=here", "dataset.standin=always"])[0].config
    digests = preflight.source_digests(config)
    assert {"repro.rank.loop", "repro.strategies.dsync", "repro.fabric.real.mpi"} <= set(digests)
    assert not {"repro", "repro.answers.mlflow", "repro.answers.mlflow.send", "repro.cli.main"} & set(digests)


def test_nccl_needs_a_gpu_for_each_rank():
    def seats(*gpus, per_host=2, seen=None):
        return [Seat("ab"[rank // per_host], gpu, seen or ((gpu,) if gpu else ())) for rank, gpu in enumerate(gpus)]

    assert choose_backend(seats("x", "y", "x", "y")) == "nccl"  # GPUs of the same name on two hosts
    assert choose_backend(seats("x", "y", "x", "x")) == "gloo"  # too few on one host
    assert choose_backend(seats("x", "y", "x", None)) == choose_backend(seats(None, None)) == "gloo"
    assert choose_backend(seats("x", "y"), "gloo") == "gloo"
    with pytest.raises(InputError) as caught:
        choose_backend(seats("x", "y", "x", "y", "x", "y", per_host=3, seen=("x", "y")), "nccl")
    line = str(caught.value)
    assert "host a has 2 for 3 ranks" in line and "testbed.backend=gloo" in line and "\n" not in line
    nccl = {"device": "cuda", "backend": "nccl", "gpu": "x", "gpus": ("x",)}
    assert "host a has 1 for 2 ranks" in complaint(nccl, nccl)
    with pytest.raises(InputError, match=r"unknown testbed\.backend 'nccl2'"):
        torch_start.start("auto", "nccl2")


def test_ranks_exchange_their_seats():
    store, mine = torch.distributed.HashStore(), [Seat("a", None), Seat("b", "GPU-1", ("GPU-1", "GPU-2"))]
    with ThreadPoolExecutor(2) as threads:
        gathered = threads.map(lambda rank: torch_start.gather_seats(store, rank, 2, mine[rank]), (1, 0))
    assert list(gathered) == [mine, mine]


def test_gpus_are_assigned_by_the_local_rank(monkeypatch):
    chosen = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: SimpleNamespace(uuid=f"GPU-{index}"))
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    for variable in ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"):
        monkeypatch.delenv(variable, raising=False)
    assert gpus.gpu_of("auto", 5) == "GPU-1" and gpus.pick_device("auto", 5).index == 1
    monkeypatch.setenv("SLURM_LOCALID", "0")  # of the batch script in which mpirun runs
    assert gpus.pick_device("auto", 5).index == 0
    monkeypatch.setenv("OMPI_COMM_WORLD_LOCAL_RANK", "3")
    assert gpus.gpu_of("cuda", 5) == "GPU-1" and gpus.pick_device("auto", 5).index == 1
    assert chosen == [torch.device("cuda", index) for index in (1, 0, 1)]
    assert gpus.gpu_of("cpu", 0) is None and gpus.visible_gpus("cpu") == ()
    assert local_rank({"LOCAL_RANK": "2", "SLURM_LOCALID": "1"}) == 2 and local_rank({}, 7) == 7


# --- real ranks that differ


def imagenet(folder, *more):
    """A data set of two classes, each with two training images and one for validation, and more files."""
    for path in ("train/n1/1", "train/n1/2", "train/n2/1", "train/n2/2", "val/n1/1", "val/n2/1", *more):
        file = folder / "imagenet" / f"{path}.JPEG"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 20), (90, 10, 30)).save(file)
    return folder


def refusal(tmp_path, monkeypatch, *prefix, fresh: str = "") -> str:
    """The error of a run with two ranks, the second of which is started by `env prefix...`. fresh: its Python, if it is
    not forked."""

    def command(ranks, program, python):
        first, second = ([each, "-m", "mpi4py", *program] for each in (python, fresh or python))
        return [local.find_mpirun(), "-n", "1", *first, ":", "-n", str(ranks - 1), "env", *prefix, *second]

    monkeypatch.setattr(local, "mpirun_command", command)
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("REPRO_DATA", str(imagenet(tmp_path / "here")))
    overrides = ["dataset=imagenet", "dataset.image_size=8", "model=softmax", "workers=2", "batch=2", "epochs=1"]
    own = expand_runs("pipesgd/fig4-mnist", [*overrides, "strategy=dsync", "testbed=here"])
    identify_runs(own)
    with pytest.raises(InputError) as caught:
        run_unfinished(own, track=False)
    assert caught.value.status == 2
    files = {path.name for path in own[0].folder.iterdir()}
    assert files <= {"config.yaml", "run.lock", "ranks.lock", "events.jsonl", "ranks.log"} and not own[0].finished
    assert '"run_start"' not in (own[0].folder / "events.jsonl").read_text()
    line = str(caught.value)
    assert "\n" not in line and len(line) < 500, line
    return line


@pytest.mark.ranks
@pytest.mark.usefixtures("pooled")
def test_a_rank_with_other_data_is_refused(tmp_path, monkeypatch):
    other = imagenet(tmp_path / "there", "train/n1/3")
    line = refusal(tmp_path, monkeypatch, f"REPRO_DATA={other}")
    assert line.startswith("the ranks see different data: imagenet-subset (")
    assert line.count("imagenet-subset (") == 2 and "on rank 1 (host" in line


@pytest.mark.ranks
@pytest.mark.usefixtures("pooled")
def test_a_rank_with_another_checkout_is_refused(tmp_path, monkeypatch):
    copy = tmp_path / "copy"
    shutil.copytree(PROJECT / "repro", copy / "repro", ignore=shutil.ignore_patterns("__pycache__", "out"))
    (copy / "repro" / "_newer.py").write_text("")
    line = refusal(tmp_path, monkeypatch, "-C", str(copy), f"PYTHONPATH={copy}", fresh=sys.executable)
    assert line.startswith("the ranks run different code of this project: ") and " (repro._newer" in line
