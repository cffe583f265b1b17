"""Slurm's part without Slurm: site options, job script, srun's command line, ranks' environment, states of runs."""

from __future__ import annotations

import subprocess
from unittest import mock

import pytest

from repro import launch
from repro.cli import main as cli
from repro.core.errors import InputError
from repro.experiment import testbeds
from repro.experiment.expand import expand
from repro.fabric.real import srun_ranks
from repro.launch import forecast, runner, srun
from repro.launch.preempted import Preempted
from repro.launch.slurm import client, layout, packs, record, site, status, submit
from repro.records.events import line_of
from tests.reports.data.summaries import make
from tests.support.records import write_summary

EXPERIMENT = "pipesgd/fig4-mnist"
DIGITS = ["dataset.standin=always"]


@pytest.fixture
def options(tmp_path, monkeypatch):
    """Write a site file; returns its options."""

    def write(text=""):
        path = tmp_path / "site.yaml"
        path.write_text(text)
        monkeypatch.setenv("REPRO_SITE", str(path))
        return site.load()

    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    write()
    return write


def planned(*overrides):
    found, _ = submit.find_runs(EXPERIMENT, [*DIGITS, *overrides], "quick")
    return found


# --- site options


def test_the_projects_site_file_is_the_defaults():
    assert site.load(site.DEFAULT) == site.Site()


@pytest.mark.parametrize("text", ["[" * 100_000, "a: &a [x]\nb: [*a]", "\x00"], ids=lambda text: text[:9])
def test_a_site_file_that_is_none_is_one_line(options, text):
    with pytest.raises(InputError, match=r"site file .*site\.yaml: ") as refusal:
        options(text)
    assert "\n" not in str(refusal.value)


def test_site_options_are_read(options):
    read = options(
        "time: 24:00:00\npartition: gpu\ngpus_per_node: 4\ngpu_type: h100\nmodules: [a/1, b]\naccount: null\n"
    )
    assert read.time == "24:00:00" and read.modules == ("a/1", "b") and read.account is None
    assert read.per_node == 4 and [read.nodes(ranks) for ranks in (1, 4, 5)] == [1, 1, 2]
    assert [read.gpus(ranks) for ranks in (1, 4, 5)] == [("gres", f"gpu:h100:{each}") for each in (1, 4, 3)]
    assert options("gpus_per_node: 4\ngpus_per_task: true").gpus(3) == ("gpus-per-task", "1")
    assert options("ranks_per_node: 4").gpus(3) is None and [read.on_a_node(ranks) for ranks in (1, 4, 5, 9)] == [
        1,
        4,
        3,
        3,
    ]
    assert options('srun: ["--container-image=repro.sif"]').ranks_python == ["python3"]
    assert read.hardware_class() == "slurm-gpu-4xh100-4x1cpu"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("partitoin: gpu", "unknown option 'partitoin'; valid: partition, "),
        ("gpus_per_node: two", "gpus_per_node=two: must be a whole number"),
        ("modules: cuda", "modules=cuda: must be a list"),
        ("- a\n- b", "must be lines of `option: value`"),
    ],
)
def test_site_options_that_cannot_be_used(options, text, said):
    with pytest.raises(InputError) as error:
        options(text)
    assert said in str(error.value) and "site.yaml" in str(error.value) and "\n" not in str(error.value)


def test_too_few_gpus_for_the_ranks(options):
    options("gpus_per_node: 1\nranks_per_node: 2")
    with pytest.raises(InputError, match=r"2 ranks on a node .* too few GPUs for the ranks; set ranks_per_node: 1, or"):
        expand(EXPERIMENT, ["testbed=slurm"])
    options("gpus_per_node: 1\nranks_per_node: 2\nshare_gpus: true")
    assert expand(EXPERIMENT, ["testbed=slurm", "strategy=dsync"])
    options()
    with pytest.raises(InputError, match="gpus_per_node: 0"):
        expand(EXPERIMENT, ["testbed=slurm", "device=cuda"])


