"""`repro submit`, `status` and preemption on a real Slurm of four nodes, started here."""

import contextlib
import io
import json
import os
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from repro.answers.claims import published_verdicts
from repro.answers.pages.build import build
from repro.cli import main as cli
from repro.cli import publishing
from repro.core import paths
from repro.core.errors import InputError
from repro.launch.slurm import client
from repro.records import archive, catalogue, reference
from tests.support import slurm_cluster
from tests.support.records import read_summary
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slurm
EXPERIMENT = "pipesgd/fig4-mnist"
QUICK = ["dataset.standin=always", "workers=2", "batch=40", "epochs=1", "eval_every=0.5", "checkpoint_every=1"]
LONG = [*QUICK[:3], "epochs=30", "eval_every=3", "checkpoint_every=20"]  # 1,050 iterations of some ms
SITE = "partition: debug\nranks_per_node: 1\ninterface: lo\ntime: 60\nsignal_seconds: 30\n"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with running(tmp_path_factory.mktemp("slurm"), SITE) as started:
        yield started


@contextlib.contextmanager
def running(folder, site, gpus=0):
    if reason := slurm_cluster.missing():
        pytest.skip(reason)
    started = slurm_cluster.Cluster(folder, gpus)
    try:
        started.up()
        (folder / "site.yaml").write_text(site)
        started.environment |= {
            "REPRO_SITE": str(folder / "site.yaml"),
            "REPRO_RESULTS": str(folder / "results"),
            "REPRO_REPORTS": str(folder / "reports"),
            "REPRO_PREEMPT": "0.3",
            # all nodes share this machine's cores
            "OMPI_MCA_mpi_yield_when_idle": "1",
        }
        started.environment.pop("MLFLOW_TRACKING_URI", None)
        yield started
    except slurm_cluster.NotStarted as reason:
        pytest.skip(str(reason))
    finally:
        started.down()


@pytest.fixture(scope="module")
def without_mpi(cluster):
    """Why this Slurm cannot start ranks with MPI; empty where it can."""
    with mock.patch.dict(os.environ, cluster.environment, clear=True):
        try:
            client.need_mpi("pmix")
        except InputError as reason:
            return str(reason)
    return ""


@pytest.fixture
def fabric(without_mpi):
    """An override: the fabric whose ranks this Slurm can start."""
    return f"testbed.fabric={'torch' if without_mpi else 'mpi'}"


def repro(cluster, *arguments, **changes):
    """In this process: it has torch loaded, which takes the commands seconds."""
    out, err = io.StringIO(), io.StringIO()
    with mock.patch.dict(os.environ, cluster.environment | changes, clear=True):
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = cli.main(arguments)
    return SimpleNamespace(returncode=status, stdout=out.getvalue(), stderr=err.getvalue())


def submit(cluster, *overrides, flags=(), **changes):
    done = repro(cluster, "submit", EXPERIMENT, *overrides, "--json", *flags, **changes)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def runs_of(cluster, **changes):
    done = repro(cluster, "status", "--json", **changes)
    assert done.returncode == 0, done.stderr
    return [run for found in json.loads(done.stdout) for array in found["arrays"] for run in array["runs"]]


def queue_is_empty(cluster):
    return not cluster.run("squeue", "-h").stdout.strip()


def summaries(results):
    return [read_summary(path.parent) for path in sorted(Path(results).rglob("summary.json"))]


