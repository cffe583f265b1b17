"""Where MLflow keeps runs: the tracking URI, its check, and a client with time limits. MLflow is imported late."""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import urllib.parse
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from repro.core import locks, safe_files
from repro.core.errors import FaultError, InputError
from repro.core.paths import results_root

DATABASE = "mlflow.db"  # in the results folder
# of an experiment; without it the UI greets with its page for language-model projects
KIND_OF_PAGE, TRAINING = "mlflow.experimentKind", "custom_model_development"
NOTE = "mlflow.note.content"  # the tag that the UI shows as the description of a run or an experiment
REQUEST_S = 15  # that a server may be silent
LOCK_S = 15.0  # that others may take to make or migrate the SQLite file
# What MLflow knows; others come with plugins. A scheme may name a driver, as in mysql+pymysql.
SCHEMES = ("http", "https", "sqlite", "postgresql", "mysql", "mssql", "databricks", "databricks-uc", "uc", "file")


class Store:
    """One tracking store; `client` (an MlflowClient) is opened when it is first asked for, with MLflow's own errors."""

    def __init__(self, uri: str | None = None, root: Path | None = None):
        """uri: see `tracking_uri`; root: the results folder. InputError for a URI that can be none."""
        self.root = root or results_root()
        self.uri = tracking_uri(uri, self.root)
        self._client: Any = None
        self.made: set[str] = set()  # ids of experiments in which only this store makes runs yet, each once

    @property
    def client(self) -> Any:
        self._client = self._client or open_store(self.uri, self.root)
        return self._client

    def experiment(self, name: str, note: str) -> Any:
        """The MLflow experiment of that name; where there is none it is made, or taken out of the bin, with a note."""
        from mlflow.exceptions import MlflowException

        found = self.client.get_experiment_by_name(name)
        if found and found.lifecycle_stage == "active":
            return found
        if not found:
            # A server has its own place for files; a file needs one, absolute, or it follows the current folder.
            for part in name.split("/"):
                safe_files.checked("MLflow experiment: paper, experiment or kind", part)
            safe_files.check(self.root / "mlflow-artifacts" / name)
            place = (self.root / "mlflow-artifacts" / name).resolve().as_uri()
            try:
                location = None if self.is_server else place
                self.made.add(self.client.create_experiment(name, location, {KIND_OF_PAGE: TRAINING}))
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":  # by another command, meanwhile
                    raise
            found = self.client.get_experiment_by_name(name)
        if found.lifecycle_stage != "active":
            self.client.restore_experiment(found.experiment_id)
        self.client.set_experiment_tag(found.experiment_id, NOTE, note)
        return found

    def put_files(self, place: str, folder: str) -> None:
        """The files of a folder into a run's place for files (`artifact_uri`), for which MLflow's client would ask."""
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        get_artifact_repository(place, tracking_uri=self.uri).log_artifacts(folder)

    @property
    def is_server(self) -> bool:
        return is_server(self.uri)

    @property
    def name(self) -> str:
        """The URI, as it may be printed."""
        return public(self.uri)


def tracking_uri(uri: str | None = None, root: Path | None = None) -> str:
    """`uri`, else $MLFLOW_TRACKING_URI, else the SQLite file `mlflow.db` in the results folder.

    InputError for one that MLflow could do nothing with: a scheme that it does not know, no host, no number as port.
    """
    given = uri or os.environ.get("MLFLOW_TRACKING_URI")
    if not given:
        path = str((root or results_root()).resolve() / DATABASE)
        # SQLAlchemy takes a ? for the end of the path and decodes nothing; SQLite's own URIs are decoded. Of sqlite:///
        # MLflow makes the parent folder by itself, and would make one that is named as the URI.
        return f"sqlite+pysqlite:///file:{urllib.parse.quote(path)}?uri=true" if "?" in path else f"sqlite:///{path}"
    if wrong := _wrong(given):
        raise InputError(
            f"MLFLOW_TRACKING_URI={public(given)}: {wrong}; it is the address of a server, as http://HOST:5000, "
            "or of a file, as sqlite:////FOLDER/mlflow.db"
        )
    return given


def _wrong(uri: str) -> str | None:
    """What is wrong with a URI, or None."""
    if uri.startswith("/") or uri == "databricks":
        return None
    scheme, colon, _ = uri.partition(":")
    known = scheme.partition("+")[0] in SCHEMES or scheme in _plugins()
    if not colon or not known:
        return f"unknown scheme '{scheme}'" if colon and "//" in uri else "no scheme"
    if any(character.isspace() for character in uri):
        return "a space in it"
    if scheme in ("http", "https"):
        try:
            parts = urllib.parse.urlsplit(uri)
            if not parts.hostname:
                return "no host"
            if parts.port == 0:
                return "no port 0"
        except ValueError as error:
            return str(error)
    return None


