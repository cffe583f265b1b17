"""Paths that begin with `~`, and a download that is larger than the expected file."""

from __future__ import annotations

import http.server
import threading

import pytest

from repro import data
from repro.core.errors import InputError
from repro.data import files
from repro.data.fetch import CHUNK, fetch_dataset
from repro.data.sets import mnist
from tests.unit.data.conftest import write_table


@pytest.fixture
def at_home(monkeypatch, tmp_path):
    """A home folder whose `data/mnist` has the only two files of the data set."""
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(mnist, "FILES", write_table(home / "data" / "mnist", {"a.gz": b"a", "b.gz": b"b"}))
    return home


def test_a_place_may_begin_with_a_tilde(at_home, monkeypatch):
    assert data.verify_dataset("mnist", "~/data") == at_home / "data" / "mnist"
    with pytest.raises(InputError, match=f"data.root: {at_home}/none is not a folder"):
        files.search_places("~/none")
    assert fetch_dataset("mnist", "~/data", mirrors=[]) == at_home / "data" / "mnist"  # complete: no mirror is needed
    monkeypatch.setenv("REPRO_DATA", "/does/not/exist:~/data")
    assert data.verify_dataset("mnist") == at_home / "data" / "mnist"


MOST = 1024 * CHUNK  # bytes of the answer, more than a connection buffers


@pytest.fixture
def too_much():
    """A server that answers with MOST bytes, or as many as are taken: its address, and the number sent so far."""
    sent = [0]

    class Endless(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            while sent[0] < MOST:
                self.wfile.write(bytes(CHUNK))
                sent[0] += CHUNK

        def log_message(self, *args):
            pass

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, request, client_address):
            """The client closed the connection."""

    server = Server(("127.0.0.1", 0), Endless)
    server.daemon_threads = False  # so that `server_close` waits for the answer's end
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/", sent, server
    server.shutdown()
    server.server_close()


def test_no_more_is_downloaded_than_the_file_should_have(too_much, monkeypatch, tmp_path):
    address, sent, server = too_much
    monkeypatch.setattr(mnist, "FILES", write_table(tmp_path / "small", {"a.gz": b"a" * 5000}))
    with pytest.raises(InputError, match=r"a\.gz"):
        fetch_dataset("mnist", tmp_path / "into", mirrors=[address])
    server.shutdown()
    server.server_close()
    assert sent[0] < MOST
