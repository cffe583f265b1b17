"""Submission without Slurm: the runs for the cluster, their resources, jobs and job scripts."""

from __future__ import annotations

import subprocess

import pytest

from repro import launch
from repro.cli import main as cli
from repro.core.errors import InputError
from repro.experiment.expand import expand_runs
from repro.experiment.launched import launch_digest
from repro.launch import forecast, srun
from repro.launch.slurm import resources, submit

EXPERIMENT = "pipesgd/fig4-mnist"
DIGITS = ["dataset.standin=always"]


def planned(*overrides):
    """Runs with keys, as for a job script."""
    return submit.find_runs(EXPERIMENT, [*DIGITS, *overrides], "quick")[0]


def expanded(*overrides):
    """The same runs without keys, which is ten times as fast."""
    return expand_runs(EXPERIMENT, ["testbed=slurm", *DIGITS, *overrides], "quick")


def command_of(run, ranks):
    return launch.launcher_for(run.config.testbed).command(ranks, ["-m", "repro.rank.main", "/run"])


def test_measured_runs_go_to_the_cluster_and_simulated_ones_stay(options):
    runs, note = submit.find_runs(EXPERIMENT, DIGITS, "quick")
    assert {run.testbed for run in runs} == {"slurm"} and len(runs) == 7
    assert "left out testbed paper/pipesgd" in note
    none, note = submit.find_runs("pipesgd/convergence", [], "quick")
    assert none == [] and "testbed=slurm runs it on the cluster" in note
    with pytest.raises(InputError, match="testbed=virtual: `repro submit` is for testbed=slurm"):
        submit.find_runs(EXPERIMENT, ["testbed=virtual"], "quick")


@pytest.mark.parametrize("name", ["eagersgd/fig13", "gtopk/fig5-vgg16"])
def test_a_named_testbed_is_used_even_if_the_experiment_is_only_simulated(options, name):
    runs, note = submit.find_runs(name, ["testbed=slurm"], "quick")
    assert runs and {run.testbed for run in runs} == {"slurm"} and note is None


def test_a_run_asks_for_the_gpus_it_uses(options, tmp_path):
    found = options(
        "gpus_per_node: 8\ngpu_type: h100\nmem: 64G\nconstraint: fast\nbefore: [export NCCL_DEBUG=WARN]\n"
        "srun: [--container-image=/shared/repro.sqsh]\ncontainer_python: /opt/bin/python"
    )
    runs = planned("strategy=dsync", "workers=1")
    ((needed, _, text),) = submit.array_scripts(runs, found, tmp_path, False)
    assert "#SBATCH --gres=gpu:h100:1\n" in text and "#SBATCH --mem=64G\n#SBATCH --constraint=fast\n" in text
    assert "\nexport NCCL_DEBUG=WARN\n" in text and needed.gpus == ("gres", "gpu:h100:1")
    ((_, _, text),) = submit.array_scripts(planned("strategy=dsync", "device=cpu"), found, tmp_path, False)
    assert "--gres" not in text
    command = command_of(runs[0], 2)
    assert "--container-image=/shared/repro.sqsh" in command and "/opt/bin/python" in command  # Pyxis


def test_the_key_knows_the_hardware_but_no_queue(options):
    keys = []
    for text in ("", "time: 60\naccount: me\nqos: low", "partition: other", "ranks_per_node: 2"):
        options(text)
        keys.append(planned("strategy=dsync")[0].key)
    assert keys[0] == keys[1] and len(set(keys)) == 3


def test_one_array_for_each_number_of_ranks(options, tmp_path):
    found = options(
        "partition: gpu\naccount: me\ntime: 01:00:00\nranks_per_node: 2\ncpus_per_rank: 3\nmax_tasks: 2\n"
        'modules: [openmpi/4]\nsbatch: ["--constraint=fast"]\nsignal_seconds: 60\n'
    )
    (_, four, text), (_, five, _) = submit.array_scripts(planned(), found, tmp_path / "100 %", False)
    assert len(four) == 6 and [run.variant for run in submit.flatten_packs(five)] == ["PS-Sync"]
    lines = "array=0-5%2 nodes=2 ntasks=4 ntasks-per-node=2 cpus-per-task=3 partition=gpu account=me time=01:00:00 "
    lines += f"constraint=fast signal=TERM@60 requeue open-mode=append output='{tmp_path}/100_%%/%A_%a.log'"
    for line in lines.split():
        assert f"#SBATCH --{line.replace('100_', '100 ')}\n" in text
    assert "module load openmpi/4\n" in text and "--qos" not in text and "--gres" not in text
    assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0
    assert all(str(run.folder.relative_to(tmp_path / "results")) in text for run in submit.flatten_packs(four))


