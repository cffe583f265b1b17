"""MSVD: captions, minibatches, features, stand-ins."""

from __future__ import annotations

import gzip
import statistics
from pathlib import Path

import numpy as np
import pytest
import torch

from repro import data
from repro.core.errors import InputError, NotHere
from repro.core.word_numbers import BOS, EOS, PAD, UNK
from repro.data.readers import msvd_clips
from repro.data.readers.msvd_clips import Clip, Extracted, Generated
from repro.data.readers.text import IGNORED
from repro.data.sets import msvd
from tests.unit.data.conftest import needs, real, write_table

REAL = real("msvd", msvd)


@needs(REAL, "MSVD")
def test_the_real_captions(monkeypatch):
    monkeypatch.setenv("REPRO_DATA", str(REAL.parent))
    loaded = data.load_dataset("msvd", features=8)
    assert (loaded.name, loaded.standin) == ("msvd-standin-features", True)
    assert (len(loaded.train), len(loaded.test), loaded.classes, loaded.input_shape) == (48774, 27763, 12594, (40, 9))
    parts = loaded.train.clips, msvd_clips.read_clips(REAL, "val"), loaded.test.clips
    assert [len(clips) for clips in parts] == list(msvd_clips.PARTS.values())
    clips = [clip for part in parts for clip in part]
    captions = [caption for clip in clips for caption in clip.captions]
    assert len(captions) == 80827 and sum(map(len, captions)) == 567874  # S2VT's table 1
    assert len({word for caption in captions for word in caption}) == 12592
    seconds = [clip.seconds for clip in clips]
    assert (min(seconds), max(seconds), statistics.median(seconds)) == (2, 60, 8)
    assert statistics.fmean(seconds) == pytest.approx(9.72, abs=0.005)
    timing = data.load_shapes("msvd")
    assert (timing.name, len(timing.train), timing.classes) == ("msvd (shapes only)", 48774, 12594)
    with pytest.raises(NotHere, match=r"captions in .* but no extracted features"):
        data.load_dataset("msvd", None, "never")
    (row,) = (row for row in data.dataset_status() if row["name"] == "msvd")
    assert row["ok"] and row["detail"] == "checksums right; no extracted features: msvd-standin-features"


