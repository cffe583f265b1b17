"""Where a run's files go: to the tracking server itself, or below the results folder.

MLflow puts them where the database or the server says (`artifact_uri`), and both may be somebody else's: a file system,
a bucket or a host that the user never named. So only the places that follow from the tracking URI are used.
"""

from __future__ import annotations

import tempfile
import urllib.parse
from pathlib import Path
from typing import Any

from repro.answers.mlflow.source import Source
from repro.core import safe_files
from repro.core.paths import MLFLOW_FILES
from repro.core.terminal import warn


def is_http(uri: str) -> bool:
    """Whether the tracking store is a server, which takes files over HTTP."""
    return uri.startswith(("http://", "https://"))


def location_for(uri: str, root: Path, experiment: str) -> str | None:
    """The URI of the files of a new MLflow experiment; None: a server chooses it.

    uri: of the tracking store; root: the results folder. InputError for a name that leads elsewhere, or for a link.
    """
    return None if is_http(uri) else _folder_of(root, experiment).as_uri()


def send_files(store: Any, experiment: str, info: Any, source: Source) -> None:
    """Send a run's files to the artifacts of its MLflow run; warn if their place is none of ours.

    store: a `Store`; experiment: the name of the run's experiment; info: MLflow's, of the run.
    """
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    place = info.artifact_uri
    if is_http(store.uri):
        allowed = _is_on_server(place)
        where, remedy = f"{MLFLOW_FILES}:/PATH", "start the server with --serve-artifacts"
    else:
        target = _folder_of(store.root, experiment) / safe_files.check_plain("MLflow run", info.run_id) / "artifacts"
        if allowed := place == target.as_uri():
            safe_files.make_folder(target)
            safe_files.check_tree(target)
        where, remedy = str(store.root.resolve() / MLFLOW_FILES), "`repro track sync` sends all to a new database"
    if not allowed:
        warn(f"MLflow ({store.name}) wants files of runs outside of {where}: they are not sent; {remedy}")
        return
    with tempfile.TemporaryDirectory() as folder:
        source.copy_files(Path(folder))
        get_artifact_repository(place, tracking_uri=store.uri).log_artifacts(folder)


def _folder_of(root: Path, experiment: str) -> Path:
    for part in experiment.split("/"):
        safe_files.check_plain("MLflow experiment: paper, experiment or kind", part)
    folder = root.resolve() / MLFLOW_FILES / experiment
    safe_files.check_links(folder)
    return folder


def _is_on_server(place: str) -> bool:
    """Whether the tracking server itself takes the files, below the path of its artifacts."""
    parts = urllib.parse.urlsplit(place)
    below = urllib.parse.unquote(parts.path).strip("/").split("/")
    return parts.scheme == MLFLOW_FILES and not (parts.netloc or parts.query) and all(map(safe_files.is_plain, below))
