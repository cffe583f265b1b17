"""Testbeds: the private folder of shaped networks, and closed forms of modelled ones."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from repro import models
from repro.algorithms.pipeline.layers import Layer, Profile
from repro.algorithms.timing import collective_forms
from repro.algorithms.timing.setting import Setting
from repro.answers.ranking import simulate
from repro.answers.ranking.candidates import read_candidates
from repro.core.errors import FaultError, InputError
from repro.experiment import config, files, testbeds
from repro.fabric.virtual import modelled
from repro.launch.namespaces import links, network, private
from repro.training.device_times import block_flops, block_seconds, compute_seconds
from tests.support import forms
from tests.support.virtual import close

# --- the folder of shaped networks has a predictable name: files of other users are not trusted


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_RUNTIME", str(tmp_path))
    return tmp_path / "repro-testbed"


def test_a_planted_link_leads_nowhere(tmp_path, runtime):
    victim = tmp_path / "victim"
    victim.mkdir()
    runtime.symlink_to(victim)
    with pytest.raises(InputError, match=f"{runtime}.*is a link"):
        network.take_down()
    assert not list(victim.iterdir())


def test_a_planted_file_overwrites_no_other(tmp_path, runtime, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_text("kept")
    runtime.mkdir(mode=0o700)
    monkeypatch.setattr(network, "_lock", [])
    for name, use in (("lock", network.lock_networks), (network.KEPT, network.take_down)):
        (runtime / name).symlink_to(victim)
        with pytest.raises(InputError, match=rf"{name}.*is a link"):
            use()
    assert victim.read_text() == "kept"


def test_a_folder_that_others_may_use_or_own_is_refused(runtime, monkeypatch):
    assert network.runtime_folder() == runtime and runtime.stat().st_mode & 0o777 == 0o700
    runtime.chmod(0o777)
    with pytest.raises(InputError, match=r"mode 777.*chmod 700"):
        network.runtime_folder()
    runtime.chmod(0o700)
    (runtime / network.KEPT).write_text("{}")
    another = os.geteuid() + 1
    monkeypatch.setattr(private.os, "geteuid", lambda: another)
    with pytest.raises(InputError, match="belongs to another user"):
        network.runtime_folder()
    with pytest.raises(InputError, match="belongs to another user"):
        private.open_private(runtime / network.KEPT, "r")


def test_without_a_folder_of_the_system_it_lies_in_tmp(monkeypatch):
    asked = []
    for name in ("REPRO_RUNTIME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(network.os, "geteuid", lambda: 4321)
    monkeypatch.setattr(private, "private_folder", lambda path: asked.append(str(path)))
    network.runtime_folder()
    assert asked == ["/tmp/repro-4321"]  # itself checked, not only a folder within it


def test_a_short_folder_is_nobody_else_s(monkeypatch):
    mine = private.short_folder("test")
    assert mine == private.short_folder("test") and len(str(mine)) < 40
    assert mine.stat().st_uid == os.geteuid() and mine.stat().st_mode & 0o777 == 0o700
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)
    mine.rename(taken := Path(f"/tmp/repro-{os.geteuid()}-test"))
    other = private.short_folder("test")
    assert other not in (mine, taken) and not list(other.iterdir())
    taken.rmdir()
    other.rmdir()


@pytest.mark.parametrize("folder", ["with space", "a:b"])
def test_mpirun_can_start_python_wherever_it_lies(tmp_path, monkeypatch, folder):
    python = tmp_path / folder / "python"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    python.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(python))
    variables = network.ShapedNetwork({"id": "i", "keeper": 1, "own_user": False, "switch": {}, "hosts": []}).variables
    for name in ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"):
        (agent,) = variables[name].split(":")
        done = subprocess.run([*agent.split(" "), "host1", "a b"], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == ["-m", "repro.launch.namespaces.enter", "--rsh", "host1", "a b"]


def test_down_signals_no_process_but_the_keeper(runtime, monkeypatch):
    """The keeper's process number may have been reused."""
    monkeypatch.setattr(network, "STOP_LIMIT_S", 0.0)
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        kept = network.runtime_folder() / network.KEPT
        state = {"id": "0" * 32, "keeper": other.pid, "keeper_started": links.start_ticks(other.pid) - 1}
        kept.write_text(json.dumps(state))
        with open(kept) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            with pytest.raises(FaultError, match=f"process {other.pid} is not the network's keeper"):
                network.take_down()
        assert other.poll() is None
    finally:
        other.communicate(b"\n")
    assert other.returncode == 0


# --- the testbeds of the iBatch paper: derivations from closed forms, and sources


NODES, SPEEDUP, IMAGES = 72, 26, 4
IMAGE, CLASSES = (3, 224, 224), 21_841


def of_paper(name: str) -> dict:
    return config.compose("ibatch/fig3", [f"testbed=paper/{name}"])["testbed"]


def vgg19_22k():
    return models.build_model("vgg19", IMAGE, CLASSES, 0, "meta")


def communication_s(of: dict) -> float:
    """Of a default step of 72 nodes: pull, push and the servers' sums, in sequence."""
    n = 4 * sum(p.numel() for p in vgg19_22k().parameters())
    network = (of["alpha_s"], of["beta_s_per_byte"], of["hosts"], of["local_alpha_s"], of["local_beta_s_per_byte"])
    one_way = forms.all_pull(NODES, n, *network)
    sums = (NODES - 1) * collective_forms.largest_block(NODES, n) * of["gamma_s_per_byte"]
    return of["startup_s"] + of["alpha_s"] + 2 * one_way + sums