# --- runs and scripts


def test_measured_runs_go_to_the_cluster_and_simulated_ones_stay(options):
    found, note = submit.find_runs(EXPERIMENT, DIGITS, "quick")
    assert {run.testbed for run in found} == {"slurm"} and len(found) == 7
    assert "left out testbed paper/pipesgd" in note
    none, note = submit.find_runs("pipesgd/convergence", [], "quick")
    assert none == [] and "testbed=slurm runs it on the cluster" in note
    with pytest.raises(InputError, match="testbed=virtual: `repro submit` is for testbed=slurm"):
        submit.find_runs(EXPERIMENT, ["testbed=virtual"], "quick")


def test_a_named_testbed_counts_where_the_experiment_is_only_simulated(options):
    """These said nothing, and submitted nothing."""
    for name in ("eagersgd/fig12", "eagersgd/fig13", "pipedream/accuracy-vgg16", "gtopk/fig5-vgg16"):
        found, note = submit.find_runs(name, ["testbed=slurm"], "quick")
        assert found and {run.testbed for run in found} == {"slurm"} and note is None


def test_a_run_asks_for_the_gpus_it_uses(options, tmp_path):
    found = options(
        "gpus_per_node: 8\ngpu_type: h100\nmem: 64G\nconstraint: fast\nbefore: [export NCCL_DEBUG=WARN]\n"
        "srun: [--container-image=/shared/repro.sqsh]\ncontainer_python: /opt/bin/python"
    )
    ((runs, text),) = submit.scripts(planned("strategy=dsync", "workers=1"), found, tmp_path, False)
    assert "#SBATCH --gres=gpu:h100:1\n" in text and "#SBATCH --mem=64G\n#SBATCH --constraint=fast\n" in text
    assert "\nexport NCCL_DEBUG=WARN\n" in text and submit.asked(runs, found)["gpus"] == "gres=gpu:h100:1"
    ((_, text),) = submit.scripts(planned("strategy=dsync", "device=cpu"), found, tmp_path, False)
    assert "--gres" not in text
    command = launch.of(runs[0].config.testbed).command(2, ["-m", "repro.rank.main", "/run"])
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
    (four, text), (five, _) = submit.scripts(planned(), found, tmp_path / "100 %", False)
    assert len(four) == 6 and [run.variant for run in five] == ["PS-Sync"]
    for line in (
        "--array=0-5%2",
        "--nodes=2",
        "--ntasks=4",
        "--ntasks-per-node=2",
        "--cpus-per-task=3",
        "--partition=gpu",
        "--account=me",
        "--time=01:00:00",
        "--constraint=fast",
        "--signal=TERM@60",
        "--requeue",
        "--open-mode=append",
        f"--output='{tmp_path}/100 %%/%A_%a.log'",
    ):
        assert f"#SBATCH {line}\n" in text
    assert "module load openmpi/4\n" in text and "--qos" not in text and "--gres" not in text
    assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0
    assert all(str(run.folder.relative_to(tmp_path / "results")) in text for run in four)


# --- srun and the ranks


