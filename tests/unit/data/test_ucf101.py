"""UCF101: lists, minibatches of similar length, stand-ins."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
import torch

from repro import data
from repro.core.errors import InputError, NotHere
from repro.data.readers import ucf101_videos
from repro.data.readers.sequences import Buckets, Videos
from repro.data.readers.ucf101_videos import Frames, Generated, Video
from repro.data.sets import ucf101
from tests.unit.data.conftest import LISTS, needs_lists

SMALL = {"features": 8, "stride": 16}


def numbers(videos: list[Video]) -> tuple[int, int, float, float]:
    frames = [video.frames for video in videos]
    return min(frames), max(frames), statistics.median(frames), statistics.pstdev(frames)


# Lists and lengths


@pytest.mark.parametrize("real", [pytest.param(True, marks=needs_lists), False])
def test_real_and_generated_lengths_are_the_papers(real):
    """Figure 2(a): 29 to 1,776 frames, median 167 (168 of the training videos alone), standard deviation 97."""
    train, test = ucf101_videos.read_lists(LISTS, 1) if real else ucf101_videos.generate_videos()
    assert (len(train), len(test), len({video.name for video in train + test})) == (9537, 3783, 13320)
    least, most, median, deviation = numbers(train + test)
    assert (least, most) == (29, 1776) and abs(median - 167) <= (not real) and abs(deviation - 97) < 2
    assert not {video.group for video in train} & {video.group for video in test}, "test groups are not in training"
    counts = np.bincount([video.label for video in train])
    assert len(counts) == 101 and (real or counts.max() - counts.min() == 1)
    if real:
        assert numbers(train)[:3] == (29, 1776, 168) and numbers(train)[3] == pytest.approx(96.63, abs=0.01)


@pytest.mark.parametrize(("file", "text", "complaint"), [
    ("trainlist01.txt", "A/v_A_g01_c01.avi 1\nA/v_A_g01_c02.avi\n", "trainlist01.txt, line 2: 1 words, expected 2"),
    ("trainlist01.txt", "B/v_B_g01_c01.avi 2\n", "line 1: B/v_B_g01_c01: its class is not in classInd.txt"),
    ("trainlist01.txt", "A/v_A_g09_c01.avi 1\n", "line 1: A/v_A_g09_c01: no rawframes list has its frames"),
    ("ucf101_val_split_1_rawframes.txt", "A/v_A_g01_c02 many 0\n", "line 1: 'many' is not a whole number above 0"),
])  # fmt: skip
def test_bad_lists(tmp_path, file, text, complaint):
    good = {
        "classInd.txt": "1 A\n",
        "trainlist01.txt": "A/v_A_g01_c01.avi 1\r\n",
        "testlist01.txt": "",
        "ucf101_train_split_1_rawframes.txt": "A/v_A_g01_c01 33 0\n",
        "ucf101_val_split_1_rawframes.txt": "",
    }
    for name, body in good.items():
        (tmp_path / name).write_text(body)
    assert ucf101_videos.read_lists(tmp_path, 1) == ([Video("A/v_A_g01_c01", 0, 33)], [])
    (tmp_path / file).write_text(text)
    with pytest.raises(InputError, match=complaint):
        ucf101_videos.read_lists(tmp_path, 1)


# Minibatches


def made(**options) -> ucf101.Dataset:
    return data.load_dataset("ucf101", standin="always", **{**SMALL, **options})


def test_an_epochs_minibatches_are_disjoint_and_of_similar_length():
    split = made(videos=1010).train
    batches = split.minibatches(16, 4, seed=3)
    assert isinstance(batches, Buckets) and batches.per_epoch == 60
    for epoch in (0, 5):
        rows = torch.cat([batches.indices(epoch * 60 + slot) for slot in range(60)])
        assert len(rows.unique()) == 960
    spread = [int(split.lengths[batches.indices(i)].max() - split.lengths[batches.indices(i)].min()) for i in range(60)]
    assert statistics.median(spread) <= 2 and split.lengths.max() - split.lengths.min() > 15
    assert len({batches.length(i) for i in range(4)}) > 1, "workers of one iteration have different work"
    assert not torch.equal(batches.indices(0).sort().values, batches.indices(60).sort().values)


def test_groups_of_equal_width():
    """Few videos are long, so groups of equal count differ in width."""
    splits = {name: made(videos=1010, buckets=10, bucketing=name).train for name in ("count", "width")}
    batches = {name: split.minibatches(16, 4, seed=3) for name, split in splits.items()}
    lengths = splits["width"].lengths
    width = (int(lengths.max() - lengths.min()) + 1) / 10
    spread = {
        name: [int(one.max() - one.min()) for one in (lengths[each.indices(i)] for i in range(60))]
        for name, each in batches.items()
    }
    assert statistics.median(spread["width"]) < width and sum(one > 2 * width for one in spread["width"]) <= 10
    assert max(spread["count"]) > 2 * width, "a tenth of the videos are the longest"
    rows = torch.cat([batches["width"].indices(slot) for slot in range(60)])
    assert len(rows.unique()) == 960


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_an_id_is_the_same_minibatch_for_any_number_of_workers_and_after_resume(workers):
    split = made(videos=320).train  # 20 minibatches of 16: whole iterations for each
    reference = split.minibatches(16, 1, seed=0)
    batches = split.minibatches(16, workers, seed=0)
    assert batches.per_epoch == reference.per_epoch == 20
    for minibatch in (57, 3, 20, 0):
        (x, y), (other, labels) = batches[minibatch], reference[minibatch]
        assert torch.equal(x, other) and torch.equal(y, labels)
    assert not torch.equal(split.minibatches(16, 1, seed=1)[0][1], reference[0][1])


def test_prefetched_minibatches_are_the_same(monkeypatch):
    """A GPU prefetches; a CPU reads a minibatch when it is drawn."""
    ids = [0, 2, 4, 6, 3, 20, 41, 62, 83]
    split, rows, read = made(videos=320).train, [], Videos._read
    monkeypatch.setattr(Videos, "_read", lambda self, one: rows.append(one) or read(self, one))
    batches = split.minibatches(16, 1, seed=0)
    plain = [batches[minibatch][0] for minibatch in ids]
    assert rows == [tuple(batches.indices(minibatch).tolist()) for minibatch in ids]
    monkeypatch.setattr(Videos, "lookahead", 2)
    rows.clear()
    batches = split.minibatches(16, 1, seed=0)
    for minibatch, x in zip(ids, plain):
        assert torch.equal(batches[minibatch][0], x)
        assert len(batches.split.prefetch) <= 3
    started = rows.count(tuple(batches.indices(6).tolist()))
    assert started == 1 and tuple(batches.indices(8).tolist()) in rows, "6 and 8 were started after 4"


def test_padding_is_at_the_front_and_work_is_relative_to_the_mean_length():
    dataset = made(videos=320)
    batches = dataset.train.minibatches(8, 1, seed=0)
    nominal = round(dataset.train.lengths.double().mean().item())
    assert dataset.input_shape == (nominal, 8) and dataset.kind == "sequences" and dataset.classes == 101
    for minibatch in range(10):
        rows, (x, y) = batches.indices(minibatch), batches[minibatch]
        lengths = dataset.train.lengths[rows]
        assert x.shape == (8, lengths.max(), 8) and y.tolist() == [dataset.train.videos[row].label for row in rows]
        padding = (x == 0).all(-1)
        assert (padding.sum(1) == lengths.max() - lengths).all(), "as many zeros as a video is shorter"
        assert (padding.int().diff(dim=1) <= 0).all(), "all of them before its first frame"
        assert batches.work(minibatch) == lengths.max().item() / nominal
    works = [batches.work(i) for i in range(batches.per_epoch)]
    assert 0.9 < statistics.fmean(works) < 1.3 and max(works) > 2


def test_evaluation_has_every_video_once_with_little_padding():
    split = made(test_videos=303).test
    labels, pieces = [], list(split.in_order())
    for x, y in pieces:
        assert (x == 0).all(-1).sum(1).max() <= max(1, x.shape[1] // 16)
        labels += y.tolist()
    assert sorted(labels) == sorted(split.y.tolist()) and len(labels) == 303 and len(pieces) < 60


def test_too_large_a_batch_and_ids_below_zero():
    dataset = made(videos=101)
    with pytest.raises(InputError, match="batch=102: more than the 101 training samples of ucf101-standin-lengths"):
        dataset.iterations(102)
    with pytest.raises(IndexError):
        dataset.train.minibatches(8, 1, 0)[-1]


# Stand-ins


@needs_lists
def test_missing_files_are_replaced_under_another_name(place, monkeypatch):
    nothing = data.load_dataset("ucf101", **SMALL)
    assert (nothing.name, nothing.standin) == ("ucf101-standin-lengths", True)
    lists = data.load_dataset("ucf101", str(place), **SMALL)
    assert (lists.name, lists.standin) == ("ucf101-standin-features", True)
    assert lists.train.lengths.tolist() == [-(-v.frames // 16) for v in lists.train.videos]
    assert lists.checksum != nothing.checksum
    with pytest.raises(NotHere, match=r"lists in .*, but no extracted features .*data.videos=DIR"):
        data.load_dataset("ucf101", str(place), "never")
    with pytest.raises(NotHere, match=r"'ucf101' not found .*repro data fetch ucf101"):
        data.load_dataset("ucf101", None, "never")
    lines = []
    assert data.ensure_dataset("ucf101", str(place), say=lines.append) == place / "ucf101"
    assert "checksums right; no extracted features: ucf101-standin-features" in lines[0]
    row = next(row for row in data.dataset_status(str(place)) if row["name"] == "ucf101")
    assert row["ok"] and row["where"] == str(place / "ucf101") and "ucf101-standin-features" in row["detail"]
    monkeypatch.setattr(ucf101, "MIRRORS", ["http://127.0.0.1:1/"])
    assert data.ensure_dataset("ucf101", say=lines.append) is None and "ucf101-standin-lengths" in lines[1]


def test_a_video_depends_on_its_name_alone():
    video, frames = Video("A/v_A_g09_c02", 3, 160), Frames(4, 30)
    one, two = (Generated(16, frames)(video) for _ in range(2))
    assert one.shape == (30, 16) and one.dtype == np.float32 and (one == two).all()
    assert (Generated(16, frames)(video._replace(name="A/v_A_g09_c03")) == one).mean() < 0.05
    values = np.concatenate([Generated(64, Frames())(v) for v in ucf101_videos.generate_videos()[0][:20]])
    assert abs(values.mean()) < 0.1 and 0.9 < values.std() < 1.3


def test_classes_come_in_pairs_that_only_time_tells_apart():
    scripts = Generated(8, Frames()).scripts
    assert scripts.shape == (101, 3) and len({tuple(one) for one in scripts}) == 101
    assert (scripts[0:100:2] == scripts[1:100:2, ::-1]).all() and all(len(set(one)) == 3 for one in scripts.tolist())


# Shapes only


@needs_lists
def test_timing_knows_the_real_lengths(place):
    timing, real = data.load_shapes("ucf101", str(place)), data.load_dataset("ucf101", str(place), features=8)
    assert (timing.name, timing.standin) == ("ucf101 (shapes only)", False) and timing.input_shape == (187, 2048)
    one, two = (dataset.train.minibatches(16, 8, 5, "cpu") for dataset in (timing, real))
    assert [one.work(i) for i in range(50)] == [two.work(i) for i in range(50)]
    x, y = one[3]
    assert x.is_meta and x.shape == (16, one.length(3), 2048) and y.shape == (16,) and y.is_meta
    none = data.load_shapes("ucf101")
    assert (none.name, none.standin) == ("ucf101-standin-lengths (shapes only)", True)
    assert none.checksum != timing.checksum == data.load_shapes("ucf101", str(place)).checksum
