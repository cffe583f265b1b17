"""Renders the job script of an array from `job.sbatch.j2`."""

from __future__ import annotations

import hashlib
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from repro.core.errors import PREEMPTED, InputError
from repro.core.paths import PROJECT, results_root
from repro.experiment.launched import launch_digest
from repro.experiment.run import Run
from repro.launch.slurm import site as sites
from repro.launch.slurm.resources import Resources
from repro.records.provenance import command

TEMPLATE = Path(__file__).with_name("job.sbatch.j2")


def _on_one_line(value: Any) -> Any:
    """The value; InputError if it has a control character, since a line break would start a line of sbatch or bash."""
    if not str(value).isprintable():
        raise InputError(f"job script: {str(value)!r} has a line break or another control character")
    return value


def _described(run: Run, root: Path) -> dict[str, str]:
    path = str(run.folder.relative_to(root))
    return {"path": path, "label": run.label, "launched": f"{path}={launch_digest(run)}"}


def render_script(
    packs: Sequence[Sequence[Run]], needed: Resources, site: sites.Site, folder: Path, mlflow: bool = False
) -> str:
    """The script of one array, whose task n executes the runs of pack n.

    folder: absolute path of the submission, for the tasks' output and the copy of the site file. InputError for a
    name, path, option or command with a control character.
    """
    import jinja2

    environment = jinja2.Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        finalize=_on_one_line,
    )
    root, experiment = results_root(), packs[0][0].experiment
    options: dict[str, str | None] = {
        **dict([needed.gpus] if needed.gpus else []),
        "mem": site.mem,
        "mem-per-gpu": site.mem_per_gpu,
        "constraint": site.constraint,
        "partition": site.partition,
        "account": site.account,
        "qos": site.qos,
        "time": site.time,
    }
    return environment.from_string(
        TEMPLATE.read_text(encoding="utf-8")
    ).render(
        experiment=experiment,
        job_name=re.sub(r"[^\w.-]+", "-", f"repro-{experiment}"),  # some tools use it as a file name
        packs=[[_described(run, root) for run in pack] for pack in packs],
        runs=sum(map(len, packs)),
        needed=needed,
        options=[(name, value) for name, value in options.items() if value],
        site=site,
        site_file=sites.site_path(),
        site_copy=str(folder / "site.yaml"),
        site_digest=hashlib.sha256(_on_one_line(sites.site_path()).read_bytes()).hexdigest(),
        # Slurm expands percent signs in the name of the output
        output=shlex.quote(str(folder).replace("%", "%%") + "/%A_%a.log"),
        project=str(PROJECT),
        python=site.python or sys.executable,
        results=str(root),
        command=command(["repro", *sys.argv[1:]]),
        preempted=PREEMPTED,
        mlflow=mlflow,
        quote=shlex.quote,
    )