def test_sruns_command_line(options, monkeypatch):
    options("cpus_per_rank: 4\nmpi: pmi2\npython: /env/bin/python\nsrun: [--cpu-bind=cores]\ninterface: ib0")
    given = {"name": "slurm", "kind": "measured", "launcher": "srun", "fabric": "mpi", "network": "fast"}
    testbed = testbeds.testbed_of(given)
    command = launch.of(testbed).command(3, ["-m", "repro.rank.main", "/run"])
    assert command[:8] == [
        "srun",
        "--ntasks=3",
        "--cpus-per-task=4",
        "--distribution=block",
        "--kill-on-bad-exit=1",
        "--mpi=pmi2",
        "--export=ALL",
        "--cpu-bind=cores",
    ]
    assert command[-6:] == ["/env/bin/python", "-m", "mpi4py", "-m", "repro.rank.main", "/run"]
    options("container: [apptainer, exec, image.sif]")
    command = launch.of(testbed.model_copy(update={"fabric": "torch"})).command(3, ["-m", "repro.rank.main", "/run"])
    ranks = ["apptainer", "exec", "image.sif", "python3", "-m", "repro.rank.main", "/run"]
    assert "--mpi=none" in command and command[-7:] == ranks
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(InputError, match="not inside a Slurm job"):
        launch.of(testbed).place(2, [], 1).__enter__()
    with pytest.raises(InputError, match=r"unknown testbed.fabric 'tcp'; valid: mpi, torch|torch, mpi"):
        _ = launch.of(testbed.model_copy(update={"fabric": "tcp"})).fabric


def test_the_guard_names_node_and_what_is_missing(tmp_path):
    def said(*words):
        done = subprocess.run(
            ["bash", "-c", srun.GUARD, *map(str, words)],
            capture_output=True,
            text=True,
            env={"SLURMD_NODENAME": "n7", "PATH": "/usr/bin:/bin"},
        )
        return done.returncode, done.stderr.strip() or done.stdout.strip()

    here = tmp_path
    assert said("/no/where", here, "os", 1, "python3") == (
        2,
        "repro-error[2] node n7: no checkout at /no/where: it must lie on a file system that all nodes see",
    )
    assert "node n7: no results folder /no/where" in said(here, "/no/where", "os", 1, "python3")[1]
    assert "node n7: no /no/python" in said(here, here, "os", 1, "/no/python")[1]
    assert (
        said(here, here, "os nothing_there", 1, "python3")[1] == "repro-error[2] node n7: python3: lacks nothing_there"
    )
    assert said(here, here, "os json", 2, "env", "python3", "-c", "print(6 * 7)") == (0, "42")


def test_the_ranks_environment():
    given = {
        "SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_NTASKS": "5", "SLURM_JOB_ID": "123456", "SLURM_STEP_ID": "0",
        "SLURM_TASKS_PER_NODE": "2(x2),1", "REPRO_FIRST_HOST": "no.such.host.invalid",
        "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.7",
    }  # fmt: skip
    found = srun_ranks.rank_environment(given, "torch")
    assert found | {"MASTER_PORT": ""} == {
        "LOCAL_RANK": "1", "RANK": "3", "WORLD_SIZE": "5", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.7",
        "MASTER_PORT": "",
    }  # fmt: skip
    assert (
        found["MASTER_PORT"]
        != srun_ranks.rank_environment(given | {"SLURM_RESTART_COUNT": "1"}, "torch")["MASTER_PORT"]
    )
    assert srun_ranks.rank_environment(given, "mpi") == {"LOCAL_RANK": "1"}
    assert srun_ranks.tasks_per_node("2(x3),1") == [2, 2, 2, 1]


# --- GPUs


def by_variant(runs, of):
    return {run.variant: of(run) for run in runs if not run.config.breakdown}


def test_nccl_is_taken_where_every_rank_has_a_gpu_and_the_strategy_can(options, tmp_path):
    """Always MPI, which stages every message of a GPU through host memory."""
    site_of = options("gpus_per_node: 4")
    fabrics = by_variant(planned(), lambda run: run.config.testbed.fabric)
    assert fabrics.pop("PS-Sync") == "mpi" and set(fabrics.values()) == {"torch"}
    eager = planned("strategy=eager_solo")[0]
    assert eager.config.testbed.fabric == "mpi"
    needed = submit.asked([eager], site_of)["messages"]
    assert "host memory" in needed and "any_source" in needed
    assert submit.asked(planned("strategy=dsync")[:1], site_of)["messages"] == "NCCL"
    for override in ("testbed.fabric=mpi", "device=cpu"):
        assert planned("strategy=dsync", override)[0].config.testbed.fabric == "mpi"
    options("gpus_per_node: 2\nranks_per_node: 4\nshare_gpus: true")
    assert planned("strategy=dsync")[0].config.testbed.fabric == "mpi"
    options()
    assert {run.config.testbed.fabric for run in planned()} == {"mpi"}
    assert planned("strategy=ddp")[0].config.testbed.fabric == "torch"  # needs it everywhere


