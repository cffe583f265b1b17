"""ImageNet in WebDataset shards: the images of folders, drawn from as these are; damaged, missing and hostile ones."""

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


def test_a_pipe_among_the_shards(sharded):
    shard = sharded / "imagenet" / FIRST
    shard.unlink()
    os.mkfifo(shard)
    with pytest.raises(InputError, match=rf"{FIRST}: no regular file"):
        data.load("imagenet", str(sharded), image_size=8)


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


@pytest.mark.parametrize("decode", ["memory", "lazy"])
@pytest.mark.parametrize("workers", [1, 3, 6])
def test_shards_are_drawn_from_as_folders_are(folders, sharded, workers, decode):
    """The same images in the same minibatches on every rank, an epoch's each once, from wherever a resume begins."""
    options = {"image_size": 16, "images": 6, "held": 20, "crop": "random", "flip": True, "decode": decode, "ahead": 1}
    one, other = (data.load("imagenet", str(place), "never", **options) for place in (folders, sharded))
    assert (other.name, other.classes, other.input_shape) == ("imagenet-subset", 3, (3, 16, 16))
    assert torch.equal(one.train.y, other.train.y) and torch.equal(one.test.slice(0, 9)[0], other.test.slice(0, 9)[0])
    mine, its = (dataset.train.minibatches(1, workers, 5, "cpu") for dataset in (one, other))
    assert its.per_epoch == 6
    for epoch in (0, 1):
        ids = [6 * epoch + step * workers + rank for rank in range(workers) for step in range(6 // workers)]
        assert sorted(int(its.indices(minibatch)) for minibatch in ids) == [0, 1, 2, 3, 4, 5]
        assert all(torch.equal(mine[minibatch][0], its[minibatch][0]) for minibatch in ids)
    resumed = data.load("imagenet", str(sharded), **options).train.minibatches(1, workers, 5, "cpu")
    assert all(torch.equal(resumed[minibatch][0], its[minibatch][0]) for minibatch in (8, 9, 10, 11))


def test_an_index_finds_what_the_library_streams(sharded):
    import webdataset

    paths = shards.of(sharded / "imagenet", "train")
    assert [path.name[-10:] for path in paths] == ["000000.tar", "000001.tar", "000002.tar"]
    streamed = list(webdataset.WebDataset([str(path) for path in paths], shardshuffle=False))
    found = shards.index(paths)
    assert len(found) == len(streamed) == 7
    for (entry, label), sample in zip(found, streamed, strict=True):
        assert entry.name == f"{sample['__key__']}.jpg" and str(entry.shard) == sample["__url__"]
        assert entry.open("rb").read() == sample["jpg"] and label == int(sample["cls"])


def test_shards_are_gone_through_once(sharded, monkeypatch):
    first = data.load("imagenet", str(sharded), image_size=8)
    monkeypatch.setattr(shards, "images", lambda shard: pytest.fail(f"{shard.name} again"))
    assert data.load("imagenet", str(sharded), image_size=8).checksum == first.checksum
    rewrite(sharded / "imagenet" / "imagenet-train-000001.tar", {"n02_1.cls": b"0"})
    with pytest.raises(pytest.fail.Exception, match=r"imagenet-train-000000\.tar again"):
        data.load("imagenet", str(sharded), image_size=8)
    monkeypatch.undo()


def rewrite(shard: Path, changes: dict[str, bytes | None]) -> None:
    """Other contents of some entries, new ones at the end, None: without it."""
    with tarfile.open(shard) as tar:
        entries = {entry.name: tar.extractfile(entry).read() for entry in tar}
    with tarfile.open(shard, "w") as tar:
        for name, content in (entries | changes).items():
            if content is not None:
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))


FIRST = "imagenet-train-000000.tar"


@pytest.mark.parametrize(
    "changes, complaint",
    [
        ({"n01_0.cls": b"dog"}, r"000000\.tar/n01_0\.cls: 'dog'; must be a class's number"),
        (
            {"n01_0.cls": b"4000000000"},
            r"000000\.tar/n01_0\.jpg: of class 4000000000, and imagenet has classes 0 to 999",
        ),
        ({"n01_0.cls": None}, r"000000\.tar: sample n01_0 has jpg; must have one of jpg, jpeg, png, and cls"),
        ({"n01_0.jpg": b"no image"}, r"1 of 7 images cannot be read: .*000000\.tar/n01_0\.jpg \(no image\)"),
    ],
)
def test_bad_entries_of_shards(sharded, changes, complaint):
    rewrite(sharded / "imagenet" / FIRST, changes)
    with pytest.raises(InputError, match=complaint) as caught:
        data.load("imagenet", str(sharded), image_size=8)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name, most, complaint",
    [
        ("MOST_BYTES", 400, r"000000\.tar/n0._.\.jpg: \d+ bytes, more than 400"),
        ("MOST_MEMBERS", 5, r"000000\.tar: more than 5 entries"),
        ("MOST_IMAGES", 6, r"more than 6 images in the shards of train"),
    ],
)
def test_more_in_shards_than_memory_should_hold(sharded, monkeypatch, name, most, complaint):
    monkeypatch.setattr(shards, name, most)
    with pytest.raises(InputError, match=complaint):
        data.load("imagenet", str(sharded), image_size=8)


