"""The tracking store of MLflow: URI, client with time limits, errors. MLflow is imported late."""

from __future__ import annotations

import logging
import os
import re
import urllib.parse
from importlib import metadata
from pathlib import Path
from typing import Any

from repro.answers.mlflow import database
from repro.answers.mlflow.artifacts import location_for
from repro.answers.mlflow.server_responses import MOST_BYTES, MOST_S, REDIRECTED, TOO_LONG, limit_responses
from repro.core import locks, safe_files
from repro.core.errors import FaultError, InputError, ReproError
from repro.core.paths import MLFLOW_DATABASE, MLFLOW_LOCK, results_root

# tag of an experiment; without it the UI opens its page for language models
KIND_OF_PAGE, TRAINING = "mlflow.experimentKind", "custom_model_development"
NOTE = "mlflow.note.content"  # the description of a run or an experiment in the UI
REQUEST_S = 15  # limit of a server's response
LOCK_S = 15.0  # limit for other processes to create or migrate the SQLite file
# known to MLflow; plugins add others; a scheme may name a driver, as in mysql+pymysql
SCHEMES = ("http", "https", "sqlite", "postgresql", "mysql", "mssql", "databricks", "databricks-uc", "uc", "file")


class Store:
    """A tracking store; `client` (an MlflowClient) is opened at its first use, with MLflow's own errors."""

    def __init__(self, uri: str | None = None, root: Path | None = None):
        """uri: see `tracking_uri`; root: the results folder. InputError for an invalid URI."""
        self.root = root or results_root()
        self.uri = tracking_uri(uri, self.root)
        self._client: Any = None
        self._experiments: dict[str, str] = {}  # name -> MLflow's id
        self.parents: dict[tuple[str, str], str] = {}  # experiment and variant -> id of the variant's run
        self.sent: dict[str, set[Any]] = {}  # id of a run that goes on -> the points that this process sent

    @property
    def client(self) -> Any:
        self._client = self._client or open_store(self.uri, self.root)
        return self._client

    def experiment(self, name: str, tags: dict[str, str]) -> str:
        """MLflow's id of the experiment of this name; created with these tags, or restored if it was deleted."""
        from mlflow.exceptions import MlflowException

        if name in self._experiments:
            return self._experiments[name]
        experiment = self.client.get_experiment_by_name(name)
        if not experiment:
            location = location_for(self.uri, self.root, name)
            try:
                self.client.create_experiment(name, location, {KIND_OF_PAGE: TRAINING} | tags)
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":  # created by another command
                    raise
            experiment = self.client.get_experiment_by_name(name)
        if experiment.lifecycle_stage != "active":
            self.client.restore_experiment(experiment.experiment_id)
        self._experiments[name] = experiment.experiment_id
        return self._experiments[name]

    @property
    def is_server(self) -> bool:
        return is_server(self.uri)

    @property
    def name(self) -> str:
        """The URI without credentials."""
        return public(self.uri)

    def refusal(self, error: Exception) -> ReproError | None:
        """The error's own line for the user: it is ours, or of a database file that no command can use; else None."""
        if isinstance(error, ReproError):
            return error
        return database.refuse_unusable(error, database_file(self.uri)) if is_sqlite(self.uri) else None


def tracking_uri(uri: str | None = None, root: Path | None = None) -> str:
    """`uri`, else $MLFLOW_TRACKING_URI, else the SQLite file `mlflow.db` in the results folder.

    InputError for an unknown scheme, a missing host or folder, or an invalid port.
    """
    uri = uri or os.environ.get("MLFLOW_TRACKING_URI")
    if not uri:
        path = str((root or results_root()).resolve() / MLFLOW_DATABASE)
        # SQLAlchemy ends a path at ? and decodes nothing, so a path with ? needs SQLite's own URI; with the scheme
        # sqlite:/// MLflow would create a folder of that name
        return f"sqlite+pysqlite:///file:{urllib.parse.quote(path)}?uri=true" if "?" in path else f"sqlite:///{path}"
    if wrong := _wrong(uri):
        raise InputError(
            f"MLFLOW_TRACKING_URI={public(uri)}: {wrong}; it is the address of a server, as http://HOST:5000, "
            "or of a file, as sqlite:////FOLDER/mlflow.db"
        )
    return uri


