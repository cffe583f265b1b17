"""ImageNet in WebDataset shards: the same samples as from folders; damaged, missing and hostile shards."""

from __future__ import annotations

import io
import os
import sys
import tarfile
import tracemalloc
from pathlib import Path

import pytest
import torch

from repro import data
from repro.cli.main import main
from repro.core.errors import InputError
from repro.data.readers import shards

FIRST = "imagenet-train-000000.tar"


@pytest.fixture
def sharded(folders) -> Path:
    """The images of `folders`, in shards of three that the library writes: sharded/imagenet/*-000000.tar"""
    webdataset = pytest.importorskip("webdataset", reason="pip install webdataset (the extra [dev])")
    place = folders.parent / "sharded" / "imagenet"
    place.mkdir(parents=True)
    for part in ("train", "val"):
        labels = {path.name: label for label, path in enumerate(sorted((folders / "imagenet" / part).iterdir()))}
        images = sorted((folders / "imagenet" / part).rglob("*.JPEG"), key=lambda path: path.name[::-1])
        with webdataset.ShardWriter(str(place / f"imagenet-{part}-%06d.tar"), maxcount=3, verbose=0) as writer:
            for path in images:
                key = path.stem if part == "train" else f"{path.parent.name}/{path.stem}"
                writer.write({"__key__": key, "jpg": path.read_bytes(), "cls": labels[path.parent.name]})
    return place.parent


def load(sharded: Path, **options) -> data.Dataset:
    return data.load_dataset("imagenet", str(sharded), image_size=8, **options)


@pytest.mark.parametrize(("workers", "decode"), [(1, "memory"), (3, "lazy")])
def test_shards_give_the_same_minibatches_as_folders(folders, sharded, workers, decode):
    """On every rank, each image once an epoch, and after a resume."""
    options = {"image_size": 16, "images": 6, "held": 20, "crop": "random", "flip": True, "decode": decode, "ahead": 1}
    one, other = (data.load_dataset("imagenet", str(place), "never", **options) for place in (folders, sharded))
    assert (other.name, other.classes, other.input_shape) == ("imagenet-subset", 3, (3, 16, 16))
    assert torch.equal(one.train.y, other.train.y) and torch.equal(one.test.slice(0, 9)[0], other.test.slice(0, 9)[0])
    mine, its = (dataset.train.minibatches(1, workers, 5, "cpu") for dataset in (one, other))
    assert its.per_epoch == 6
    for epoch in (0, 1):
        ids = [6 * epoch + step * workers + rank for rank in range(workers) for step in range(6 // workers)]
        assert sorted(int(its.indices(minibatch)) for minibatch in ids) == [0, 1, 2, 3, 4, 5]
        assert all(torch.equal(mine[minibatch][0], its[minibatch][0]) for minibatch in ids)
    resumed = data.load_dataset("imagenet", str(sharded), **options).train.minibatches(1, workers, 5, "cpu")
    assert all(torch.equal(resumed[minibatch][0], its[minibatch][0]) for minibatch in (8, 9, 10, 11))


def test_the_index_has_the_samples_that_the_library_streams(sharded):
    import webdataset

    paths = shards.find_shards(sharded / "imagenet", "train")
    assert [path.name[-10:] for path in paths] == ["000000.tar", "000001.tar", "000002.tar"]
    streamed = list(webdataset.WebDataset([str(path) for path in paths], shardshuffle=False))
    index = shards.index_shards(paths)
    assert len(index) == len(streamed) == 7
    for (entry, label), sample in zip(index, streamed, strict=True):
        assert entry.name == f"{sample['__key__']}.jpg" and str(entry.shard) == sample["__url__"]
        assert entry.open("rb").read() == sample["jpg"] and label == int(sample["cls"])


def test_headers_are_read_once(sharded, monkeypatch):
    first = load(sharded)
    with monkeypatch.context() as patch:
        patch.setattr(shards, "read_shard", lambda shard: pytest.fail(f"{shard.name} again"))
        assert load(sharded).checksum == first.checksum
        rewrite(sharded / "imagenet" / "imagenet-train-000001.tar", {"n02_1.cls": b"0"})
        with pytest.raises(pytest.fail.Exception, match=r"imagenet-train-000000\.tar again"):
            load(sharded)


def rewrite(shard: Path, changes: dict[str, bytes | None]) -> None:
    """Change the contents of some entries, or add them; None: remove it."""
    with tarfile.open(shard) as tar:
        entries = {entry.name: tar.extractfile(entry).read() for entry in tar}
    with tarfile.open(shard, "w") as tar:
        for name, content in (entries | changes).items():
            if content is not None:
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))


@pytest.mark.parametrize(("part", "changes", "complaint"), [
    ("train", {"n01_0.cls": b"dog"}, r"/n01_0\.cls: 'dog'; must be a class's number"),
    ("train", {"n01_0.cls": b"4000000000"}, r"/n01_0\.jpg: class 4000000000, but imagenet has classes 0 to 999"),
    ("train", {"n01_0.cls": None}, r": sample n01_0 has jpg; must have one of jpg, jpeg, png, and cls"),
    ("train", {"n01_0.jpg": b"no image"}, r"/n01_0\.jpg \(no image\)"),
    ("val", {"n02/v.cls": b"3"}, r"/n02/v\.jpg: class 3, but .* train have classes 0 to 2"),
])  # fmt: skip
def test_bad_entries_of_shards(sharded, part, changes, complaint):
    rewrite(sharded / "imagenet" / f"imagenet-{part}-000000.tar", changes)
    with pytest.raises(InputError, match=rf"{part}-000000\.tar{complaint}") as caught:
        load(sharded)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "most", "complaint"), [
    ("MOST_BYTES", 400, r"000000\.tar/n0._.\.jpg: \d+ bytes, more than 400"),
    ("MOST_MEMBERS", 5, r"000000\.tar: more than 5 entries"),
    ("MOST_IMAGES", 6, r"more than 6 images in the shards of train"),
])  # fmt: skip
def test_more_in_shards_than_memory_should_hold(sharded, monkeypatch, name, most, complaint):
    monkeypatch.setattr(shards, name, most)
    with pytest.raises(InputError, match=complaint):
        load(sharded)


