"""The example notebook runs, and shows what a notebook's user expects."""

from __future__ import annotations

import nbclient
import nbformat
import pytest

from repro.core.paths import PROJECT

NOTEBOOK = PROJECT / "examples" / "first_plot.ipynb"


@pytest.mark.skipif(not NOTEBOOK.is_file(), reason="not a checkout")
def test_the_example_notebook_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")  # else jupyter_core warns
    notebook = nbclient.NotebookClient(nbformat.read(NOTEBOOK, 4), timeout=300, kernel_name="python3").execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    shown = [output["data"] for output in outputs if "data" in output]
    assert any("image/png" in data for data in shown)
    (records,) = [data["text/html"] for data in shown if "pipe_sgd" in data.get("text/html", "")]
    assert records.count("<tr") == 1 + 4  # two strategies, two seeds
    assert "\r" in "".join(output["text"] for output in outputs if output.get("name") == "stderr")  # a bar, no lines