def _plugins() -> set[str]:
    return {entry.name for entry in metadata.entry_points(group="mlflow.tracking_store")}


def is_server(uri: str) -> bool:
    return not (is_sqlite(uri) or uri.startswith(("file:", "/")))


def is_sqlite(uri: str) -> bool:
    return uri.partition(":")[0].partition("+")[0] == "sqlite"


def database_file(uri: str) -> Path:
    """The file of a SQLite database by its URI."""
    path = uri.partition(":///")[2]
    named, _, options = path.partition("?")
    return Path(urllib.parse.unquote(named.removeprefix("file:")) if "uri=true" in options else path)


def prepare() -> None:
    """Import MLflow: some seconds of computation, and nothing of a network."""
    for name, value in {
        "MLFLOW_DISABLE_TELEMETRY": "true",  # read on import, which looks up a host otherwise
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # which may be somebody's --json
        # By default a server that is down is asked for some minutes.
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": str(REQUEST_S),
    }.items():
        os.environ.setdefault(name, value)
    import mlflow.entities
    import mlflow.store.db.utils  # noqa: F401 - all that is needed later

    for name in ("mlflow", "alembic"):  # they tell of each table that they make
        logging.getLogger(name).setLevel(logging.WARNING)


def open_store(uri: str, root: Path) -> Any:
    """An MlflowClient, the SQLite file made, or brought to this MLflow's schema.

    FaultError where others hold the SQLite file's lock for too long, and where it is no such file; other errors are
    MLflow's own.
    """
    prepare()
    import mlflow.store.db.utils as database
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    if not is_sqlite(uri):
        return MlflowClient(uri)
    root.mkdir(parents=True, exist_ok=True)
    safe_files.check(root / DATABASE)
    # Several processes that make the same new database at once destroy it for one another.
    path = root / "mlflow.lock"
    if (lock := locks.take(path, wait_s=LOCK_S)) is None:
        raise FaultError(f"{path} is held by {locks.users(path)}, not free within {LOCK_S:g} s")
    with lock:
        _check_file(uri)
        try:
            return _opened(MlflowClient(uri))
        except MlflowException as error:
            if "out-of-date" not in str(error):
                raise
            database._upgrade_db(database.create_sqlalchemy_engine_with_retry(uri))
            return _opened(MlflowClient(uri))


def _check_file(uri: str) -> None:
    """FaultError for a SQLite file that cannot be one, which MLflow would try again for 150 s."""
    from sqlalchemy.engine import make_url

    path = make_url(uri).database
    try:
        with closing(sqlite3.connect(path or ":memory:", LOCK_S, uri="uri=true" in uri)) as database:
            database.execute("PRAGMA schema_version")
    except sqlite3.Error as error:
        raise FaultError(f"{path}: no database of MLflow's ({error}); move it away") from None


@contextmanager
def hurried() -> Iterator[None]:
    """New connections to a SQLite file do not wait for the disk, for which MLflow asks some eight times a run: what a
    machine that dies meanwhile may cost is mirrored again from the runs."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    def hurry(connection: Any, _: Any) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous=OFF")

    event.listen(Engine, "connect", hurry)
    try:
        yield
    finally:
        event.remove(Engine, "connect", hurry)


def _opened(client: Any) -> Any:
    client.search_experiments(max_results=1)  # the first call is the one that connects
    return client


def public(text: str) -> str:
    """The text without the names and passwords that may stand in URIs. A password may itself hold a slash or an @."""
    return re.sub(r"//\S*@", "//", text)


def reason(error: BaseException) -> str:
    """An error of MLflow in a few words, without credentials. Its own text begins with the request and is long."""
    text = str(error)
    for sign, words in {
        "Connection refused": "connection refused",
        "Read timed out": f"no answer within {os.environ.get('MLFLOW_HTTP_REQUEST_TIMEOUT', REQUEST_S)} s",
        "timed out": "no connection in time",
        "NameResolutionError": "its host is unknown",
        "Name or service not known": "its host is unknown",
        "Connection reset": "it broke off the connection",
        "RemoteDisconnected": "it broke off the connection",
        "Connection aborted": "it broke off the connection",
        "Network is unreachable": "network is unreachable",
        "No route to host": "no route to its host",
    }.items():
        if sign in text:
            return words
    lines = text.strip().splitlines()
    return public(lines[0])[:200] if lines else type(error).__name__
