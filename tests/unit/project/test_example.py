"""examples/powersgd as its user has it: installed by pip, tested, and docs/paper.md run as written."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.support.cli import forked

PROJECT = Path(__file__).resolve().parents[3]
EXAMPLES = PROJECT / "examples"
PAGE = PROJECT / "docs" / "paper.md"
OWN_TESTS = "pytest -q -p no:cacheprovider ./examples/powersgd\n"

pytestmark = pytest.mark.skipif(not EXAMPLES.is_dir(), reason="not a checkout")


def test_the_walk_through_runs_as_written_and_so_do_the_examples_tests(tmp_path):
    """In a folder outside of the checkout; pip installs into a folder of the test, without a network."""
    shutil.copytree(
        EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    )
    installed = tmp_path / "installed"
    surroundings = os.environ | {
        "PYTHONPATH": f"{PROJECT}:{installed}",
        "PIP_TARGET": str(installed),
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip's way to say that there is none
        "REPRO_RESULTS": str(tmp_path / "results"),
    }
    lines = "".join(re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)) + OWN_TESTS
    for line in filter(None, lines.splitlines()):
        module, *arguments = shlex.split(line, comments=True)
        done = forked(module, *arguments, environment=surroundings, folder=tmp_path)
        assert done.returncode == 0, line + done.stdout[-3000:] + done.stderr[-3000:]
    assert (installed / "repro_powersgd" / "reports" / "powersgd" / "claims.yaml").is_file()
    page = (tmp_path / "results" / "pages" / "powersgd.md").read_text()
    assert (
        "# PowerSGD: reproduction report" in page and "a step of ResNet-18 is 1." in page and "not run yet" not in page
    )
