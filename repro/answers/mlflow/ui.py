"""`repro ui`: serve the mirror with MLflow's web server on this machine until the command ends."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator
from pathlib import Path

from repro.answers.mlflow.format import experiment_name
from repro.answers.mlflow.store import Store, database_file, is_server, is_sqlite, open_store, public, tracking_uri
from repro.answers.mlflow.view import page
from repro.core.errors import FaultError, InputError
from repro.core.paths import results_root
from repro.core.processes import end_with_parent, safe_environment
from repro.records.record import Record

HOST, PORT = "127.0.0.1", 5000
START_LIMIT_S = 120.0  # 7 s on an idle machine
STOP_LIMIT_S = 10.0


def where(records: Collection[Record]) -> str:
    """Where MLflow shows these runs: the address of the server, or `repro ui` and, if they belong to one MLflow
    experiment, the address of its page."""
    try:
        if is_server(uri := tracking_uri()):
            return public(uri)
        ids = {each.name: each.experiment_id for each in Store().client.search_experiments()} if records else {}
    except Exception:  # no error of MLflow stops a command
        ids = {}
    names = {experiment_name(record.identity, record.kind) for record in records} & ids.keys()
    return f"repro ui, then {page(f'http://{HOST}:{PORT}', ids[names.pop()])}" if len(names) == 1 else "repro ui"


def serve(host: str = HOST, port: int = PORT, root: Path | None = None) -> None:
    """Serve the MLflow database of the results until Ctrl-C or SIGTERM; prints the links to open.

    InputError: no database yet, the port is in use, or $MLFLOW_TRACKING_URI is a server, which has its own page.
    """
    check_port(host, port)
    root = root or results_root()
    uri = tracking_uri(None, root)
    if is_server(uri):
        raise InputError(f"MLFLOW_TRACKING_URI is a server: open {public(uri)} in a browser")
    if is_sqlite(uri) and not (database := database_file(uri)).is_file():
        raise InputError(f"no MLflow database at {database}: run an experiment, or `repro ui --sync` for earlier ones")
    links = _links(uri, root, f"http://{_address(host)}:{port}")
    with _server(uri, host, port) as server:
        try:
            _wait_until_healthy(server, host, port)
            print(*links, "Ctrl-C ends it.", sep="\n", flush=True)
            server.wait()
        except KeyboardInterrupt:
            return
    raise FaultError(f"the MLflow server ended with status {server.returncode}; its last words are above")


def _links(uri: str, root: Path, base: str) -> list[str]:
    """The link to the charts of each MLflow experiment."""
    client = open_store(uri, root)  # before the server, whose processes would create or migrate it in a race
    ids = {each.name: each.experiment_id for each in client.search_experiments() if each.name != "Default"}
    if not ids:
        return [f"{base} (nothing was mirrored yet)"]
    lines = [f"{name:{max(map(len, ids))}}  {page(base, ids[name])}" for name in sorted(ids)]
    return [*lines, "Each opens its charts; the table of runs: its button List view."]


def check_port(host: str, port: int) -> None:
    if not 0 < port < 65536:
        raise InputError(f"no such port: {port}; choose one from 1024 to 65535")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            # like servers: a port whose last connections are closing is free
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        reason, other = error.strerror or error, port + 1 if port < 65535 else 5001
        raise InputError(f"cannot listen on {host}:{port} ({reason}): choose another, as in --port {other}") from None


@contextlib.contextmanager
def _server(uri: str, host: str, port: int) -> Iterator[subprocess.Popen]:
    """MLflow's server in its own session, so that one signal reaches all its processes and no other."""
    command = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--host", host, "--port", str(port)]
    command += ["--backend-store-uri", uri]
    # jobs are for language models; they start a dozen processes and take half a minute
    settings = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    settings |= {"MLFLOW_LOGGING_LEVEL": "WARNING", "PYTHONWARNINGS": "ignore"}
    server = subprocess.Popen(
        [*command, "--uvicorn-opts", "--log-level warning"],
        env=safe_environment() | settings,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        start_new_session=True,
        preexec_fn=end_with_parent,
    )
    try:
        yield server
    finally:
        _stop(server)


def _stop(server: subprocess.Popen) -> None:
    """End the server, and then whatever it started."""
    with contextlib.suppress(ProcessLookupError):  # all have ended
        os.killpg(server.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(STOP_LIMIT_S)
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def _wait_until_healthy(server: subprocess.Popen, host: str, port: int) -> None:
    url = f"http://{_address(host)}:{port}/health"
    until = time.monotonic() + START_LIMIT_S
    while time.monotonic() < until:
        if server.poll() is not None:
            raise FaultError(f"the MLflow server ended with status {server.returncode}; its last words are above")
        with contextlib.suppress(urllib.error.URLError, OSError):
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    return
        time.sleep(0.2)
    raise FaultError(f"the MLflow server did not answer at {url} within {START_LIMIT_S:.0f} s")


def _address(host: str) -> str:
    """The host in the URL of a server that listens on `host`."""
    if host in ("0.0.0.0", "::", ""):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
