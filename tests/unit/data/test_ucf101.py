"""UCF101: lists, lengths, minibatches of similar length, extracted features, the stand-ins."""

from __future__ import annotations

import statistics
from pathlib import Path

import numpy as np
import pytest
import torch

from repro import data
from repro.answers.claims import claims
from repro.cli import main as cli
from repro.core.errors import InputError, NotHere
from repro.core.paths import PROJECT
from repro.data import extract_ucf101
from repro.data.readers import ucf101_lists
from repro.data.readers.sequences import Buckets
from repro.data.readers.ucf101_lists import Frames, Video
from repro.data.readers.video_features import Extracted, Generated
from repro.data.readers.videos import Videos
from repro.data.sets import ucf101
from tests.support.records import summaries
from tests.unit.data.test_data import real

CPU = torch.device("cpu")


LISTS = real("ucf101", ucf101)
needs_lists = pytest.mark.skipif(LISTS is None, reason="UCF101's lists are not in $REPRO_DATA or ../shared/data")
SMALL = {"features": 8, "stride": 16}


@pytest.fixture
def place(tmp_path) -> Path:
    """A place to search with the real lists, to which features can be added."""
    (tmp_path / "place" / "ucf101").mkdir(parents=True)
    for name in ucf101.FILES:
        (tmp_path / "place" / "ucf101" / name).symlink_to(LISTS / name)
    return tmp_path / "place"


def numbers(videos: list[Video]) -> tuple[int, int, float, float]:
    frames = [video.frames for video in videos]
    return min(frames), max(frames), statistics.median(frames), statistics.pstdev(frames)


# Lists and lengths


@needs_lists
def test_the_real_lengths_are_the_papers():
    """Figure 2(a): 29 to 1,776 frames, median 167 (168 of the training videos alone), standard deviation 97."""
    train, test = ucf101_lists.read(LISTS, 1)
    assert (len(train), len(test), len({video.name for video in train + test})) == (9537, 3783, 13320)
    assert numbers(train)[:3] == (29, 1776, 168) and numbers(train)[3] == pytest.approx(96.63, abs=0.01)
    assert numbers(train + test)[:3] == (29, 1776, 167)
    assert {video.label for video in train} == set(range(101))
    assert not {video.group for video in train} & {video.group for video in test}, "test groups are none of training's"


def test_made_up_lengths_are_in_the_papers_distribution():
    train, test = ucf101_lists.generate()
    assert (len(train), len(test), len({video.name for video in train + test})) == (9537, 3783, 13320)
    least, most, median, deviation = numbers(train + test)
    assert (least, most) == (29, 1776) and abs(median - 167) <= 1 and abs(deviation - 97) < 2
    assert not {video.group for video in train} & {video.group for video in test}
    counts = np.bincount([video.label for video in train])
    assert len(counts) == 101 and counts.max() - counts.min() == 1


@pytest.mark.parametrize(
    "file, text, complaint",
    [
        ("trainlist01.txt", "A/v_A_g01_c01.avi 1\nA/v_A_g01_c02.avi\n", "trainlist01.txt, line 2: 1 words, expected 2"),
        ("trainlist01.txt", "B/v_B_g01_c01.avi 2\n", "line 1: B/v_B_g01_c01: its class is not in classInd.txt"),
        ("trainlist01.txt", "A/v_A_g09_c01.avi 1\n", "line 1: A/v_A_g09_c01: no rawframes list has its frames"),
        ("ucf101_val_split_1_rawframes.txt", "A/v_A_g01_c02 many 0\n", "line 1: 'many' is not a whole number above 0"),
    ],
)
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
    assert ucf101_lists.read(tmp_path, 1) == ([Video("A/v_A_g01_c01", 0, 33)], [])
    (tmp_path / file).write_text(text)
    with pytest.raises(InputError, match=complaint):
        ucf101_lists.read(tmp_path, 1)


# Minibatches


def made(**options) -> ucf101.Dataset:
    return data.load("ucf101", standin="always", **{**SMALL, **options})


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


def test_groups_of_equal_width_are_as_wide_and_not_as_full():
    """Long videos are few: their groups have fewer, and minibatches of short ones come from narrow groups too."""
    of = {name: made(videos=1010, buckets=10, bucketing=name).train for name in ("count", "width")}
    batches = {name: split.minibatches(16, 4, seed=3) for name, split in of.items()}
    lengths = of["width"].lengths
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