def events(results):
    (path,) = Path(results).rglob("events.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def evaluated(results):
    """Whether a run is in the middle of its training."""
    return any(results.rglob("events.jsonl")) and [e for e in events(results) if e["event"] == "evaluation"][1:]


def test_bad_input_is_one_line(cluster, tmp_path, fabric):
    results = {"REPRO_RESULTS": str(tmp_path / "results")}
    by_default = ["submit", EXPERIMENT, *QUICK, "strategy=dsync"]
    dsync = [*by_default, fabric]

    def refused(*arguments, **changes):
        done = repro(cluster, *arguments, **results, **changes)
        assert done.returncode == 2 and not done.stdout
        return done.stderr.strip().splitlines()[-1]

    site = tmp_path / "site.yaml"
    site.write_text("partition: nowhere\n")
    line = refused(*dsync, f"--site={site}")
    assert line.startswith("repro: error: sbatch: invalid partition specified: nowhere; Batch job submission failed: ")
    assert not list((tmp_path / "results").rglob("config.yaml")) and not list((tmp_path / "results").rglob("*.sbatch"))
    site.write_text("gpus_per_node: 2\n")
    assert "Invalid generic resource (gres) specification" in refused(*dsync, f"--site={site}")
    site.write_text("mpi: pmi9\n")
    line = refused(*by_default, f"--site={site}")
    assert "error: srun --mpi=pmi9: " in line and re.search(r"can be loaded: .*\bpmi2\b.*testbed.fabric=torch", line)
    assert not list((tmp_path / "results").rglob("config.yaml")) and not list((tmp_path / "results").rglob("*.sbatch"))
    path = tmp_path / "bin"
    path.mkdir()
    assert "no sbatch on PATH" in refused(*dsync, PATH=str(path))
    assert "nothing was submitted" in refused("status")


def test_an_array_does_its_runs_over_several_nodes(cluster, tmp_path, without_mpi):
    if without_mpi:
        pytest.skip(without_mpi)
    results = {"REPRO_RESULTS": str(tmp_path / "results")}
    dry = repro(cluster, "submit", EXPERIMENT, *QUICK, "strategy=dsync", "seeds=2", "--dry-run", **results)
    assert dry.returncode == 0 and "#SBATCH --array=0-1\n" in dry.stdout and "#SBATCH --nodes=2\n" in dry.stdout
    assert not (tmp_path / "results").exists() and queue_is_empty(cluster)

    (mpi,) = submit(cluster, *QUICK, "strategy=dsync", "seeds=2", **results)
    (torch,) = submit(cluster, *QUICK, "strategy=dsync", "testbed.fabric=torch", **results)
    assert [len(array["runs"]) for array in mpi["arrays"] + torch["arrays"]] == [2, 1]
    again = repro(cluster, "submit", EXPERIMENT, *QUICK, "strategy=dsync", "seeds=2", **results)
    assert "nothing to submit" in again.stdout
    wait_until(lambda: queue_is_empty(cluster), "the jobs end")
    found = runs_of(cluster, **results)
    assert [run["state"] for run in found] == ["done"] * 3, found
    assert all(run["iteration"] == run["iterations"] == 35 and run["score"] > 0.3 for run in found)
    ends = {(end["fabric"], end["seed"]): end for end in summaries(tmp_path / "results")}
    assert set(ends) == {("mpi", 0), ("mpi", 1), ("torch", 0)}
    assert ends["mpi", 0]["weights_sha256"] == ends["torch", 0]["weights_sha256"] != ends["mpi", 1]["weights_sha256"]
    assert (
        ends["mpi", 0]["kind"] == "measured" and ends["mpi", 0]["launcher"] == "srun" and ends["mpi", 0]["ranks"] == 2
    )
    assert ends["mpi", 0]["hardware"]["class"] == "slurm-debug-cpu-1x1cpu" and ends["mpi", 0]["hardware"]["cpu"]
    logs = [path.read_text() for path in (tmp_path / "results" / "slurm").rglob("*.log")]
    assert len(logs) == 3 and all(re.search(r"start 1 on node\[\d-\d\]: ", log) for log in logs)
    shown = repro(cluster, "status", "pipesgd", **results).stdout
    assert "2 ranks on 2 nodes, partition debug" in shown and shown.endswith("3 done\n")


def test_cancelled_and_preempted_runs_end_with_the_same_bits(cluster, tmp_path, fabric):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    pipe = [*LONG, fabric, "strategy=pipe_sgd", "strategy.codec=quantize8"]
    submit(cluster, *pipe, REPRO_RESULTS=str(whole))
    (first,) = submit(cluster, *pipe, REPRO_RESULTS=str(broken))
    job = first["arrays"][0]["job"]

    # cancelled: the time until Slurm's SIGKILL is enough for a checkpoint
    wait_until(lambda: evaluated(broken), "the run is under way")
    cluster.run("scancel", job)
    wait_until(lambda: job not in cluster.run("squeue", "-h", "-o", "%F").stdout.split(), "the job ends")
    (run,) = runs_of(cluster, REPRO_RESULTS=str(broken))
    assert run["state"] == "cancelled" and 0 < run["iteration"] < run["iterations"] == 1050
    left_at = [event["iteration"] for event in events(broken) if event["event"] == "preempted"]
    assert left_at == [run["iteration"]] and not summaries(broken)

    # submitted again it goes on from there; preempted: checkpoint, requeue, on from exactly that iteration
    (second,) = submit(cluster, *pipe, REPRO_RESULTS=str(broken))
    job = second["arrays"][0]["job"]
    wait_until(
        lambda: [event for event in events(broken) if event["event"] == "evaluation"][-1]["iteration"] > left_at[0],
        "the run goes on",
    )
    cluster.run("scancel", "--signal=TERM", job)
    wait_until(lambda: runs_of(cluster, REPRO_RESULTS=str(broken))[0]["state"] == "requeued", "Slurm queues it again")
    wait_until(lambda: queue_is_empty(cluster), "the jobs end")
    (run,) = runs_of(cluster, REPRO_RESULTS=str(broken))
    assert run["state"] == "done" and run["restarts"] == 2
    stops = [
        (event["event"], event["iteration"]) for event in events(broken) if event["event"] in ("preempted", "resume")
    ]
    assert [name for name, _ in stops] == ["preempted", "resume"] * 2
    assert stops[0][1] == stops[1][1] == left_at[0] < stops[2][1] == stops[3][1] < 1050
    (undisturbed,), (resumed,) = summaries(whole), summaries(broken)
    assert resumed["weights_sha256"] == undisturbed["weights_sha256"]
    assert [point["top1"] for point in resumed["curve"]] == [point["top1"] for point in undisturbed["curve"]]
    assert resumed["bytes_sent"] == undisturbed["bytes_sent"]


def test_a_node_that_lacks_the_environment_is_named(cluster, tmp_path, fabric):
    bare = tmp_path / "bare-python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')  # without what is installed
    bare.chmod(0o755)
    lacking = {
        "python: /nowhere/python": r"node node\d: no Python at /nowhere/python",
        "container: [env]\ncontainer_python: /nowhere/python": r"node node\d: \S*env /nowhere/python: does not run",
        f"container: [env]\ncontainer_python: {bare}": r"node node\d: \S*env \S*bare-python: lacks torch",
    }
    for number, option in enumerate(lacking):
        site = tmp_path / f"{number}.yaml"
        site.write_text(SITE + option + "\n")
        run = [*QUICK, fabric, "strategy=dsync"]
        submit(cluster, *run, flags=[f"--site={site}"], REPRO_RESULTS=str(tmp_path / str(number)))
    wait_until(lambda: queue_is_empty(cluster), "the jobs end")
    for number, reason in enumerate(lacking.values()):
        (run,) = runs_of(cluster, REPRO_RESULTS=str(tmp_path / str(number)))
        assert run["state"] == "failed" and re.search(reason, run["reason"]), run


# Two GPUs a node, of which Slurm alone knows; srun hands nothing on by itself.
GPUS = """\
partition: debug
gpus_per_node: 2
ranks_per_node: 1
interface: lo
time: 60
signal_seconds: 30
pack_minutes: 60
simulations: 2
before: [export SLURM_EXPORT_ENV=NONE]
"""


def test_from_submission_over_preemption_to_a_published_page(tmp_path, monkeypatch, without_mpi):
    """On nodes with GPUs: packed runs, one of them interrupted; a server without a GPU; simulated runs; the page."""
    results, long = tmp_path / "results", [*LONG[:3], "epochs=40", *LONG[4:], "breakdown_steps=0"]
    with running(tmp_path, GPUS, gpus=2) as cluster:
        submit(cluster, *long, "strategy=dsync", "seeds=1")  # runs of unknown duration have a job each
        wait_until(lambda: queue_is_empty(cluster), "the first seed has run")
        (packed,) = submit(cluster, *long, "strategy=dsync", "seeds=3")
        (array,) = packed["arrays"]
        assert [run["task"] for run in array["runs"]] == [0, 0] and array["messages"] == "NCCL"
        submit(cluster, *QUICK, "testbed=virtual", "strategy=dsync", "seeds=1", flags=["--simulated"])
        if not without_mpi:
            (served,) = submit(cluster, *QUICK, "breakdown_steps=0", "strategy=ps_sync")
            assert "host memory" in served["arrays"][0]["messages"]
        wait_until(lambda: evaluated_in(results, "dsync-slurm-seed1"), "the first run is under way")
        shown = cluster.run("scontrol", "show", "job", array["job"]).stdout
        assert "gres:gpu:1" in shown and "JobName=repro-pipesgd-fig4-mnist" in shown
        states = [run["state"] for run in runs_of(cluster) if run["path"].count("dsync-slurm")]
        assert sorted(states) == ["done", "pending", "running"]

        everything = ["--nodes=4", "--ntasks=4", "--exclusive", f"--output={tmp_path}/urgent.out"]
        assert cluster.run("sbatch", "--partition=urgent", *everything, "--wrap", "echo over").returncode == 0
        wait_until(lambda: (tmp_path / "urgent.out").exists(), "the urgent job has run")
        wait_until(lambda: queue_is_empty(cluster), "the jobs end")
        found = runs_of(cluster)
        assert [run["state"] for run in found] == ["done"] * (4 + (not without_mpi)), found
        assert sum(run["restarts"] for run in found if "dsync-slurm" in run["path"]) == 1
        repeated = repro(cluster, "submit", EXPERIMENT, *long, "strategy=dsync", "seeds=3")
        assert "nothing to submit" in repeated.stdout

        shutil.copytree(paths.reference_root(), tmp_path / "reference")  # on which a page's findings rest
        for module in (paths, catalogue, reference, published_verdicts):
            monkeypatch.setattr(module, "reference_root", lambda: tmp_path / "reference")
        monkeypatch.setattr(archive, "unclean", lambda runs: [])  # of a checkout with changes, as it may be here
        monkeypatch.setattr(
            publishing, "render_pages", lambda papers: build("pipesgd", tmp_path / "reference", tmp_path)
        )
        done = repro(cluster, "publish", "pipesgd")
        assert done.returncode == 0, done.stderr
    place = "slurm-debug-2xgpu-1x1cpu"
    published = reference.read("pipesgd", tmp_path / "reference")
    assert sum(record.hardware.class_ == place for record in published) == len(found)
    assert place in (tmp_path / "tables/pipesgd/others.csv").read_text() and (tmp_path / "pipesgd.md").exists()


def evaluated_in(results, name):
    return any('"evaluation"' in path.read_text() for path in Path(results).rglob(f"{name}-*/events.jsonl"))
