"""Where a run's files go: to the tracking server itself, or below the results folder.

MLflow puts them where the database or the server says (`artifact_uri`), and both may be somebody else's: a file system,
a bucket or a host that the user never named. So only the places that follow from the tracking URI are used.
"""

from __future__ import annotations

import shutil
import urllib.parse
from pathlib import Path
from typing import Any

from repro.core import safe_files
from repro.core.warnings import warn

FOLDER = "mlflow-artifacts"  # in the results folder; also the scheme of places on a server


def is_http(uri: str) -> bool:
    """Whether the tracking store is a server, which takes files over HTTP."""
    return uri.startswith(("http://", "https://"))


def location_for(uri: str, root: Path, experiment: str) -> str | None:
    """The URI of the files of a new MLflow experiment; None: a server chooses it.

    uri: of the tracking store; root: the results folder. InputError for a name that leads elsewhere, or for a link.
    """
    return None if is_http(uri) else _folder_of(root, experiment).as_uri()


def put_files(store: Any, experiment: str, run: Any, folder: Path) -> None:
    """Copy a folder's files to the artifacts of MLflow's run; warn if its place is none of ours.

    store: a `Store`; experiment: the name of the run's experiment; run: MLflow's `info` of it.
    """
    place = run.artifact_uri
    if is_http(store.uri):
        if _is_on_server(place):
            from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

            get_artifact_repository(place, tracking_uri=store.uri).log_artifacts(str(folder))
            return
        ours, remedy = f"{FOLDER}:/PATH", "start the server with --serve-artifacts"
    else:
        target = _folder_of(store.root, experiment) / safe_files.checked("MLflow run", run.run_id) / "artifacts"
        if place == target.as_uri():
            safe_files.make_folder(target)
            for path in folder.iterdir():
                with open(path, "rb") as file, safe_files.open_file(target / path.name, "wb") as copy:
                    shutil.copyfileobj(file, copy)
            return
        ours, remedy = str(store.root.resolve() / FOLDER), "`repro track sync` sends all to a new database"
    warn(f"MLflow ({store.name}) wants files of runs outside of {ours}: they are not sent; {remedy}")


def _folder_of(root: Path, experiment: str) -> Path:
    for part in experiment.split("/"):
        safe_files.checked("MLflow experiment: paper, experiment or kind", part)
    folder = root.resolve() / FOLDER / experiment
    safe_files.check(folder)
    return folder


def _is_on_server(place: str) -> bool:
    """Whether the tracking server itself takes the files, below the path of its artifacts."""
    parts = urllib.parse.urlsplit(place)
    below = urllib.parse.unquote(parts.path).strip("/").split("/")
    return parts.scheme == FOLDER and not (parts.netloc or parts.query) and all(map(safe_files.is_plain, below))
