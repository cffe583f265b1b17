"""Fixtures of the tests of data sets: a machine without data, real files, a web server, a folder of images."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from PIL import Image

from repro import models
from repro.data import files
from repro.data.sets import ucf101
from repro.training import optimizers
from repro.training.evaluation.evaluate import evaluate_weights

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
    """The folder with all files of a data set's module, or None. Call it before the fixture `nowhere` hides them."""
    places = [*files.search_places(), SHARED]
    folders = [folder for place in places for folder in (place / name, *place.glob(f"{name}_*"), place)]
    return next((folder for folder in folders if all((folder / file).is_file() for file in source.FILES)), None)


def needs(path: Path | None, name: str) -> pytest.MarkDecorator:
    """Skips tests without the real files."""
    return pytest.mark.skipif(path is None, reason=f"the real {name} is neither in $REPRO_DATA nor in ../shared/data")


def write_table(folder: Path, contents: dict[str, bytes]) -> dict[str, files.File]:
    """Write small files; the table that a data set's module has for them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return table(folder)


def table(folder: Path) -> dict[str, files.File]:
    """Size and checksum of all files in a folder."""
    return {
        path.name: files.File(path.stat().st_size, files.file_sha256(path))
        for path in sorted(folder.iterdir())
        if path.is_file()
    }


def trained(dataset, optimizer, steps: int, batch: int, model: str, **options) -> list[dict[str, float]]:
    """The scores of a model on the test set, after the first step and after the last one."""
    network, spare = (models.build_model(model, dataset.input_shape, dataset.classes, 0, **options) for _ in range(2))
    rule, batches, scores = optimizer(network.parameters()), dataset.train.minibatches(batch, 1, 0), []
    for step in range(steps):
        x, y = batches[step]
        rule.zero_grad()
        optimizers.loss_of(dataset.task)(network(x), y).backward()
        rule.step()
        if step in (0, steps - 1):
            scores.append(evaluate_weights(spare, network.state_dict(), dataset.test, torch.device("cpu")))
    return scores


LISTS = real("ucf101", ucf101)
needs_lists = needs(LISTS, "UCF101 lists")


@pytest.fixture
def place(tmp_path) -> Path:
    """A place to search with the real lists, to which features can be added."""
    (tmp_path / "place" / "ucf101").mkdir(parents=True)
    for name in ucf101.FILES:
        (tmp_path / "place" / "ucf101" / name).symlink_to(LISTS / name)
    return tmp_path / "place"