def fabric(*overrides):
    return expanded(*overrides)[0].config.testbed.fabric


def test_nccl_is_used_if_every_rank_has_a_gpu_and_the_strategy_supports_it(options):
    """MPI stages every message of a GPU through host memory."""
    site = options("gpus_per_node: 4")
    fabrics = {run.variant: run.config.testbed.fabric for run in expanded() if not run.config.breakdown}
    assert fabrics.pop("PS-Sync") == "mpi" and set(fabrics.values()) == {"torch"}
    eager = expanded("strategy=eager_solo")[0]
    messages = resources.resources_for(eager, site).messages
    assert eager.config.testbed.fabric == "mpi" and "host memory" in messages and "any_source" in messages
    assert resources.resources_for(expanded("strategy=dsync")[0], site).messages == "NCCL"
    assert fabric("strategy=dsync", "testbed.fabric=mpi") == fabric("strategy=dsync", "device=cpu") == "mpi"
    options("gpus_per_node: 2\nranks_per_node: 4\nshare_gpus: true")
    assert fabric("strategy=dsync") == "mpi"
    options()
    assert fabric("strategy=dsync") == fabric("strategy=ps_sync") == "mpi"
    assert fabric("strategy=ddp") == "torch"  # needs it everywhere


def test_a_server_has_no_gpu_of_its_own_and_no_node(options, tmp_path, monkeypatch):
    site = options("gpus_per_node: 4\ngpus_per_task: true")
    runs = planned("strategy=ps_sync", "workers=8", "batch=80")
    ((_, _, text),) = submit.array_scripts(runs, site, tmp_path, False)
    for line in ("--nodes=2", "--ntasks=10", "--ntasks-per-node=5", "--gres=gpu:4"):
        assert f"#SBATCH {line}\n" in text  # not three nodes with three GPUs each
    assert [runs[0].config.device_of(rank) for rank in (0, 7, 8)] == ["auto", "auto", "cpu"]
    monkeypatch.setattr(srun, "allocated_hosts", lambda: ["n0", "n1"])
    command = command_of(runs[0], 9)
    assert "--distribution=arbitrary" in command and "--nodelist=" + ",".join(["n0"] * 4 + ["n1"] * 5) in command
    # NCCL has no ranks without a GPU: with it the server has one too
    over_nccl, over_gloo = (
        expanded("strategy=ps_sync", "testbed.fabric=torch", *more)[0] for more in ((), ("testbed.backend=gloo",))
    )
    assert over_nccl.config.device_of(4) == "auto" and resources.resources_for(over_nccl, site).gpus == (
        "gpus-per-task",
        "1",
    )
    assert over_gloo.config.device_of(4) == "cpu"
    with pytest.raises(InputError, match=r"testbed\.gpu_ranks=4: NCCL needs a GPU of each of 5 ranks"):
        expanded("strategy=ps_sync", "testbed.fabric=torch", "testbed.gpu_ranks=4")


def test_ranks_see_all_gpus_of_their_node(options):
    """Slurm binds each to one of its own with --gpus-per-task."""
    options("gpus_per_node: 4\ngpus_per_task: true\nsrun: [--gpu-bind=closest]")
    run = expanded("strategy=dsync")[0]
    command = command_of(run, 4)
    assert command.index("--gpu-bind=none") < command.index("--gpu-bind=closest")  # the site's option is the last
    options("gpus_per_node: 4")  # --gres does not bind
    assert not any("gpu-bind" in word for word in command_of(run, 4))


