"""What tests of data sets share: a machine without any, a web server, a folder of images."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """No data set on this machine: an empty cache, no $REPRO_DATA."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("REPRO_DATA", raising=False)


@pytest.fixture
def server(tmp_path) -> Iterator[tuple[Path, str]]:
    """A web server on loopback: the folder it serves, its address."""
    folder = tmp_path / "www"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{httpd.server_port}/"
    httpd.shutdown()
    httpd.server_close()


def draw(path: Path, size: tuple[int, int] = (48, 40), colour: tuple[int, int, int] = (200, 100, 50)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


@pytest.fixture
def folders(tmp_path) -> Path:
    """imagenet/ with three classes of 3, 2 and 2 training images and a validation image each."""
    for label, (name, count) in enumerate((("n01", 3), ("n02", 2), ("n03", 2))):
        for i in range(count):
            draw(tmp_path / "place" / "imagenet" / "train" / name / f"{name}_{i}.JPEG", colour=(60 * label, 9, 20 * i))
        draw(tmp_path / "place" / "imagenet" / "val" / name / "v.JPEG", colour=(60 * label, 9, 0))
    return tmp_path / "place"
