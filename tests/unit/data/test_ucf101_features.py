"""UCF101's features: files of them, how they are extracted from videos, what is trained and judged on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from repro import data
from repro.answers.claims import claims
from repro.cli import main as cli
from repro.core.errors import InputError
from repro.core.paths import PROJECT
from repro.data import extract_ucf101
from repro.data.readers import ucf101_lists
from repro.data.readers.ucf101_lists import Frames, Video
from repro.data.readers.video_features import Extracted
from repro.data.sets import ucf101
from tests.support.records import summaries
from tests.unit.data.conftest import LISTS
from tests.unit.data.test_ucf101 import needs_lists


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
@pytest.mark.usefixtures("pooled")
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