def _wrong(uri: str) -> str | None:
    """The error in a URI, or None."""
    if uri.startswith("/") or uri == "databricks":
        return None
    scheme, colon, _ = uri.partition(":")
    known = scheme.partition("+")[0] in SCHEMES or scheme in _plugins()
    if not colon or not known:
        return f"unknown scheme '{scheme}'" if colon and "//" in uri else "no scheme"
    if any(character.isspace() for character in uri):
        return "a space in it"
    if is_sqlite(uri) and not (folder := database_file(uri).parent).is_dir():
        return f"there is no folder {folder}"
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
    """The file of a SQLite database, by its URI."""
    path = uri.partition(":///")[2]
    named, _, options = path.partition("?")
    return Path(urllib.parse.unquote(named.removeprefix("file:")) if "uri=true" in options else path)


def prepare() -> None:
    """Import MLflow, which takes seconds and uses no network."""
    for name, value in {
        "MLFLOW_DISABLE_TELEMETRY": "true",  # read on import, else it looks up a host
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # which may be JSON
        # by default MLflow retries for minutes
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": str(REQUEST_S),
        "MLFLOW_ENABLE_PROXY_MULTIPART_UPLOAD": "false",  # to addresses that the server names
    }.items():
        os.environ.setdefault(name, value)
    limit_responses()
    import mlflow.entities
    import mlflow.store.db.utils  # noqa: F401 - imported for later

    for name in ("mlflow", "alembic"):  # they log each table that they create
        logging.getLogger(name).setLevel(logging.WARNING)


def open_store(uri: str, root: Path) -> Any:
    """An MlflowClient; makes the SQLite file, or migrates it to this version of MLflow.

    FaultError if others hold the lock of the SQLite file for too long; InputError if the file cannot be used; other
    errors are MLflow's.
    """
    prepare()
    from mlflow import MlflowClient

    if not is_sqlite(uri):
        return MlflowClient(uri)
    root.mkdir(parents=True, exist_ok=True)
    safe_files.check_links(root / MLFLOW_DATABASE)
    # processes that make the same database at once would each replace that of the other
    path = root / MLFLOW_LOCK
    if (lock := locks.take_lock(path, wait_s=LOCK_S)) is None:
        raise FaultError(f"{path} is held by {locks.lock_users(path)}, not free within {LOCK_S:g} s")
    with lock:
        if (file := database_file(uri)).name:  # else in memory
            database.make_current(file, LOCK_S)
        client = MlflowClient(uri)
        client.search_experiments(max_results=1)  # the first call connects
        return client


def public(text: str) -> str:
    """The text without user names and passwords of URIs; a password may contain a slash or an @."""
    return re.sub(r"//\S*@", "//", text)


def reason(error: BaseException) -> str:
    """An error of MLflow in a few words, without credentials."""
    text = str(error)
    for pattern, words in {
        TOO_LONG: f"its response is longer than {MOST_BYTES >> 20} MiB or {MOST_S:g} s",
        REDIRECTED: "it redirects to another address; name that in MLFLOW_TRACKING_URI",
        "Read timed out": f"no answer within {os.environ.get('MLFLOW_HTTP_REQUEST_TIMEOUT', REQUEST_S)} s",
        "timed out": "no connection in time",
        "RemoteDisconnected": "it broke off the connection",
    }.items():
        if re.search(pattern, text):
            return words
    if system := re.search(r"\[Errno -?\d+\] ([\w ]+)", text):  # as connection refused
        return system[1].lower()
    lines = text.strip().splitlines()
    return public(lines[0])[:200] if lines else type(error).__name__