def test_what_a_gpu_will_want_is_read_ahead_and_is_what_would_be_drawn(monkeypatch):
    """A CPU, whose cores compute, reads a minibatch when it is drawn."""
    ids = [0, 2, 4, 6, 3, 20, 41, 62, 83]
    split = made(videos=320).train
    plain = [split.minibatches(16, 1, seed=0)[minibatch][0] for minibatch in ids]
    read, reader = [], Videos._read
    monkeypatch.setattr(Videos, "_read", lambda self, rows: read.append(rows) or reader(self, rows))
    batches = split.minibatches(16, 1, seed=0)
    for minibatch in ids[:3]:
        batches[minibatch]
    assert read == [tuple(batches.indices(minibatch).tolist()) for minibatch in ids[:3]]
    monkeypatch.setattr(Videos, "lookahead", 2)
    batches = split.minibatches(16, 1, seed=0)
    for minibatch, x in zip(ids, plain):
        assert torch.equal(batches[minibatch][0], x)
        assert len(batches.split.prefetch) <= 3
    begun = read.count(tuple(batches.indices(6).tolist()))
    assert begun == 1 and tuple(batches.indices(8).tolist()) in read, "6 was begun behind 4, and so was 8"


def test_zeros_come_first_and_work_counts_in_mean_lengths():
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
    seen, pieces = [], list(split.in_order())
    for x, y in pieces:
        assert (x == 0).all(-1).sum(1).max() <= max(1, x.shape[1] // 16)
        seen += y.tolist()
    assert sorted(seen) == sorted(split.y.tolist()) and len(seen) == 303 and len(pieces) < 60


def test_too_large_a_batch_and_ids_below_zero():
    dataset = made(videos=101)
    with pytest.raises(InputError, match="batch=102: more than the 101 training samples of ucf101-standin-lengths"):
        dataset.iterations(102)
    with pytest.raises(IndexError):
        dataset.train.minibatches(8, 1, 0)[-1]


# Stand-ins


@needs_lists
def test_what_is_missing_is_made_up_and_named_so(place, monkeypatch):
    nothing = data.load("ucf101", **SMALL)
    assert (nothing.name, nothing.standin) == ("ucf101-standin-lengths", True)
    lists = data.load("ucf101", str(place), **SMALL)
    assert (lists.name, lists.standin) == ("ucf101-standin-features", True)
    assert lists.train.lengths.tolist() == [-(-v.frames // 16) for v in ucf101_lists.read(LISTS, 1)[0]]
    assert len({lists.checksum, nothing.checksum, data.load("ucf101", str(place), features=8).checksum}) == 3
    with pytest.raises(NotHere, match=r"lists in .*, but no extracted features .*data.videos=DIR"):
        data.load("ucf101", str(place), "never")
    with pytest.raises(NotHere, match=r"'ucf101' not found .*repro data fetch ucf101"):
        data.load("ucf101", None, "never")
    said = []
    assert data.ensure("ucf101", str(place), say=said.append) == place / "ucf101"
    assert "checksums right; no extracted features: ucf101-standin-features" in said[0]
    row = next(row for row in data.status(str(place)) if row["name"] == "ucf101")
    assert row["ok"] and row["where"] == str(place / "ucf101") and "ucf101-standin-features" in row["detail"]
    monkeypatch.setattr(ucf101, "MIRRORS", ["http://127.0.0.1:1/"])
    assert data.ensure("ucf101", say=said.append) is None and "ucf101-standin-lengths" in said[1]


def test_a_video_depends_on_its_name_alone():
    video, frames = Video("A/v_A_g09_c02", 3, 160), Frames(4, 30)
    one, two = (Generated(16, frames)(video) for _ in range(2))
    assert one.shape == (30, 16) and one.dtype == np.float32 and (one == two).all()
    assert (Generated(16, frames)(video._replace(name="A/v_A_g09_c03")) == one).mean() < 0.05
    values = np.concatenate([Generated(64, Frames())(v) for v in ucf101_lists.generate()[0][:20]])
    assert abs(values.mean()) < 0.1 and 0.9 < values.std() < 1.3


def test_classes_come_in_pairs_that_only_time_tells_apart():
    scripts = Generated(8, Frames()).scripts
    assert scripts.shape == (101, 3) and len({tuple(one) for one in scripts}) == 101
    assert (scripts[0:100:2] == scripts[1:100:2, ::-1]).all() and all(len(set(one)) == 3 for one in scripts.tolist())


# Shapes only


@needs_lists
def test_timing_knows_the_real_lengths(place):
    timing, real = data.shapes("ucf101", str(place)), data.load("ucf101", str(place), features=8)
    assert (timing.name, timing.standin) == ("ucf101 (shapes only)", False) and timing.input_shape == (187, 2048)
    one, two = (dataset.train.minibatches(16, 8, 5, "cpu") for dataset in (timing, real))
    assert [one.work(i) for i in range(50)] == [two.work(i) for i in range(50)]
    x, y = one[3]
    assert x.is_meta and x.shape == (16, one.length(3), 2048) and y.shape == (16,) and y.is_meta
    none = data.shapes("ucf101")
    assert (none.name, none.standin) == ("ucf101-standin-lengths (shapes only)", True)
    assert none.checksum != timing.checksum == data.shapes("ucf101", str(place)).checksum


# Extracted features


def write_features(folder: Path, videos: list[Video], dtype=np.float16) -> None:
    for video in videos:
        values = np.full((video.frames, 2048), video.label + 1, dtype) + np.arange(2048, dtype=dtype) / 2048
        extract_ucf101.write(folder / f"{video.name}.npy", values)


@pytest.fixture
def extracted(place) -> tuple[Path, list[Video]]:
    """The features of 101 training videos and two of the test."""
    options = ucf101._Options(videos=101, test_videos=2)
    train, test = options.chosen(ucf101_lists.read(LISTS, 1))
    short = [video for video in train + test]
    write_features(place / "ucf101" / "features", short)
    return place, short


@needs_lists
def test_extracted_features(extracted, monkeypatch):
    place, _ = extracted
    given = {"videos": 101, "test_videos": 2}
    dataset = data.load("ucf101", str(place), "never", **given)
    assert (dataset.name, dataset.standin, dataset.input_shape[1]) == ("ucf101-subset", False, 2048)
    x, y = dataset.train.minibatches(4, 1, 0)[5]
    assert x.dtype == torch.float32 and torch.equal(x[:, -1, 0], y + 1.0) and torch.equal(x[:, -1, 1024], y + 1.5)
    narrow = data.load("ucf101", str(place), features=4, stride=3, max_frames=20, **given)
    assert narrow.train.slice(0, 3)[0].shape == (3, 20, 4)
    assert narrow.checksum != dataset.checksum and narrow.input_shape[1] == 4
    monkeypatch.setattr(Extracted, "load", None)  # headers are read once: the note in the cache is there
    assert data.load("ucf101", str(place), **given).checksum == dataset.checksum


@needs_lists
@pytest.mark.parametrize(
    "damage, complaint",
    [
        ("short", r"v_.*npy: features of \d+ frames, but the list has \d+ for this video"),
        ("narrow", r"expected \(frames, 2048\) float16 or float32"),
        ("not numpy", "not a readable .npy file"),
        ("absent", r"1 of 103 videos have no features: .*npy .data.videos=DIR"),
    ],
)
def test_bad_feature_files(extracted, damage, complaint):
    place, videos = extracted
    path = place / "ucf101" / "features" / f"{videos[50].name}.npy"
    frames = videos[50].frames
    if damage == "absent":
        path.unlink()
    elif damage == "not numpy":
        path.write_bytes(b"features")
    else:
        np.save(path, np.zeros({"short": (frames - 1, 2048), "narrow": (frames, 1024)}[damage], np.float16))
    with pytest.raises(InputError, match=complaint) as caught:
        data.load("ucf101", str(place), videos=101, test_videos=2)
    assert str(path.parent.parent) in str(caught.value) and "\n" not in str(caught.value)


# Extraction


def test_extraction_goes_on_where_it_stopped(tmp_path):
    videos = [Video(f"A/v_A_g01_c0{i}", 0, 70 + i) for i in range(3)]
    for video in videos:
        path = tmp_path / "videos" / f"{video.name}.avi"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    decoded = {videos[0].name: 70, videos[1].name: 70, videos[2].name: 74}  # of 70, 71, 72 on the list

    def read(path: Path):
        for number in range(decoded[f"A/{path.stem}"]):
            yield np.full((4, 4, 3), number, np.uint8)

    def network(frames):
        assert len(frames) <= extract_ucf101.BATCH
        return np.stack([np.full(2048, frame[0, 0, 0], np.float32) for frame in frames])

    out, said = tmp_path / "out", []
    todo = extract_ucf101.plan(tmp_path / "videos", out, videos)
    extract_ucf101.extract(todo[:1], read, network, said.append)
    todo = extract_ucf101.plan(tmp_path / "videos", out, videos)
    assert [video for video, _, _ in todo] == videos[1:], "what is there is kept"
    extract_ucf101.extract(todo, read, network, said.append)
    source = Extracted(out, 2048, Frames())
    for video, last in zip(videos, (69, 69, 71)):  # exact; one repeated; two cut
        assert source(video)[-1, 0] == last and len(source(video)) == video.frames
    assert sorted(path.name for path in (out / "A").iterdir()) == [f"v_A_g01_c0{i}.npy" for i in range(3)]
    decoded[videos[0].name] = 75
    (out / f"{videos[0].name}.npy").unlink()
    with pytest.raises(InputError, match=r"v_A_g01_c00\.avi: 75 frames decoded, but the list has 70"):
        extract_ucf101.extract(extract_ucf101.plan(tmp_path / "videos", out, videos), read, network, said.append)
    assert not (out / f"{videos[0].name}.npy").exists()


def small_inception(device: str) -> extract_ucf101.Network:
    """In the place of Inception-v3: the mean of each corner of a frame, times fixed random weights."""
    weights = torch.randn(12, 2048, generator=torch.Generator().manual_seed(0)) / 12**0.5

    def features(frames):
        images = torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2).float() / 255
        return (torch.nn.functional.adaptive_avg_pool2d(images, 2).flatten(1) @ weights).numpy()

    return features


def write_clip(path: Path, video: Video) -> None:
    """A real film of as many frames as the list has, of 16x16 pixels: its class's colour, and a moving square."""
    import av

    path.parent.mkdir(parents=True, exist_ok=True)
    colour = np.random.default_rng(video.label).integers(0, 256, 3, np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mjpeg", rate=25, width=16, height=16, pix_fmt="yuvj420p")
        for number in range(video.frames):
            pixels = np.full((16, 16, 3), colour, np.uint8)
            pixels[:4, number % 12 : number % 12 + 4] = 255
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode(None))


@needs_lists
def test_one_command_goes_from_videos_to_features_to_a_trained_lstm(tmp_path, place, capsys, monkeypatch):
    """The films of 101 training and two test videos, decoded by PyAV; a small network in the place of Inception-v3."""
    pytest.importorskip("av", reason="PyAV is not installed: pip install av (the extra [dev])")
    monkeypatch.setenv("REPRO_DATA", str(place))
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(extract_ucf101, "inception", small_inception)
    films, run = tmp_path / "films", ["run", "eagersgd/fig13", "--scale", "quick", "--no-mlflow", "--no-report"]
    run += ["testbed=paper/eagersgd-lstm", "strategy=dsync", "workers=2", "batch=8", "dataset.features=2048"]
    run += ["dataset.standin=never", "eval_train=0"]
    run += ["dataset.test_videos=2", f"data.videos={films}"]

    def told() -> str:
        assert cli.main(run) == 2
        error = capsys.readouterr().err.strip().splitlines()[-1]
        assert error.startswith("repro: error: ")
        return error

    assert f"videos in {films}: not a folder" in told()
    films.mkdir()
    assert "103 of 103 videos are missing: v_" in told()
    wanted = [
        video
        for part in ucf101._Options(videos=101, test_videos=2).chosen(ucf101_lists.read(LISTS, 1))
        for video in part
    ]
    for video in wanted:
        write_clip(films / f"{video.name}.avi", video)
    broken = films / f"{wanted[7].name}.avi"
    whole = broken.read_bytes()
    broken.write_bytes(b"no film" * 99)
    assert f"{broken}: not a readable video" in told()
    broken.write_bytes(whole)
    assert cli.main([*run, "--json"]) == 0
    shown = capsys.readouterr()
    assert f"features of 96 videos in {films}" in shown.err and "ucf101/features" in shown.err, "seven were there"
    (summary,) = summaries(shown.out)
    assert summary["dataset"]["name"] == "ucf101-subset" and not summary["dataset"]["standin"]
    assert summary["final"]["top1"] >= 0
    films.rename(tmp_path / "elsewhere")
    films.mkdir()
    assert cli.main(run) == 0 and "features of" not in capsys.readouterr().err, "what is there is kept"


def test_only_what_is_made_of_videos_takes_a_folder_of_them():
    with pytest.raises(InputError, match=r"data\.videos=films: data set 'mnist' is not made of videos"):
        data.extract("mnist", "films", None, "cpu", print)


def test_no_claim_judges_generated_features():
    """A claim about accuracy is not testable with a stand-in; each that reads a score of these runs is one."""
    file = claims.read(PROJECT / "reports/eagersgd/claims.yaml")
    read = [claim for claim in file.claims if "fig13" in claim.experiment and "final" in str(claim.value)]
    assert read and {claim.about for claim in read} == {"accuracy"}