def test_a_server_has_no_gpu_of_its_own_and_no_node(options, tmp_path, monkeypatch):
    found = options("gpus_per_node: 4\ngpus_per_task: true")
    runs = planned("strategy=ps_sync", "workers=8", "batch=80")
    ((_, text),) = submit.scripts(runs, found, tmp_path, False)
    for line in ("--nodes=2", "--ntasks=10", "--ntasks-per-node=5", "--gres=gpu:4"):
        assert f"#SBATCH {line}\n" in text  # was three nodes with three GPUs each
    config = runs[0].config
    assert [config.device_of(rank) for rank in (0, 7, 8)] == ["auto", "auto", "cpu"]
    monkeypatch.setattr(srun, "allocated_hosts", lambda: ["n0", "n1"])
    command = launch.of(config.testbed).command(9, ["-m", "repro.rank.main", "/run"])
    assert "--distribution=arbitrary" in command and "--nodelist=" + ",".join(["n0"] * 4 + ["n1"] * 5) in command
    # NCCL has no ranks without a GPU: who asks for it pays for the server's
    over_nccl = planned("strategy=ps_sync", "testbed.fabric=torch")[0]
    assert over_nccl.config.device_of(4) == "auto" and submit.asked([over_nccl], found)["gpus"] == "gpus-per-task=1"
    assert planned("strategy=ps_sync", "testbed.fabric=torch", "testbed.backend=gloo")[0].config.device_of(4) == "cpu"
    with pytest.raises(InputError, match=r"testbed\.gpu_ranks=4: NCCL needs a GPU of each of 5 ranks"):
        planned("strategy=ps_sync", "testbed.fabric=torch", "testbed.gpu_ranks=4")


def test_every_server_has_its_place_and_every_gpu_one_rank(options):
    found = options("gpus_per_node: 4")
    placed = layout.layout(found, 12, 9)
    assert placed.places == (0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 1, 0) and placed.per_node == 4 and placed.tasks == 12
    assert placed.hosts(["a", "b", "c"]) == "a,a,a,b,b,b,c,c,c,c,b,a"
    assert layout.layout(found, 5, 4) == (5, 4, 1, 5, None)  # a single node needs no places
    assert layout.layout(found, 5, 0)[:4] == (5, 0, 2, 3)  # device=cpu
    assert layout.layout(options("ranks_per_node: 2"), 5)[:4] == (5, 0, 3, 2)


def test_ranks_see_all_gpus_of_their_node(options):
    """Slurm binds each to one of its own with --gpus-per-task."""
    options("gpus_per_node: 4\ngpus_per_task: true\nsrun: [--gpu-bind=closest]")
    given = planned("strategy=dsync")[0].config.testbed
    command = launch.of(given).command(4, ["-m", "repro.rank.main", "/run"])
    assert command.index("--gpu-bind=none") < command.index("--gpu-bind=closest")  # the site's word is the last
    options("gpus_per_node: 4")  # nothing is bound; Slurm 22.05 would then say no longer which GPUs are the job's
    assert not any("gpu-bind" in word for word in launch.of(given).command(4, ["-m", "x", "/run"]))


# --- several runs in a job