NO_NUMBERS = ("name", "kind", "launcher", "arithmetic", "sources", "inputs")


def test_every_number_has_a_source():
    for name in ("ibatch", "ibatch-implied"):
        found = of_paper(name)
        numbers = {key for key in found if key not in NO_NUMBERS}
        assert numbers <= {source.split(".")[0] for source in found["sources"]}
        assert modelled.virtual_network(testbeds.testbed_of(found)).hosts == 8
    assert of_paper("ibatch-implied")["sources"]["device"].startswith("implied: 26x")


def test_the_node_is_a_ninth_of_a_blade():
    device, blade = of_paper("ibatch")["device"], 2 * 4 * 2.4e9 * 8
    assert device["peak_flops"] == pytest.approx(blade / 9, rel=1e-3)
    memory = 2 * 25.6e9 * 0.7 / 9
    assert of_paper("ibatch")["gamma_s_per_byte"] == pytest.approx(3 / memory, rel=0.01)


def test_the_implied_rate_is_that_of_one_published_speedup():
    """72 / 26 = 1 + C / T1."""
    found = of_paper("ibatch-implied")
    seconds = communication_s(found)
    assert seconds == pytest.approx(15.113, abs=1e-3)
    step = seconds / (NODES / SPEEDUP - 1)
    assert step == close(seconds * 26 / 46) and step == pytest.approx(8.542, abs=1e-3)
    rate = IMAGES * 3 * sum(block_flops(vgg19_22k(), IMAGE, 1)) / step
    assert found["device"]["peak_flops"] * found["device"]["utilisation"] == pytest.approx(rate, rel=1e-3)
    compute = compute_seconds(block_seconds(vgg19_22k(), IMAGE, IMAGES, testbeds.testbed_of(found).device))
    assert NODES * compute / (compute + seconds) == pytest.approx(SPEEDUP, rel=1e-3)


# --- the congested network that gTop-k's released measurements imply


def congested(**entries) -> dict:
    return config.compose("gtopk/fig10-vgg16", ["testbed=paper/gtopk-congested-vgg16"])["testbed"] | entries


def test_a_congested_network_is_that_of_its_file_also_as_a_record_keeps_it():
    found = testbeds.testbed_of(congested())
    assert modelled.virtual_network(found).congestion == tuple(found.congestion.items())
    assert testbeds.testbed_of(json.loads(json.dumps(found.model_dump(mode="json")))).congestion == found.congestion


@pytest.mark.parametrize("wrong", [
    *({"congestion": {messages: factor}} for messages, factor in (("1", 2.0), ("4", 0.5), ("x", 2.0))),
    {"fair": True}, {"kind": "emulated", "arithmetic": "none", "slow_down": 2.0},
])  # fmt: skip
def test_congestion_that_cannot_be_is_refused_in_a_line(wrong):
    with pytest.raises(InputError, match=r"^testbed\.(congestion|fair)[^\n]*$"):
        testbeds.testbed_of(congested(**wrong))


def test_its_dense_times_are_the_released_ones():
    """Equation (5) with beta slowed down, after one worker's iteration: VGG-16 on 4, 8, 16 and 32 workers."""
    released = {4: 104.200, 8: 92.560, 16: 39.480, 32: 12.600}  # images/s of a worker: reference/gtopk.csv
    network = modelled.virtual_network(testbeds.testbed_of(congested()))
    for workers, images in released.items():
        ring = collective_forms.ring_seconds(
            workers, 4 * 14_728_266, network.alpha, network.beta * network.slowdown(workers)
        )
        assert 0.097 + ring == pytest.approx(128 / images, rel=0.15)


# --- links that messages do not share


@pytest.mark.parametrize("testbed", files.group_names("testbed"))
def test_a_simulated_testbed_shares_links_or_says_why_not(testbed):
    entries = config.compose("pipesgd/fig4-mnist", [f"testbed={testbed}"])["testbed"]
    if entries["kind"] == "simulated" and not entries.get("fair"):
        assert testbeds.testbed_of(entries).sources["fair"].strip()
        del entries["sources"]["fair"]
        with pytest.raises(InputError, match=r"^testbed\.fair=[^\n]*sources\.fair[^\n]*$"):
            testbeds.testbed_of(entries)


@pytest.mark.parametrize("testbed", ["paper/gtopk", "paper/eagersgd", "paper/pipedream-fig1-v100"])
@pytest.mark.parametrize("late", [0.0, 0.5])
def test_where_the_reason_is_that_no_two_messages_share_a_link_times_are_the_same(testbed, late):
    bed = testbeds.testbed_of(config.compose("gtopk/fig10-vgg16", [f"testbed={testbed}"])["testbed"])
    layers = tuple(Layer(f"{n}", 2e-3, 4e-3, 1e5, 4e6 + 4 * n) for n in range(3))
    profile = Profile("a model", 32, "", layers, None, None, "made up", 1e5)
    costs = {"encode_s_per_byte": {}, "decode_s_per_byte": {}, "select_s_per_byte": {"exact": 0.0, "sampled": 0.0}}
    used = {"paper/gtopk": ("topk", "gtopk"), "paper/eagersgd": ("eager_solo", "eager_majority")}.get(testbed, ())
    for name, workers in product(("ddp", "allreduce", *used), (4, 8)):
        setting = Setting(profile, workers, bed, late=late).with_entries(**costs)
        shared, in_turn = (
            simulate.simulate_step(read_candidates()[name], setting.with_entries(fair=fair)).seconds
            for fair in (True, False)
        )
        assert shared == pytest.approx(in_turn, rel=1e-5), name
