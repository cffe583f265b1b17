"""A site file of the test's own, and runs of an experiment that would go to that cluster."""

import pytest

from repro.launch.slurm import site


@pytest.fixture
def options(tmp_path, monkeypatch):
    """Write a site file; returns its options."""

    def write(text=""):
        path = tmp_path / "site.yaml"
        path.write_text(text)
        monkeypatch.setenv("REPRO_SITE", str(path))
        return site.load_site()

    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    write()
    return write