@pytest.mark.parametrize(
    "kind, said, complaint",
    [
        pytest.param(tarfile.XHDTYPE, 2**27, "damaged at", id="pax"),
        pytest.param(tarfile.GNUTYPE_LONGNAME, 2**27, "damaged at", id="a long name"),
        pytest.param(tarfile.REGTYPE, 2**40, "damaged", id="an image that is not there"),
    ],
)
def test_a_header_that_claims_more_than_memory_holds(sharded, monkeypatch, kind, said, complaint):
    """What stands in a header is not read into memory because the header says so."""
    shard = sharded / "imagenet" / FIRST
    entry = tarfile.TarInfo("n01_9.jpg")
    entry.type, entry.size = kind, said
    with open(shard, "wb") as file:
        file.write(entry.tobuf(tarfile.GNU_FORMAT))
        file.truncate(2**28)  # a hole: nothing is written
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=rf"{FIRST}.*{complaint}|{FIRST}/n01_9.jpg: {said} bytes"):
            data.load("imagenet", str(sharded), image_size=8)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_headers_without_an_end(sharded):
    """Each header of a long name is followed by another: tarfile calls itself for each."""
    entry = tarfile.TarInfo("x")
    entry.type, entry.size = tarfile.GNUTYPE_LONGNAME, 1
    (sharded / "imagenet" / FIRST).write_bytes((entry.tobuf(tarfile.GNU_FORMAT) + bytes(512)) * 3000)
    with pytest.raises(InputError, match=f"{FIRST}: no whole tar file"):
        data.load("imagenet", str(sharded), image_size=8)


@pytest.mark.parametrize(
    "damage, complaint",
    [
        (lambda whole, third: whole[:-2000], r"damaged after n0._.\.(cls|jpg)$"),
        (lambda whole, third: whole[:third] + b"\xff" * 512 + whole[third + 512 :], r"damaged after n0._.\.(cls|jpg)$"),
        (lambda whole, third: b"\x1f\x8b" + whole[2:], r"damaged at its beginning \("),
    ],
)
def test_damaged_shards(sharded, damage, complaint):
    shard = sharded / "imagenet" / FIRST
    with tarfile.open(shard) as tar:
        *_, end = entries = tar.getmembers()
    whole = shard.read_bytes()[: end.offset_data + -(-end.size // 512) * 512 + 2000]
    shard.write_bytes(damage(whole, entries[2].offset))
    with pytest.raises(InputError, match=rf"{FIRST}: no whole tar file, {complaint}"):
        data.load("imagenet", str(sharded))


def test_an_entry_that_is_there_twice(sharded):
    with tarfile.open(sharded / "imagenet" / FIRST, "a") as tar:
        for _ in range(2):
            tar.addfile(tarfile.TarInfo("x.jpg"), io.BytesIO())
    with pytest.raises(InputError, match=rf"{FIRST}: x\.jpg: duplicate file name"):
        data.load("imagenet", str(sharded))


def test_a_shard_that_shrinks_meanwhile(sharded):
    split = data.load("imagenet", str(sharded), image_size=8, decode="lazy").train
    shard = sharded / "imagenet" / FIRST
    shard.write_bytes(shard.read_bytes()[:1200])
    with pytest.raises(InputError, match=rf"cannot be read: .*{FIRST}/n0._.\.jpg \(the shard ends before it does\)"):
        split.slice(0, 7)


def test_missing_shards(sharded, monkeypatch, capsys):
    monkeypatch.setenv("REPRO_DATA", str(sharded))
    assert main(["data", "verify", "imagenet"]) == 0
    (sharded / "imagenet" / "imagenet-train-000001.tar").unlink()
    capsys.readouterr()
    assert main(["data", "verify", "imagenet"]) == 2
    said = capsys.readouterr().err
    assert "of imagenet-train-*.tar number 1 is missing" in said and said.count("\n") == 1
    (sharded / "imagenet" / "imagenet-train-000002.tar").unlink()
    data.verify("imagenet")
    (sharded / "imagenet" / "imagenet-val-000000.tar").rename(sharded / "imagenet" / "i-val-000000.tar")
    (sharded / "imagenet" / "other-validation-000000.tar").touch()
    with pytest.raises(InputError, match=r"shards of val go by i-val-\*\.tar and other-validation-\*\.tar; must"):
        data.verify("imagenet")
    for path in (sharded / "imagenet").glob("*-val*"):
        path.unlink()
    with pytest.raises(InputError, match=r"incomplete: .*imagenet lacks shards \*-val\*-\*\.tar"):
        data.verify("imagenet")


def test_a_class_that_only_val_has(sharded):
    rewrite(sharded / "imagenet" / "imagenet-val-000000.tar", {"n02/v.cls": b"3"})
    with pytest.raises(InputError, match=r"val-000000\.tar/n02/v\.jpg: of class 3, .* train have classes 0 to 2"):
        data.load("imagenet", str(sharded))


def test_shards_without_the_library(sharded, monkeypatch):
    monkeypatch.setitem(sys.modules, "webdataset.tariterators", None)
    with pytest.raises(InputError, match=r"000000\.tar: needs the library webdataset: .*'repro-harness\[shards\]'"):
        data.load("imagenet", str(sharded))
