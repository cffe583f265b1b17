"""A workspace with an MLflow database of its own."""

import shutil

import pytest

from repro.answers.mlflow import open_store, tracking_uri


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """A migrated database; copying it is ten times as fast as creating one."""
    root = tmp_path_factory.mktemp("template")
    open_store(tracking_uri(None, root), root)
    return root / "mlflow.db"


@pytest.fixture
def root(tmp_path, template, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    shutil.copy(template, tmp_path / "mlflow.db")
    return tmp_path


@pytest.fixture
def folder(root):
    return root / "pipesgd" / "fig4-mnist" / "pipe-sgd-t-s3"
