"""A preempted task of a job array is requeued alone, also the last one, whose job id is the array's."""

from __future__ import annotations

import os
import subprocess

import pytest

from repro.core.errors import PREEMPTED
from repro.launch.slurm import site, submit

ARRAY, OTHER = "7", "8"
# as Slurm 22.05 answers: the id of the array names all of its tasks
SQUEUE = f"[[ $* == *--jobs={ARRAY}\\ * || $* == *--jobs={ARRAY} ]] && echo RUNNING\necho RUNNING"


@pytest.mark.parametrize(("task", "job"), [("0", OTHER), ("1", ARRAY)])
def test_a_preempted_task_is_requeued_by_its_number(tmp_path, monkeypatch, task, job):
    programs = {
        "squeue": SQUEUE,
        "scontrol": f'echo "$@" > {tmp_path}/asked',
        "sleep": ":",
        "python": f"exit {PREEMPTED}",
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "site.yaml").write_text(f"python: {tmp_path}/python\n")
    monkeypatch.setenv("REPRO_SITE", str(tmp_path / "site.yaml"))
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    runs, _ = submit.find_runs("pipesgd/fig4-mnist", ["dataset.standin=always", "strategy=dsync,pipe_sgd"], "quick")
    ((_, packs, text),) = submit.array_scripts(runs, site.load_site(), tmp_path, False)
    for run in submit.flatten_packs(packs):
        run.folder.mkdir(parents=True)
    slurm = {"SLURM_JOB_ID": job, "SLURM_ARRAY_JOB_ID": ARRAY, "SLURM_ARRAY_TASK_ID": task, "SLURM_JOB_NODELIST": "a"}
    surroundings = os.environ | slurm | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash"], input=text, text=True, capture_output=True, env=surroundings)
    assert done.returncode == PREEMPTED, done.stderr
    assert (tmp_path / "asked").read_text().split() == ["requeue", f"{ARRAY}_{task}"]
