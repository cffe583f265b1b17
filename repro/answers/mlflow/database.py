"""MLflow's SQLite file: made and migrated in memory, then written whole, since MLflow itself can neither complete nor
read a file whose making was interrupted."""

from __future__ import annotations

import sqlite3
import warnings
from contextlib import closing
from pathlib import Path

from repro.core import atomic
from repro.core.errors import InputError
from repro.core.not_none import not_none

# errors of SQLite that do not pass: of the tables, the content, the rights
LASTING = (
    *(sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB),
    *(sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN),
)
PRIMARY = 0xFF  # the bits of an error's code without its details


def make_current(path: Path, wait_s: float) -> None:
    """Make the database if there is none, or bring it to this version of MLflow; for one process at a time.

    wait_s: limit for other processes to end a transaction. InputError if the file is no database of this MLflow.
    """
    import mlflow.store.db.utils as of_mlflow
    from sqlalchemy import create_engine
    from sqlalchemy.pool import StaticPool

    try:
        with closing(sqlite3.connect(path, wait_s)) as stored:
            version = schema_version(stored)  # the first read undoes what a killed process left in a journal
            if version == of_mlflow._get_latest_schema_revision():
                return
            engine = create_engine("sqlite://", poolclass=StaticPool)  # one connection, so one database
            memory = not_none(engine.raw_connection().driver_connection)
            stored.backup(memory)
        with warnings.catch_warnings(action="ignore"):  # of MLflow's own migrations
            of_mlflow._upgrade_db(engine) if version else of_mlflow._initialize_tables(engine)
        atomic.write_atomically(path.resolve(), memory.serialize())
        engine.dispose()
    except Exception as error:  # of SQLite, or of the libraries that MLflow migrates with
        raise refuse_unusable(error, path) or error from None


def schema_version(stored: sqlite3.Connection) -> str | None:
    """None for a file without MLflow's tables."""
    if not stored.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone():
        return None
    row = stored.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(row[0]) if row else None


def refuse_unusable(error: BaseException, path: Path) -> InputError | None:
    """The refusal of a database that makes each command fail with this error; None for an error of another cause."""
    cause: BaseException | None = error
    while cause and not isinstance(cause, sqlite3.Error):
        cause = cause.__cause__ or cause.__context__
    if getattr(cause, "sqlite_errorcode", 0) & PRIMARY not in LASTING and not is_of_migration(error):
        return None
    line = str(cause or error).splitlines()[0]
    return InputError(f"{path}: not a whole database of this MLflow version ({line}); move it away")


def is_of_migration(error: BaseException) -> bool:
    """As of a database whose version this MLflow does not know."""
    return type(error).__module__.startswith("alembic.")