def test_runs_that_ask_for_the_same_are_packed_up_to_a_budget(options, tmp_path, monkeypatch):
    """There was a job for each run, however small."""
    seconds = {"D-Sync": 50.0, "D-Sync + T": 70.0, "D-Sync + Q": 30.0, "Pipe-SGD": None, "PS-Sync": 10.0}
    monkeypatch.setattr(
        packs, "estimates", lambda runs, _: [forecast.Estimate(seconds.get(run.variant, 200.0)) for run in runs]
    )
    alone = submit.scripts(planned(), options(), tmp_path, False)
    assert [submit.asked(runs, site.load())["jobs"] for runs, _ in alone] == [6, 1]
    budget = options("pack_minutes: 2")
    found = {needed.ranks: jobs for needed, jobs in packs.arrays(planned(), budget)}
    assert [[run.variant for run in job] for job in found[4]] == [
        ["D-Sync", "D-Sync + T"],  # two minutes
        ["D-Sync + Q"],
        ["Pipe-SGD"],  # nobody knows for how long
        ["Pipe-SGD + T"],  # longer than the budget
        ["Pipe-SGD + Q"],
    ]
    ((_, text), _) = submit.scripts(planned(), budget, tmp_path, False)
    assert "#SBATCH --array=0-4\n" in text and subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0
    _, case, rest = text.partition("case ")
    choice = case + rest.partition("project=")[0] + 'printf "%s\\n" "${runs[@]}"'
    task = {"SLURM_ARRAY_TASK_ID": "0"}
    shown = subprocess.run(["bash"], input=choice, text=True, capture_output=True, env=task).stdout.split()
    assert shown == [str(run.folder.relative_to(tmp_path / "results")) for run in found[4][0]]


def test_simulated_runs_share_a_job_several_at_a_time(options, tmp_path):
    found = options("simulations: 3\ngpus_per_node: 4\ncpus_per_rank: 2")
    runs, note = submit.find_runs(EXPERIMENT, DIGITS, "quick", simulated=True)
    assert {run.testbed for run in runs} == {"slurm", "paper/pipesgd"}
    assert "paper/pipesgd" not in note  # which says that `repro run` is for emulated ones
    alone, _ = submit.find_runs(EXPERIMENT, [*DIGITS, "testbed=virtual"], "quick", simulated=True)
    assert {run.testbed for run in alone} == {"virtual"}
    assert {run.hardware["class"] for run in alone} == {
        found.hardware_class()
    }  # of the place, as measured ones have it
    ((together, text),) = submit.scripts(alone, found, tmp_path, False)
    assert len(together) == len(alone) > 3 and "#SBATCH --array=0-0\n" in text and "--gres" not in text
    assert "#SBATCH --ntasks=1\n" in text and "#SBATCH --cpus-per-task=3\n" in text
    with pytest.raises(InputError, match="testbed=here"):
        submit.find_runs(EXPERIMENT, [*DIGITS, "testbed=here"], "quick", simulated=True)


