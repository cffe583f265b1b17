"""The experiments run, and the page judges the claims by their results."""

from pathlib import Path

import NAME

from repro.answers.pages.build import build
from repro.cli.headlines import judge_headlines
from repro.cli.main import main


def test_its_page_is_built_from_its_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_CONFIGS", str(Path(NAME.__file__).parent))
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    assert main(["run", "NAME", "--draws", "4", "--no-report"]) == 0
    assert main(["run", "NAME", "--no-report", "--no-mlflow"]) == 0
    build("NAME", out=tmp_path / "pages")
    page = (tmp_path / "pages" / "NAME.md").read_text()
    assert "No results yet" not in page
    assert not [each.command for each in judge_headlines("NAME") if not each.mine], "a claim has no run"
