"""Finding, verifying and downloading MNIST's files, its stand-in, and minibatches of any data set."""

from __future__ import annotations

import gzip
import itertools
import struct
import sys
import time

import numpy as np
import pytest
import torch

from repro import data
from repro.cli.main import main
from repro.core.errors import InputError
from repro.data import files
from repro.data.base import Split
from repro.data.fetch import fetch_dataset
from repro.data.minibatches import Batches
from repro.data.sets import mnist
from tests.support.hostile_server import hostile_server
from tests.unit.data.conftest import needs, real, write_table

REAL = real("mnist", mnist)


def of_mnist(rows: list[dict]) -> dict:
    return next(row for row in rows if row["name"] == "mnist")


@pytest.fixture
def tiny(monkeypatch, tmp_path) -> dict[str, bytes]:
    """Replaces MNIST's files by two small ones."""
    contents = {"a.gz": gzip.compress(b"a" * 5000, mtime=0), "b.gz": gzip.compress(b"b" * 3000, mtime=0)}
    monkeypatch.setattr(mnist, "FILES", write_table(tmp_path / "tiny", contents))
    return contents


def serve(tiny: dict[str, bytes], server, monkeypatch) -> str:
    """Put the small files on the server, as the only mirror; returns its address."""
    www, address = server
    write_table(www, tiny)
    monkeypatch.setattr(mnist, "MIRRORS", [address])
    return address


# The real one


@needs(REAL, "MNIST")
def test_real_mnist_and_its_first_images(monkeypatch):
    monkeypatch.setenv("REPRO_DATA", f"/does/not/exist:{REAL}")
    loaded, part = data.load_dataset("mnist", None, "never"), data.load_dataset("mnist", None, "never", images=100)
    assert (loaded.name, loaded.standin, loaded.classes, loaded.input_shape) == ("mnist", False, 10, (1, 28, 28))
    assert loaded.train.x.shape == (60000, 1, 28, 28) and loaded.test.x.shape == (10000, 1, 28, 28)
    assert loaded.train.x.dtype == torch.float32 and loaded.train.y.dtype == torch.int64
    assert loaded.train.y.bincount().tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert loaded.test.y.bincount().tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert abs(loaded.train.x.mean()) < 1e-3 and abs(loaded.train.x.std() - 1) < 1e-3
    assert loaded.checksum == files.combined_checksum(mnist.FILES)
    assert part.name == "mnist-subset" and len(part.train) == 100 and len(part.test) == 10000
    assert torch.equal(part.train.x, loaded.train.x[:100]) and torch.equal(part.train.y, loaded.train.y[:100])
    assert len(data.load_shapes("mnist", images=100).train) == 100


def test_a_part_of_the_stand_in_has_the_same_test_images():
    whole, part = data.load_dataset("mnist", None, "always"), data.load_dataset("mnist", None, "always", images=100)
    assert torch.equal(part.train.x, whole.train.x[:100]) and torch.equal(part.test.x, whole.test.x)
    with pytest.raises(InputError, match=r"images=0"):
        data.load_dataset("mnist", None, "always", images=0)


@pytest.mark.parametrize("layout", ["mnist", "."])
def test_root_comes_first_and_has_two_layouts(tiny, monkeypatch, tmp_path, layout):
    root, other = tmp_path / "root", tmp_path / "other" / "mnist"
    write_table(root / layout, tiny)
    write_table(other, tiny)
    monkeypatch.setenv("REPRO_DATA", str(other.parent))
    assert data.verify_dataset("mnist", str(root)) == root / layout and data.verify_dataset("mnist") == other