def test_whoever_asks_a_run_to_leave_gets_the_place(options, tmp_path):
    """The next run of the job was started in the seconds before the end."""
    first, second = planned("strategy=dsync", "seeds=2")
    begun = []

    def leave(run, core):
        begun.append(run.seed)
        raise Preempted("asked to leave")

    faults = runner.run_all([first, second], leave, mock.Mock())
    assert begun == [0] and [run for run, _ in faults] == [first]


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
    """It refused, on a login node that has no ImageNet."""
    monkeypatch.setenv("REPRO_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    submitted = ["submit", "eagersgd/fig11", "testbed=slurm", "--scale=paper"]
    assert cli.main([*submitted, "--dry-run"]) == 0
    shown = capsys.readouterr()
    assert "#SBATCH --array=" in shown.out and "warning: " in shown.err and "imagenet" in shown.err.lower()


# --- what happened


def test_the_states_of_runs(options, tmp_path, monkeypatch):
    names = ["done", "running", "pending", "requeued", "cancelled", "failed", "early", "stopped"]
    root = tmp_path / "results"
    listed = [{"path": f"p/e/{name}", "label": name, "key": name, "metric": "top1"} for name in names]
    array = {"job": "7", "script": "job.sbatch", "ranks": 2, "nodes": 1, "partition": None, "runs": listed}
    folder = root / "slurm" / "20260101-000000-p-e"
    folder.mkdir(parents=True)
    record.write(folder, {"experiment": "p/e", "submitted_at": "2026-01-01T00:00:00+00:00", "arrays": [array]})
    begun = [
        {"event": "run_start", "iteration": 0, "iterations": 90},
        {"event": "evaluation", "iteration": 30, "top1": 0.5},
    ]
    for name in names:
        (root / "p" / "e" / name).mkdir(parents=True)
        more = [{"event": "failed", "reason": "rank 1 was lost"}] if name == "failed" else []
        events = [] if name in ("pending", "early") else begun + more
        (root / "p" / "e" / name / "events.jsonl").write_text("".join(line_of(**event) + "\n" for event in events))
    write_summary(root / "p" / "e" / "done", make("D-Sync", key="done"))
    (folder / "7_6.log").write_text("2026 start 1\nrepro: error: node n3: no checkout at /x\n")
    waiting = {number: client.ArrayTask("PENDING", reason="Resources") for number in (2, 3)}
    tasks = {("7", number): task for number, task in ({1: client.ArrayTask("RUNNING", "n[1-2]")} | waiting).items()}
    monkeypatch.setattr(client, "need", lambda program: program)
    monkeypatch.setattr(client, "queued", lambda: tasks)
    monkeypatch.setattr(client, "ended", lambda jobs: {("7", 4): "CANCELLED", ("7", 6): "FAILED"})
    found = status.status("p")
    by_label = {run["label"]: run for run in found[0]["arrays"][0]["runs"]}
    assert {name: run["state"] for name, run in by_label.items()} == {name: name for name in names} | {
        "early": "failed"
    }
    assert (
        by_label["early"]["reason"] == "node n3: no checkout at /x"
        and by_label["failed"]["reason"] == "rank 1 was lost"
    )
    text = "\n".join(status.lines(found))
    assert "running   running    iteration 30 of 90, top1 0.5000, on n[1-2]" in text
    assert text.endswith("1 running, 1 pending, 1 requeued, 1 stopped, 1 cancelled, 2 failed, 1 done")


def test_runs_of_one_job_are_told_apart(options, tmp_path, monkeypatch):
    names = ["over", "bad", "now", "next"]
    runs = [{"path": f"p/e/{name}", "label": name, "key": name, "metric": "top1", "task": 0} for name in names]
    array = {"job": "7", "ranks": 2, "nodes": 1, "partition": None, "runs": runs}
    (record.root() / "1").mkdir(parents=True)
    record.write(record.root() / "1", {"experiment": "p/e", "submitted_at": "2026", "arrays": [array]})
    events = {"over": ["run_start"], "bad": ["run_start", "failed"], "now": ["run_start"], "next": []}
    for name in names:
        (tmp_path / "results/p/e" / name).mkdir(parents=True)
        lines = [line_of(each, reason="lost", iterations=9) + "\n" for each in events[name]]
        (tmp_path / "results/p/e" / name / "events.jsonl").write_text("".join(lines))
    write_summary(tmp_path / "results/p/e/over", make("D-Sync", key="over"))
    monkeypatch.setattr(client, "need", lambda program: program)
    task = {("7", 0): client.ArrayTask("RUNNING", "n1")}
    monkeypatch.setattr(client, "queued", lambda: task)

    def states():
        return [run["state"] for run in status.status()[0]["arrays"][0]["runs"]]

    assert states() == ["done", "failed", "running", "pending"]
    assert submit.busy_keys() == set(names)  # they wait for their turn, or the job will try them again
    task["7", 0] = client.ArrayTask("PENDING", reason="BeginTime")
    assert states() == ["done", "requeued", "requeued", "pending"]
    task.clear()
    monkeypatch.setattr(client, "ended", lambda jobs: {("7", 0): "TIMEOUT"})
    assert states() == ["done", "failed", "failed", "failed"]
