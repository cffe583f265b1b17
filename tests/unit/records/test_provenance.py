"""Provenance says enough to repeat a run, and nothing about who ran it or where."""

import getpass
import json
import os
import re
import socket
import subprocess
import sys
from datetime import datetime
from importlib import metadata
from pathlib import Path

import pytest

from repro.records import provenance as module
from repro.records.provenance import command, hardware, provenance


def test_provenance_has_its_keys_and_imports_no_mlflow():
    code = (
        "import sys, json; from repro.records.provenance import provenance; p = provenance();"
        "assert 'mlflow' not in sys.modules and 'torch' not in sys.modules; print(json.dumps(p))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert set(found) == {"commit", "dirty", "versions", "started_at", "command"}
    assert set(found["versions"]) == {"python", "torch", "numpy", "mpi4py", "mlflow", "mpi"}
    assert found["versions"]["mlflow"] == metadata.version("mlflow")
    assert found["commit"] is None or re.fullmatch("[0-9a-f]{40}", found["commit"])
    assert datetime.fromisoformat(found["started_at"]).utcoffset().total_seconds() == 0


def test_nothing_tells_host_user_or_folder():
    text = json.dumps([provenance(), hardware("loopback")])
    secrets = [socket.gethostname(), str(Path.home()), os.getcwd()]
    if getpass.getuser() != "root":
        secrets.append(getpass.getuser())
    assert not [secret for secret in secrets if len(secret) > 2 and secret in text]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["/home/ann/x/.venv/bin/repro", "run", "pipesgd/fig4-mnist"], "repro run pipesgd/fig4-mnist"),
        (["repro", "data.root=/home/ann/data/mnist"], "repro data.root=mnist"),
        (["repro", "data.root=/home/ann/data/"], "repro data.root=data"),
        (["repro", "--out=~ann/results", "a=/x/one,/y/two"], "repro --out=results a=one,two"),
        (["repro", "testbed=paper/pipesgd", "lr=0.1"], "repro testbed=paper/pipesgd lr=0.1"),
    ],
)
def test_commands_keep_only_the_last_component_of_absolute_paths(given, expected):
    assert command(given) == expected


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("mpirun (Open MPI) 4.1.4\n\nReport bugs", "Open MPI 4.1.4"),
        ("Open MPI v5.0.11, package: Open MPI ann@host Distribution, ident: 5.0.11", "Open MPI 5.0.11"),
        ("HYDRA build details:\n    Version:            4.2.1", "MPICH 4.2.1"),
        ("MPICH Version:      4.2.1\nMPICH Release date: ...", "MPICH 4.2.1"),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.9 Build 20230307", "Intel MPI 2021.9"),
        ("something else", None),
    ],
)
def test_mpi_versions_hold_no_build_host(monkeypatch, text, version):
    monkeypatch.delitem(sys.modules, "mpi4py.MPI", raising=False)
    monkeypatch.setattr(module, "_output", lambda *_: text)
    assert module._mpi_version() == version


def test_hardware_of_a_machine_without_gpu(monkeypatch):
    monkeypatch.setattr(module, "_gpus", list)
    monkeypatch.setattr(module, "_cpu_name", lambda: "Intel Xeon Processor")
    monkeypatch.setattr(module, "_cores", lambda: 2)
    found = hardware("shared memory")
    assert found["class"] == "cpu-2core-intel-xeon-processor"
    assert found["gpu"] is None and found["network"] == "shared memory" and found["memory_gb"] >= 1
    assert set(found) == {"class", "cpu", "cores", "memory_gb", "gpu", "network"}


def test_hardware_with_gpus_and_the_users_choice_of_them(monkeypatch):
    monkeypatch.setattr(module.metadata, "version", lambda _: "2.13.0+cu128")
    monkeypatch.setattr(module, "_output", lambda *_: "NVIDIA H200\nNVIDIA H200")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert hardware("NVLink")["class"] == "gpu-2x-h200"
    assert hardware("NVLink")["gpu"] == "NVIDIA H200 x 2"
    assert hardware("NVLink", device="cpu")["class"].startswith("cpu-")
    for visible, count in [("1", 1), ("", 0), ("-1", 0), ("GPU-abc,MIG-def", 2)]:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert len(module._gpus()) == count
    monkeypatch.setattr(module, "_output", lambda *_: None)
    assert module._gpus() == []


def test_a_cpu_build_of_torch_has_no_gpu(monkeypatch):
    monkeypatch.setattr(module.metadata, "version", lambda _: "2.13.0+cpu")
    monkeypatch.setattr(module, "_output", lambda *_: "NVIDIA H200")
    assert module._gpus() == []


def test_cpu_names_are_plain(monkeypatch, tmp_path):
    assert not re.search(r"\(R\)|@|CPU", module._cpu_name())
    assert module._cpu_name()
