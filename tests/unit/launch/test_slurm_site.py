"""Slurm without a cluster: site options, srun's command line, the ranks' environment and layout."""

from __future__ import annotations

import subprocess

import pytest

from repro import launch
from repro.core import processes
from repro.core.errors import InputError
from repro.experiment import testbeds
from repro.experiment.expand import expand_runs
from repro.launch import srun
from repro.launch.slurm import site

EXPERIMENT = "pipesgd/fig4-mnist"


def test_the_projects_site_file_is_the_defaults():
    assert site.load_site(site.DEFAULT) == site.Site()


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "a: &a [x]\nb: [*a]", "\x00", "a: [1\nb: {"], ids=lambda text: text[:9]
)
def test_a_site_file_that_is_none_is_one_line(options, text):
    with pytest.raises(InputError, match=r"site file .*site\.yaml: ") as refusal:
        options(text)
    assert "\n" not in str(refusal.value) and "byte string" not in str(refusal.value)


def test_site_options_are_read(options):
    read = options(
        "time: 24:00:00\npartition: gpu\ngpus_per_node: 4\ngpu_type: h100\nmodules: [a/1, b]\naccount: null\n"
    )
    assert read.time == "24:00:00" and read.modules == ("a/1", "b") and read.account is None
    assert read.per_node == 4 and [read.nodes(ranks) for ranks in (1, 4, 5)] == [1, 1, 2]
    assert [read.gpus(ranks) for ranks in (1, 4, 5)] == [("gres", f"gpu:h100:{each}") for each in (1, 4, 3)]
    assert options("gpus_per_node: 4\ngpus_per_task: true").gpus(3) == ("gpus-per-task", "1")
    assert options("ranks_per_node: 4").gpus(3) is None
    assert [read.on_a_node(ranks) for ranks in (1, 4, 5, 9)] == [1, 4, 3, 3]
    assert options('srun: ["--container-image=repro.sif"]').ranks_python == ["python3"]
    assert read.hardware_class() == "slurm-gpu-4xh100-4x1cpu"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("partitoin: gpu", "unknown option 'partitoin'; nearest: partition, "),
        ("gpus_per_node: two", "gpus_per_node=two: must be a whole number"),
        ("modules: cuda", "modules=cuda: must be a list"),
        ("- a\n- b", "must be lines of `option: value`"),
    ],
)
def test_site_options_that_cannot_be_used(options, text, words):
    with pytest.raises(InputError) as error:
        options(text)
    assert words in str(error.value) and "site.yaml" in str(error.value) and "\n" not in str(error.value)


def test_too_few_gpus_for_the_ranks(options):
    options("gpus_per_node: 1\nranks_per_node: 2")
    with pytest.raises(InputError, match=r"2 ranks on a node .* too few GPUs for the ranks; set ranks_per_node: 1, or"):
        expand_runs(EXPERIMENT, ["testbed=slurm"])
    options("gpus_per_node: 1\nranks_per_node: 2\nshare_gpus: true")
    assert expand_runs(EXPERIMENT, ["testbed=slurm", "strategy=dsync"])
    options()
    with pytest.raises(InputError, match="gpus_per_node: 0"):
        expand_runs(EXPERIMENT, ["testbed=slurm", "device=cuda"])


# --- srun and the ranks


def test_sruns_command_line(options, monkeypatch):
    options("cpus_per_rank: 4\nmpi: pmi2\npython: /env/bin/python\nsrun: [--cpu-bind=cores]\ninterface: ib0")
    given = {"name": "slurm", "kind": "measured", "launcher": "srun", "fabric": "mpi", "network": "fast"}
    testbed = testbeds.testbed_of(given)
    command = launch.launcher_for(testbed).command(3, ["-m", "repro.rank.main", "/run"])
    first = "srun --ntasks=3 --cpus-per-task=4 --distribution=block --kill-on-bad-exit=1 --mpi=pmi2 --export=ALL"
    assert command[:8] == [*first.split(), "--cpu-bind=cores"]
    assert command[-6:] == ["/env/bin/python", "-m", "mpi4py", "-m", "repro.rank.main", "/run"]
    options("container: [apptainer, exec, image.sif]")
    command = launch.launcher_for(testbed.model_copy(update={"fabric": "torch"})).command(
        3, ["-m", "repro.rank.main", "/run"]
    )
    ranks = ["apptainer", "exec", "image.sif", "python3", "-m", "repro.rank.main", "/run"]
    assert "--mpi=none" in command and command[-7:] == ranks
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(InputError, match="not inside a Slurm job"):
        launch.launcher_for(testbed).allocate(2, [], 1)
    with pytest.raises(InputError, match=r"unknown testbed.fabric 'tcp'; valid: mpi, torch|torch, mpi"):
        _ = launch.launcher_for(testbed.model_copy(update={"fabric": "tcp"})).fabric


def test_the_guard_names_node_and_what_is_missing(tmp_path):
    def guard(*words):
        done = subprocess.run(
            ["bash", "-c", srun.GUARD, *map(str, words)],
            capture_output=True,
            text=True,
            env={"SLURMD_NODENAME": "n7", "PATH": "/usr/bin:/bin"},
        )
        return done.returncode, done.stderr.strip() or done.stdout.strip()

    assert guard("/no/where", tmp_path, "os", 1, "python3") == (
        2,
        "repro-error[2] node n7: no checkout at /no/where: it must lie on a file system that all nodes see",
    )
    assert "node n7: no results folder /no/where" in guard(tmp_path, "/no/where", "os", 1, "python3")[1]
    assert "node n7: no /no/python" in guard(tmp_path, tmp_path, "os", 1, "/no/python")[1]
    assert (
        guard(tmp_path, tmp_path, "os nothing_there", 1, "python3")[1]
        == "repro-error[2] node n7: python3: lacks nothing_there"
    )
    assert guard(tmp_path, tmp_path, "os json", 2, "env", "python3", "-c", "print(6 * 7)") == (0, "42")


def test_the_ranks_environment():
    given = {
        "SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_NTASKS": "5", "SLURM_JOB_ID": "123456", "SLURM_STEP_ID": "0",
        "SLURM_TASKS_PER_NODE": "2(x2),1", "REPRO_FIRST_HOST": "no.such.host.invalid",
        "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.7",
    }  # fmt: skip
    found = processes.rank_environment(given, "torch")
    assert found | {"MASTER_PORT": ""} == {
        "LOCAL_RANK": "1", "RANK": "3", "WORLD_SIZE": "5", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.7",
        "MASTER_PORT": "",
    }  # fmt: skip
    assert (
        found["MASTER_PORT"] != processes.rank_environment(given | {"SLURM_RESTART_COUNT": "1"}, "torch")["MASTER_PORT"]
    )
    assert processes.rank_environment(given, "mpi") == {"LOCAL_RANK": "1"}
    assert processes.tasks_per_node("2(x3),1") == [2, 2, 2, 1]


def test_every_server_has_its_place_and_every_gpu_one_rank(options):
    found = options("gpus_per_node: 4")
    placed = srun.node_layout(found, 12, 9)
    assert placed.places == (0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 1, 0) and placed.per_node == 4 and placed.tasks == 12
    assert placed.hosts(["a", "b", "c"]) == "a,a,a,b,b,b,c,c,c,c,b,a"
    assert srun.node_layout(found, 5, 4) == (5, 4, 1, 5, None)  # a single node needs no places
    assert srun.node_layout(found, 5, 0)[:4] == (5, 0, 2, 3)  # device=cpu
    assert srun.node_layout(options("ranks_per_node: 2"), 5)[:4] == (5, 0, 3, 2)