@pytest.mark.parametrize(("damage", "standin"), [("truncated", "auto"), ("corrupt", "auto"), ("corrupt", "never")])
def test_a_damaged_file_is_an_error_never_the_standin(tiny, tmp_path, damage, standin):
    body = tiny["b.gz"]
    write_table(tmp_path / "mnist", tiny | {"b.gz": {"truncated": body[:-1], "corrupt": b"?" + body[1:]}[damage]})
    path = tmp_path / "mnist" / "b.gz"
    with pytest.raises(InputError) as caught:
        data.load_dataset("mnist", str(tmp_path), standin)
    message = str(caught.value)
    assert str(path) in message and mnist.FILES["b.gz"].sha256 in message and files.file_sha256(path) in message
    assert damage in message and "\n" not in message
    with pytest.raises(InputError):
        data.ensure_dataset("mnist", str(tmp_path), standin, say=lambda line: None)
    assert of_mnist(data.dataset_status(str(tmp_path)))["ok"] is False
    path.unlink()
    with pytest.raises(InputError, match=r"incomplete.*lacks b\.gz"):
        data.load_dataset("mnist", str(tmp_path), standin)


def idx(body: bytes, *shape: int, magic: bytes = b"\0\0\x08") -> bytes:
    return magic + bytes([len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + body


@pytest.mark.parametrize(("raw", "complaint"), [
    (gzip.compress(idx(b"123456", 2, 3), mtime=0)[:-9], "not a readable gzip"),
    (gzip.compress(idx(b"123456", 2, 3, magic=b"\0\0\x0d"), mtime=0), "bad IDX header 00000d02"),
    (gzip.compress(idx(b"12345", 2, 3), mtime=0), r"says \(2, 3\), but 5 bytes"),
    (gzip.compress(idx(b"1", *[2**32 - 1] * 4), mtime=0), "but 1 bytes"),
])  # fmt: skip
def test_idx_files(tmp_path, raw, complaint):
    path = tmp_path / "f.gz"
    path.write_bytes(gzip.compress(idx(b"\1\2\3\4\5\6", 2, 3), mtime=0))
    assert mnist.read_idx(path).tolist() == [[1, 2, 3], [4, 5, 6]]
    path.write_bytes(raw)
    with pytest.raises(InputError, match=complaint) as caught:
        mnist.read_idx(path)
    assert str(path) in str(caught.value)


# None there


def test_the_digits_are_those_of_scikit_learn_which_is_needed(monkeypatch):
    read = mnist._digits()
    monkeypatch.setattr(mnist.importlib.util, "find_spec", lambda name: None)
    for ours, theirs in zip(read, mnist._digits(), strict=True):
        assert np.array_equal(ours, theirs) and ours.strides == theirs.strides and ours.dtype == theirs.dtype
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(InputError, match="pip install scikit-learn"):
        mnist._digits()


def test_the_standin_replaces_missing_files():
    loaded = data.load_dataset("mnist")
    assert (loaded.name, loaded.standin, loaded.input_shape) == ("mnist-standin-digits", True, (1, 8, 8))
    assert not loaded.like_real and data.load_dataset("cifar10", standin="always", images=100).like_real
    assert loaded.train.x.shape == (1437, 1, 8, 8) and loaded.test.x.shape == (360, 1, 8, 8)
    assert abs(loaded.train.x.mean()) < 1e-3 and abs(loaded.train.x.std() - 1) < 1e-3
    assert loaded.test.y.bincount().min() >= 25
    again = data.load_dataset("mnist", standin="always")
    assert again.checksum == loaded.checksum and torch.equal(again.train.x, loaded.train.x)


def test_missing_and_no_standin_says_what_to_put_where(tmp_path):
    with pytest.raises(InputError) as caught:
        data.load_dataset("mnist", None, "never")
    message = str(caught.value)
    for part in ("repro data fetch mnist", "REPRO_DATA", str(tmp_path / "cache" / "repro" / "mnist"), *mnist.FILES):
        assert part in message
    assert "\n" not in message and caught.value.status == 2


@pytest.mark.parametrize(("arguments", "complaint"), [
    (("mnits", None, "auto"), "unknown data set 'mnits'; valid: mnist"),
    (("mnist", None, "nevr"), "unknown dataset.standin 'nevr'; valid: never"),
    (("mnist", "/does/not/exist", "auto"), "data.root: /does/not/exist is not a folder"),
])  # fmt: skip
def test_bad_arguments(arguments, complaint):
    with pytest.raises(InputError, match=complaint):
        data.load_dataset(*arguments)


def test_status_of_nothing():
    rows = data.dataset_status()
    assert of_mnist(rows) == {
        "name": "mnist",
        "where": None,
        "ok": None,
        "detail": "missing",
        "megabytes": 11.6,
        "standin": "mnist-standin-digits",
    }
    assert [row["name"] for row in rows] == data.dataset_names() and all(row["ok"] is None for row in rows)


# Downloads


def test_fetch_then_found(tiny, server, tmp_path, monkeypatch):
    address, lines = serve(tiny, server, monkeypatch), []
    folder = fetch_dataset("mnist", mirrors=["http://127.0.0.1:1/", address], timeout_s=5, say=lines.append)
    assert folder == tmp_path / "cache" / "repro" / "mnist" and data.verify_dataset("mnist") == folder
    assert sorted(path.name for path in folder.iterdir()) == ["a.gz", "b.gz"] and len(lines) == 2
    (folder / "a.gz").write_bytes(b"damaged")
    fetch_dataset("mnist", mirrors=[address])
    assert data.verify_dataset("mnist") == folder
    fetch_dataset("mnist", mirrors=[])  # complete: no mirror is needed


def test_the_command_fetches_missing_and_damaged_files(tiny, server, tmp_path, monkeypatch, capsys):
    serve(tiny, server, monkeypatch)
    elsewhere = tmp_path / "elsewhere" / "mnist"
    write_table(elsewhere, tiny)
    monkeypatch.setenv("REPRO_DATA", str(elsewhere.parent))
    assert main(["data", "fetch", "mnist"]) == 0 and capsys.readouterr().out.strip() == str(elsewhere)
    (elsewhere / "a.gz").write_bytes(b"damaged")
    assert main(["data", "fetch", "mnist"]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "cache" / "repro" / "mnist")


@pytest.mark.parametrize("bad", ["corrupt", "short", "long", "absent"])
def test_a_bad_download_leaves_nothing_behind(tiny, server, tmp_path, bad):
    www, address = server
    (www / "a.gz").write_bytes(tiny["a.gz"])
    body = tiny["b.gz"]
    if bad != "absent":
        (www / "b.gz").write_bytes({"corrupt": b"?" + body[1:], "short": body[:-1], "long": body + b"?" * 99}[bad])
    into = tmp_path / "into"
    with pytest.raises(InputError) as caught:
        fetch_dataset("mnist", into, mirrors=[address])
    message = str(caught.value)
    assert "b.gz" in message and str(into / "mnist") in message and "\n" not in message
    assert ("expected sha256" in message) == (bad != "absent")
    assert list(into.rglob("*")) == []


@pytest.mark.parametrize("start", [b"", b"HTTP/1.0 200 OK\r\nX-Header: ", b"HTTP/1.0 200 OK\r\n\r\n"])
def test_a_mirror_that_sends_a_byte_now_and_then_is_left_at_the_time_limit(tiny, tmp_path, start):
    def trickle(*_):
        yield start
        for _ in range(60):
            time.sleep(0.5)
            yield b"x"

    with hostile_server(trickle) as server:
        with pytest.raises(InputError, match="too slow for the time limit"):
            fetch_dataset("mnist", tmp_path / "into", mirrors=[server.address], total_s=1)
        assert not server.whole
    assert list((tmp_path / "into").rglob("*")) == []


def test_an_endless_download_is_cut(tiny, tmp_path):
    def endless(*_):
        yield b"HTTP/1.0 200 OK\r\n\r\n"
        yield from itertools.repeat(bytes(1 << 20), 64)

    with hostile_server(endless) as server:
        with pytest.raises(InputError, match=r"a\.gz corrupt: expected sha256"):
            fetch_dataset("mnist", tmp_path / "into", mirrors=[server.address])
        assert not server.whole


def test_no_network_is_one_line_and_ensure_takes_the_standin(tiny, monkeypatch):
    monkeypatch.setattr(mnist, "MIRRORS", ["http://127.0.0.1:1/", "nonsense"])
    with pytest.raises(InputError, match=r"cannot download data set 'mnist' \(127.0.0.1:1: .*put a.gz, b.gz into"):
        fetch_dataset("mnist")
    lines = []
    assert data.ensure_dataset("mnist", say=lines.append) is None
    assert len(lines) == 1 and "mnist-standin-digits" in lines[0]
    with pytest.raises(InputError, match="cannot download"):
        data.ensure_dataset("mnist", standin="never")


def test_ensure_downloads_into_the_cache(tiny, server, monkeypatch):
    serve(tiny, server, monkeypatch)
    lines = []
    folder = data.ensure_dataset("mnist", say=lines.append)
    assert data.ensure_dataset("mnist", say=lines.append) == folder == data.verify_dataset("mnist")
    assert "downloaded" in lines[0] and "found in" in lines[1]


def test_a_folder_that_cannot_be_made(tiny, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write data set 'mnist' there"):
        fetch_dataset("mnist", tmp_path / "file", mirrors=[])


# Minibatches


def split(n: int = 103) -> Split:
    return Split(torch.arange(n, dtype=torch.float32).reshape(n, 1, 1, 1), torch.arange(n))


def test_an_epochs_minibatches_are_disjoint_and_the_remainder_changes():
    batches, left_out = Batches(split(103), 5, seed=1), []
    assert batches.per_epoch == 20
    for epoch in (0, 1, 7):
        drawn = torch.cat([batches[epoch * 20 + slot][1] for slot in range(20)]).tolist()
        left_out.append(set(range(103)) - set(drawn))
        assert len(set(drawn)) == len(drawn) == 100
    assert all(one != other for one, other in itertools.combinations(left_out, 2))


def test_minibatches_depend_on_seed_and_id_alone():
    forward, backward = Batches(split(), 5, seed=3, per_epoch=20), Batches(split(), 5, seed=3, per_epoch=20)
    ids = list(range(100))
    labels = {i: forward[i][1] for i in ids}
    for i in reversed(ids):
        x, y = backward[i]
        assert torch.equal(y, labels[i]) and torch.equal(x.flatten(), y.float()) and x.shape == (5, 1, 1, 1)
    assert not torch.equal(forward[0][1], Batches(split(), 5, seed=4, per_epoch=20)[0][1])
    assert not torch.equal(forward[0][1], forward[20][1])


@pytest.mark.parametrize("workers", [1, 2, 4, 5])
def test_the_same_samples_for_any_number_of_workers(workers):
    """Global batches of 20, each worker taking its share: the union of an iteration's samples is always the same."""
    share = 20 // workers
    batches = [Batches(split(), share, seed=0, per_epoch=5 * workers) for _ in range(workers)]
    reference = Batches(split(), 20, seed=0, per_epoch=5)
    for iteration in range(12):
        drawn = torch.cat([batches[rank][iteration * workers + rank][1] for rank in range(workers)])
        assert torch.equal(drawn, reference[iteration][1])


def test_minibatches_on_a_device_without_arithmetic():
    batches = Batches(split(), 5, seed=0, device="meta")
    x, y = batches[3]
    assert x.shape == (5, 1, 1, 1) and x.is_meta and y.is_meta
    assert batches.indices(3).tolist() == Batches(split(), 5, seed=0).indices(3).tolist()


@pytest.mark.parametrize("size, per_epoch", [(0, 1), (5, 21), (104, None), (5, 0)])
def test_bad_sizes_and_ids(size, per_epoch):
    with pytest.raises(InputError):
        Batches(split(), size, 0, per_epoch)
    with pytest.raises(IndexError):
        Batches(split(), 5, 0)[-1]