@pytest.mark.parametrize(("kind", "size", "complaint"), [
    pytest.param(tarfile.XHDTYPE, 2**27, "damaged at", id="pax"),
    pytest.param(tarfile.GNUTYPE_LONGNAME, 2**27, "damaged at", id="a long name"),
    pytest.param(tarfile.REGTYPE, 2**40, "damaged", id="a missing image"),
])  # fmt: skip
def test_the_size_in_a_header_is_not_trusted(sharded, kind, size, complaint):
    shard = sharded / "imagenet" / FIRST
    entry = tarfile.TarInfo("n01_9.jpg")
    entry.type, entry.size = kind, size
    with open(shard, "wb") as file:
        file.write(entry.tobuf(tarfile.GNU_FORMAT))
        file.truncate(2**28)  # a hole: nothing is written
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=rf"{FIRST}.*{complaint}|{FIRST}/n01_9.jpg: {size} bytes"):
            load(sharded)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_headers_without_an_end(sharded):
    """Each header of a long name is followed by another: tarfile calls itself for each."""
    entry = tarfile.TarInfo("x")
    entry.type, entry.size = tarfile.GNUTYPE_LONGNAME, 1
    (sharded / "imagenet" / FIRST).write_bytes((entry.tobuf(tarfile.GNU_FORMAT) + bytes(512)) * 3000)
    with pytest.raises(InputError, match=f"{FIRST}: not a complete tar file"):
        load(sharded)


@pytest.mark.parametrize(("damage", "complaint"), [
    (lambda whole, third: whole[:-2000], r"damaged after n0._.\.(cls|jpg)$"),
    (lambda whole, third: whole[:third] + b"\xff" * 512 + whole[third + 512 :], r"damaged after n0._.\.(cls|jpg)$"),
    (lambda whole, third: b"\x1f\x8b" + whole[2:], r"damaged at its beginning \("),
])  # fmt: skip
def test_damaged_shards(sharded, damage, complaint):
    shard = sharded / "imagenet" / FIRST
    with tarfile.open(shard) as tar:
        *_, end = entries = tar.getmembers()
    whole = shard.read_bytes()[: end.offset_data + -(-end.size // 512) * 512 + 2000]
    shard.write_bytes(damage(whole, entries[2].offset))
    with pytest.raises(InputError, match=rf"{FIRST}: not a complete tar file, {complaint}"):
        load(sharded)


def test_a_repeated_entry_and_a_pipe(sharded):
    shard = sharded / "imagenet" / FIRST
    with tarfile.open(shard, "a") as tar:
        for _ in range(2):
            tar.addfile(tarfile.TarInfo("x.jpg"), io.BytesIO())
    with pytest.raises(InputError, match=rf"{FIRST}: x\.jpg: duplicate file name"):
        load(sharded)
    shard.unlink()
    os.mkfifo(shard)
    with pytest.raises(InputError, match=rf"{FIRST}: no regular file"):
        load(sharded)


def test_a_shard_that_shrinks_later(sharded):
    split = load(sharded, decode="lazy").train
    shard = sharded / "imagenet" / FIRST
    shard.write_bytes(shard.read_bytes()[:1200])
    with pytest.raises(InputError, match=rf"cannot be read: .*{FIRST}/n0._.\.jpg \(the shard ends before the image"):
        split.slice(0, 7)


def test_missing_shards(sharded, monkeypatch, capsys):
    monkeypatch.setenv("REPRO_DATA", str(sharded))
    assert main(["data", "verify", "imagenet"]) == 0
    (sharded / "imagenet" / "imagenet-train-000001.tar").unlink()
    capsys.readouterr()
    assert main(["data", "verify", "imagenet"]) == 2
    line = capsys.readouterr().err
    assert "of imagenet-train-*.tar number 1 is missing" in line and line.count("\n") == 1
    (sharded / "imagenet" / "imagenet-train-000002.tar").unlink()
    data.verify_dataset("imagenet")
    (sharded / "imagenet" / "imagenet-val-000000.tar").rename(sharded / "imagenet" / "i-val-000000.tar")
    (sharded / "imagenet" / "other-validation-000000.tar").touch()
    with pytest.raises(InputError, match=r"shards of val have names i-val-\*\.tar and other-validation-\*\.tar; must"):
        data.verify_dataset("imagenet")
    for path in (sharded / "imagenet").glob("*-val*"):
        path.unlink()
    with pytest.raises(InputError, match=r"incomplete: .*imagenet lacks shards \*-val\*-\*\.tar"):
        data.verify_dataset("imagenet")


def test_shards_without_the_library(sharded, monkeypatch):
    monkeypatch.setitem(sys.modules, "webdataset.tariterators", None)
    with pytest.raises(InputError, match=r"000000\.tar: needs the library webdataset: .*'repro-harness\[shards\]'"):
        load(sharded)