def test_runs_with_the_same_resources_are_packed_up_to_a_budget(options, tmp_path, monkeypatch):
    seconds = {"D-Sync": 50.0, "D-Sync + T": 70.0, "D-Sync + Q": 30.0, "Pipe-SGD": None,
               "Pipe-SGD + T": 10.0, "PS-Sync": 10.0}  # fmt: skip
    most = None
    monkeypatch.setattr(
        resources,
        "estimate_runs",
        lambda runs, _: [forecast.Estimate(seconds.get(run.variant, 200.0), most_s=most) for run in runs],
    )
    runs = planned()
    assert [len(jobs) for _, jobs in resources.job_arrays(runs, options())] == [6, 1]
    budget = options("pack_minutes: 2")
    jobs = {needed.ranks: jobs for needed, jobs in resources.job_arrays(runs, budget)}
    assert [[run.variant for run in job] for job in jobs[4]] == [
        ["D-Sync", "D-Sync + T"],  # two minutes
        ["D-Sync + Q"],
        ["Pipe-SGD"],  # of unknown duration: nothing is packed with it
        ["Pipe-SGD + T"],
        ["Pipe-SGD + Q"],  # longer than the budget
    ]
    most = 80.0
    jobs = {needed.ranks: jobs for needed, jobs in resources.job_arrays(runs, budget)}
    assert ["D-Sync + Q", "Pipe-SGD", "Pipe-SGD + T"] in [
        [run.variant for run in job] for job in jobs[4]
    ]  # by the longest like it
    most = None
    jobs = {needed.ranks: jobs for needed, jobs in resources.job_arrays(runs, budget)}
    ((_, _, text), _) = submit.array_scripts(runs, budget, tmp_path, False)
    assert "#SBATCH --array=0-4\n" in text and subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0
    _, case, rest = text.partition("case ")
    choice = case + rest.partition("project=")[0] + 'printf "%s\\n" "${runs[@]}"'
    task = {"SLURM_ARRAY_TASK_ID": "0"}
    shown = subprocess.run(["bash"], input=choice, text=True, capture_output=True, env=task).stdout.split()
    paths = [str(run.folder.relative_to(tmp_path / "results")) for run in jobs[4][0]]
    assert shown == [f"{path}={launch_digest(run)}" for path, run in zip(paths, jobs[4][0], strict=True)]


def test_simulated_runs_share_a_job_several_at_a_time(options, tmp_path):
    site = options("simulations: 3\ngpus_per_node: 4\ncpus_per_rank: 2")
    runs, note = submit.find_runs(EXPERIMENT, DIGITS, "quick", simulated=True)
    assert {run.testbed for run in runs} == {"slurm", "paper/pipesgd"}
    assert "paper/pipesgd" not in note
    alone, _ = submit.find_runs(EXPERIMENT, [*DIGITS, "testbed=virtual"], "quick", simulated=True)
    assert {run.testbed for run in alone} == {"virtual"}
    assert {run.hardware["class"] for run in alone} == {site.hardware_class()}  # like measured ones
    ((_, (together,), text),) = submit.array_scripts(alone, site, tmp_path, False)
    assert len(together) == len(alone) > 3 and "#SBATCH --array=0-0\n" in text and "--gres" not in text
    assert "#SBATCH --ntasks=1\n" in text and "#SBATCH --cpus-per-task=3\n" in text
    with pytest.raises(InputError, match="testbed=here"):
        submit.find_runs(EXPERIMENT, [*DIGITS, "testbed=here"], "quick", simulated=True)


def test_a_job_name_has_no_slash_and_a_job_without_a_time_is_warned_of(options, capsys):
    options()
    dry = ["submit", EXPERIMENT, *DIGITS, "strategy=dsync", "--dry-run"]
    assert cli.main(dry) == 0
    shown = capsys.readouterr()
    (name,) = [line for line in shown.out.splitlines() if "--job-name" in line]
    assert "/" not in name and "no time" in shown.err
    for text in ("time: 60", "sbatch: [--time=60]"):
        options(text)
        assert cli.main(dry) == 0 and "no time" not in capsys.readouterr().err


def test_a_dry_run_needs_no_data(options, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("REPRO_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    submitted = ["submit", "eagersgd/fig11", "testbed=slurm", "--scale=paper"]
    assert cli.main([*submitted, "--dry-run"]) == 0
    shown = capsys.readouterr()
    assert "#SBATCH --array=" in shown.out and "warning: " in shown.err and "imagenet" in shown.err.lower()
