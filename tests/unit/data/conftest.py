"""What tests of data sets share: a machine without any, where there are real ones, a web server, a folder of images."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image

from repro.data import files
from repro.data.sets import ucf101

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"


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


def real(name: str, source: ModuleType) -> Path | None:
    """The folder with all files of a data set's module, or None; to be asked before the fixture `nowhere` hides it."""
    places = [*files.places(), SHARED]
    folders = [folder for place in places for folder in (place / name, *place.glob(f"{name}_*"), place)]
    return next((folder for folder in folders if all((folder / file).is_file() for file in source.FILES)), None)


LISTS = real("ucf101", ucf101)


@pytest.fixture
def place(tmp_path) -> Path:
    """A place to search with the real lists, to which features can be added."""
    (tmp_path / "place" / "ucf101").mkdir(parents=True)
    for name in ucf101.FILES:
        (tmp_path / "place" / "ucf101" / name).symlink_to(LISTS / name)
    return tmp_path / "place"
