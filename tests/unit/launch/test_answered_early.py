"""Wrong values are answered before PyTorch is imported, which takes seconds."""

from __future__ import annotations

import subprocess
import sys

from tests.support.cli import EXPERIMENT

CASES = {
    "strategy.codec=fp8": "strategy.codec",
    "testbed.ranks=0": "1 or more",
    "batch=101": "100, 104",
    "workers=3": "99, 102",
    "seeds=0": "1 or more",
    "seeds=1,1": "occurs twice",
    "seeds=a": "a whole number",
    "optimizer.lr=abc": "a number",
    "optimizer.name=adam": "adamw",
}


def test_what_needs_no_plugin_s_code_is_answered_without_it(tmp_path):
    code = f"""import sys; from repro.cli.main import main
for override in {list(CASES)}:
    assert main(["run", {EXPERIMENT!r}, override]) == 2
print("torch" in sys.modules, "repro.launch.plan_process" in sys.modules)"""
    surroundings = {"REPRO_RESULTS": str(tmp_path), "PATH": ""}  # no helper process either
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=surroundings)
    assert done.stdout.split() == ["False", "False"], done.stderr
    lines = done.stderr.splitlines()
    for line, (override, allowed) in zip(lines, CASES.items(), strict=True):
        assert override.partition("=")[0].partition(".")[0] in line and allowed in line, line