CAPTIONS = {"train": "a b, a c a, \tone_0_4\nb b\ttwo_10_11\n", "val": "z\tthree_0_1\n", "test": "c z, a\tfour_5_9\n"}


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A place with three small files."""
    contents = {f"MSVD_{part}.tsv.gz": gzip.compress(text.encode(), mtime=0) for part, text in CAPTIONS.items()}
    monkeypatch.setattr(msvd, "FILES", write_table(tmp_path / "place" / "msvd", contents))
    return tmp_path / "place"


def test_words_become_numbers_and_frames_stand_before_them(place):
    loaded = data.load_dataset("msvd", str(place), features=3, steps=6)
    one, two = Clip("one_0_4", 4, (("a", "b"), ("a", "c", "a"))), Clip("two_10_11", 1, (("b", "b"),))
    assert loaded.train.clips == [one, two]
    # a four times, b three times, c and z twice
    assert loaded.train.numbers == {"a": 4, "b": 5, "c": 6, "z": 7} and loaded.classes == 8
    x, y = loaded.train.slice(0, 3)
    assert x.shape == (3, 6, 4) and x.dtype == torch.float32
    assert x[..., -1].tolist() == [[BOS, 4, 5, PAD, PAD, PAD], [BOS, 4, 6, 4, PAD, PAD], [BOS, 5, 5, PAD, PAD, PAD]]
    ignored = [IGNORED] * 3
    assert y.view(3, 6).tolist() == [[4, 5, EOS, *ignored], [4, 6, 4, EOS, *ignored[:2]], [5, 5, EOS, *ignored]]
    assert (x[2, :3, :3] == 0).all() and (x[2, 3:, :3] != 0).any(1).all(), "three frames of one second, at the end"
    assert (x[0, :, :3] != 0).any(1).all(), "12 frames of four seconds: the first six"
    assert torch.equal(x[0, :, :3], x[1, :, :3]), "two captions of one clip"
    assert loaded.test.y.tolist() == [6, 7, EOS, 4, EOS] and len(loaded.test) == 2
    short = data.load_dataset("msvd", str(place), features=3, steps=3, vocabulary=6, captions=1)
    assert short.classes == 6 and len(short.train) == 2
    x, y = short.train.slice(0, 1)
    assert x[0, :, -1].tolist() == [BOS, 4, 5] and y.tolist() == [4, 5, EOS]
    x, y = short.test.slice(0, 1)
    assert x[0, :, -1].tolist() == [BOS, UNK, UNK] and y.tolist() == [UNK, UNK, EOS]


@pytest.mark.parametrize(("line", "complaint"), [
    ("a b\n", "MSVD_val.tsv.gz, line 1: expected captions, a tab and a clip id"),
    ("a b\tname_9_3\n", "line 1: expected captions"),
    ("a\tx_0_2\n, \ty_0_2\n", "line 2: clip y_0_2 has no caption"),
])  # fmt: skip
def test_bad_captions(tmp_path, line, complaint):
    (tmp_path / "MSVD_val.tsv.gz").write_bytes(gzip.compress(line.encode()))
    with pytest.raises(InputError, match=complaint):
        msvd_clips.read_clips(tmp_path, "val")


# Features


def test_extracted_features_make_it_the_real_one(place):
    folder = place / "msvd" / "features"
    folder.mkdir()
    arrays = {"one_0_4": 7, "two_10_11": 2, "four_5_9": 9}
    for name, frames in arrays.items():
        rows = np.arange(frames, dtype=np.float16)[:, None] + np.array([1, 2, 3, 4, 5], np.float16)
        np.save(folder / f"{name}.npy", rows)
    loaded = data.load_dataset("msvd", str(place), "never", features=3, steps=4)
    assert (loaded.name, loaded.standin) == ("msvd-subset", False)
    x, _ = loaded.train.slice(0, 3)
    assert x[0, :, :3].tolist() == [[1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6]]
    assert x[2, :, :3].tolist() == [[0, 0, 0], [0, 0, 0], [1, 2, 3], [2, 3, 4]]
    changed = data.load_dataset("msvd", str(place), features=3, steps=4, scored=1)
    assert changed.name == "msvd-subset" and changed.checksum != loaded.checksum
    with pytest.raises(InputError, match=r"one_0_4.npy: 5 features a frame, fewer than dataset.features=6"):
        data.load_dataset("msvd", str(place), features=6)
    (folder / "two_10_11.npy").unlink()
    with pytest.raises(InputError, match=r"1 of 3 clips have no features: two_10_11.npy"):
        data.load_dataset("msvd", str(place), features=3)


@pytest.mark.parametrize(
    "array, complaint",
    [(np.zeros((2, 3)), "expected .frames, features. float16 or float32"), (None, "not a readable .npy file")],
)
def test_bad_features(tmp_path, array, complaint):
    path = tmp_path / "a_0_1.npy"
    path.write_bytes(b"nothing") if array is None else np.save(path, array)
    with pytest.raises(InputError, match=complaint):
        Extracted(tmp_path, 2).check([Clip("a_0_1", 1, (("a",),))])


def test_generated_features_show_a_clips_words():
    source = Generated(512)
    knife = Clip("one_0_4", 4, (("a", "knife"), ("the", "knife")))
    other = Clip("two_0_9", 9, (("a", "knife"), ("a", "sharp", "knife")))
    horse = Clip("three_0_4", 4, (("one", "horse"),))
    frames = source(knife, 40)
    assert frames.shape == (12, 512) and frames.dtype == np.float32 and len(source(other, 5)) == 5
    assert np.array_equal(frames, Generated(512)(knife, 40)) and not np.array_equal(frames[0], frames[1])
    like, unlike = (float(frames.mean(0) @ source(clip, 40).mean(0)) / 512 for clip in (other, horse))
    assert like > 0.8 > 0.2 > abs(unlike)


# The stand-in and minibatches


def test_the_standin_is_the_same_everywhere():
    one = data.load_dataset("msvd", features=8)
    assert (one.name, one.standin, one.classes, one.input_shape) == ("msvd-standin-grammar", True, 69, (40, 9))
    assert one.checksum.startswith("9d4b3ddc") and (len(one.train), len(one.test)) == (9600, 5360)
    seconds = [clip.seconds for clip in one.train.clips]
    assert (min(seconds), max(seconds), statistics.median(seconds)) == (2, 60, 8)
    assert statistics.fmean(seconds) == pytest.approx(9.7, abs=0.1)
    assert one.train.clips[0].captions[0] == ("the", "panda", "is", "eating", "some", "meat")
    timing = data.load_shapes("msvd", features=8)
    assert (timing.name, timing.classes) == ("msvd-standin-grammar (shapes only)", 12594)
    assert data.load_shapes("msvd", vocabulary=99).classes == 99


def test_minibatches():
    dataset = data.load_dataset("msvd", features=8, steps=12, clips=30, captions=2)
    batches = dataset.train.minibatches(10, 2, seed=0)
    assert batches.per_epoch == 6
    rows = torch.cat([batches.indices(6 + i) for i in range(6)])
    assert sorted(rows.tolist()) == list(range(60))
    x, y = batches[3]
    assert x.shape == (10, 12, 9) and y.shape == (120,) and batches.work(3) == 1.0
    again = dataset.train.minibatches(10, 1, seed=0)[3]
    assert torch.equal(again[0], x) and torch.equal(again[1], y)
    words, labels = x[..., -1].long(), y.view(10, 12)
    assert ((words == PAD) == (labels == IGNORED)).all() and ((labels == EOS).sum(1) == 1).all()
    assert ((words[:, 1:] == labels[:, :-1]) | (words[:, 1:] == PAD)).all(), "each label is the next word"
    x, y = data.load_shapes("msvd", features=8, steps=12).train.minibatches(10, 2, seed=0)[3]
    assert x.is_meta and x.shape == (10, 12, 9) and y.is_meta and y.shape == (120,)
