"""examples/powersgd as its user has it: installed by pip, tested, and docs/paper.md run as written."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import LIMIT_S

PROJECT = Path(__file__).resolve().parents[3]
EXAMPLES = PROJECT / "examples"
PAGE = PROJECT / "docs" / "paper.md"
OWN_TESTS = "python -m pytest -q -p no:cacheprovider ./examples/powersgd\n"

pytestmark = pytest.mark.skipif(not EXAMPLES.is_dir(), reason="not a checkout")


def test_the_walk_through_runs_as_written_and_so_do_the_examples_tests(tmp_path):
    """In a folder outside of the checkout; pip installs into a folder of the test, without a network."""
    shutil.copytree(
        EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    )
    programs, installed = tmp_path / "programs", tmp_path / "installed"
    programs.mkdir()
    for name, module in (("repro", "-m repro"), ("pip", "-m pip"), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {module} "$@"\n')
        (programs / name).chmod(0o755)
    surroundings = os.environ | {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": f"{PROJECT}:{installed}",
        "PIP_TARGET": str(installed),
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip's way to say that there is none
        "REPRO_RESULTS": str(tmp_path / "results"),
    }
    lines = "".join(re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)) + OWN_TESTS
    done = subprocess.run(
        ["sh", "-ec", lines], cwd=tmp_path, env=surroundings, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert (installed / "repro_powersgd" / "reports" / "powersgd" / "claims.yaml").is_file()
    page = (tmp_path / "results" / "pages" / "powersgd.md").read_text()
    assert "# PowerSGD, reproduced" in page and "a step of ResNet-18 is 1." in page and "not run yet" not in page
