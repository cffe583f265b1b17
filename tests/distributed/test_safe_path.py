"""No process of a command imports modules from the folder in which the command was started."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from repro.core.paths import PROJECT
from tests.support.cli import EXPERIMENT, QUICK
from tests.support.own_files import WAYS
from tests.support.waiting import LIMIT_S

PLANTED = "import pathlib\npathlib.Path(__file__).with_name('imported').write_text(__name__)\n"
NAMES = {
    *sys.stdlib_module_names,
    *("repro", "torch", "numpy", "mpi4py", "yaml", "pydantic", "hydra", "pandas", "psutil"),
}
BOTH = ["testbed=here", "testbed.launcher=mpirun,torchrun"]  # one command has runs with both, and starts once


@pytest.mark.ranks
@pytest.mark.parametrize("ranks", [[], ["--fresh-ranks"]], ids=["forked", "fresh"])
def test_a_run_imports_nothing_from_the_current_folder_but_what_the_user_names(tmp_path, ranks):
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(PLANTED)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "my_ways.py").write_text(WAYS)
    # -P as the command `repro` starts, whose folder is that of its script
    chosen = [EXPERIMENT, *QUICK, "workers=1", *BOTH, *ranks]
    command = [sys.executable, "-P", "-m", "repro", "run", *chosen, "--no-report"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    environment |= {"REPRO_RESULTS": str(tmp_path / "results"), "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(
        [*command, "strategy=code/my_ways.py:Mine", "--no-mlflow"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert not (tmp_path / "imported").exists(), (tmp_path / "imported").read_text()
    assert done.returncode == 0, done.stderr
    made = {json.loads(path.read_text())["fabric"] for path in tmp_path.glob("results/*/*/*/summary.json")}
    assert made == {"mpi", "torch"}
