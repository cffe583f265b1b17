"""UCF101's features: their files, extraction from videos, and a training on them."""

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
from repro.data.readers import ucf101_videos
from repro.data.readers.ucf101_videos import Extracted, Frames, Video
from repro.data.sets import ucf101
from tests.support.records import summaries
from tests.unit.data.conftest import LISTS, needs_lists

SMALLEST = {"videos": 101, "test_videos": 2}


def smallest() -> list[Video]:
    """101 training videos and two test videos."""
    return [video for part in ucf101._Options(**SMALLEST).chosen(ucf101_videos.read_lists(LISTS, 1)) for video in part]


@needs_lists
def test_extracted_features(place, monkeypatch):
    videos, folder = smallest(), place / "ucf101" / "features"
    for video in videos:
        values = np.full((video.frames, 2048), video.label + 1, np.float16) + np.arange(2048, dtype=np.float16) / 2048
        extract_ucf101.write_features(folder / f"{video.name}.npy", values)
    dataset = data.load_dataset("ucf101", str(place), "never", **SMALLEST)
    assert (dataset.name, dataset.standin, dataset.input_shape[1]) == ("ucf101-subset", False, 2048)
    x, y = dataset.train.minibatches(4, 1, 0)[5]
    assert x.dtype == torch.float32 and torch.equal(x[:, -1, 0], y + 1.0) and torch.equal(x[:, -1, 1024], y + 1.5)
    narrow = data.load_dataset("ucf101", str(place), features=4, stride=3, max_frames=20, **SMALLEST)
    assert narrow.train.slice(0, 3)[0].shape == (3, 20, 4)
    assert narrow.checksum != dataset.checksum and narrow.input_shape[1] == 4
    with monkeypatch.context() as patch:
        patch.setattr(Extracted, "load", None)  # headers are read once, as a marker in the cache shows
        assert data.load_dataset("ucf101", str(place), **SMALLEST).checksum == dataset.checksum
    path, frames = folder / f"{videos[50].name}.npy", videos[50].frames
    for array, complaint in (
        (np.zeros((frames - 1, 2048), np.float16), r"v_.*npy: features of \d+ frames, but the list has \d+ for this"),
        (np.zeros((frames, 1024), np.float16), r"expected \(frames, 2048\) float16 or float32"),
        (b"features", "not a readable .npy file"),
        (None, r"1 of 103 videos have no features: .*npy .data.videos=DIR"),
    ):
        path.unlink()
        if array is not None:
            path.write_bytes(array) if isinstance(array, bytes) else np.save(path, array)
        with pytest.raises(InputError, match=complaint) as caught:
            data.load_dataset("ucf101", str(place), **SMALLEST)
        assert str(folder) in str(caught.value) and "\n" not in str(caught.value)


def test_extraction_continues_where_it_stopped(tmp_path):
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

    out, lines = tmp_path / "out", []
    todo = extract_ucf101.missing_features(tmp_path / "videos", out, videos)
    extract_ucf101.extract_videos(todo[:1], read, network, lines.append)
    todo = extract_ucf101.missing_features(tmp_path / "videos", out, videos)
    assert [video for video, _, _ in todo] == videos[1:], "existing files are kept"
    extract_ucf101.extract_videos(todo, read, network, lines.append)
    source = Extracted(out, 2048, Frames())
    for video, last in zip(videos, (69, 69, 71)):  # exact; one repeated; two cut
        assert source(video)[-1, 0] == last and len(source(video)) == video.frames
    assert sorted(path.name for path in (out / "A").iterdir()) == [f"v_A_g01_c0{i}.npy" for i in range(3)]
    decoded[videos[0].name] = 75
    (out / f"{videos[0].name}.npy").unlink()
    with pytest.raises(InputError, match=r"v_A_g01_c00\.avi: 75 frames decoded, but the list has 70"):
        extract_ucf101.extract_videos(
            extract_ucf101.missing_features(tmp_path / "videos", out, videos), read, network, lines.append
        )
    assert not (out / f"{videos[0].name}.npy").exists()


def small_inception(device: str) -> extract_ucf101.Network:
    """Instead of Inception-v3: the mean of each corner of a frame, times fixed random weights."""
    weights = torch.randn(12, 2048, generator=torch.Generator().manual_seed(0)) / 12**0.5

    def features(frames):
        images = torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2).float() / 255
        return (torch.nn.functional.adaptive_avg_pool2d(images, 2).flatten(1) @ weights).numpy()

    return features


def write_clip(path: Path, video: Video) -> None:
    """A film of 16x16 pixels with the list's number of frames: its class's colour, and a moving square."""
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
    """The films of 101 training and two test videos, decoded by PyAV, with a small network instead of Inception-v3."""
    pytest.importorskip("av", reason="PyAV is not installed: pip install av (the extra [dev])")
    monkeypatch.setenv("REPRO_DATA", str(place))
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(extract_ucf101, "load_inception", small_inception)
    films, run = tmp_path / "films", ["run", "eagersgd/fig13", "--scale", "quick", "--no-mlflow", "--no-report"]
    run += ["testbed=paper/eagersgd-lstm", "strategy=dsync", "workers=2", "batch=8", "dataset.features=2048"]
    run += ["dataset.standin=never", "eval_train=0", "model.hidden=16", "model.dense=8"]
    run += ["dataset.test_videos=2", f"data.videos={films}"]

    def error() -> str:
        assert cli.main(run) == 2
        line = capsys.readouterr().err.strip().splitlines()[-1]
        assert line.startswith("repro: error: ")
        return line

    films.mkdir()
    assert "103 of 103 videos are missing: v_" in error()
    videos = smallest()
    for video in videos:
        write_clip(films / f"{video.name}.avi", video)
    broken = films / f"{videos[7].name}.avi"
    whole = broken.read_bytes()
    broken.write_bytes(b"no film" * 99)
    assert f"{broken}: not a readable video" in error()
    broken.write_bytes(whole)
    assert cli.main([*run, "--json"]) == 0
    shown = capsys.readouterr()
    assert f"features of 96 videos in {films}" in shown.err and "ucf101/features" in shown.err, "seven are complete"
    (summary,) = summaries(shown.out)
    assert summary["dataset"]["name"] == "ucf101-subset" and not summary["dataset"]["standin"]
    assert summary["final"]["top1"] >= 0
    films.rename(tmp_path / "elsewhere")
    films.mkdir()
    assert cli.main(run) == 0 and "features of" not in capsys.readouterr().err, "existing files are kept"


def test_a_wrong_folder_and_a_data_set_without_videos(tmp_path):
    with pytest.raises(InputError, match=r"data\.videos=films: data set 'mnist' is not made of videos"):
        data.extract_features("mnist", "films", None, "cpu", print)
    with pytest.raises(InputError, match=f"videos in {tmp_path / 'films'}: not a folder"):
        extract_ucf101.missing_features(tmp_path / "films", tmp_path, [])


def test_no_claim_judges_generated_features():
    """Claims about accuracy are not tested with a stand-in, so claims that read these scores must be of that kind."""
    file = claims.read_claims(PROJECT / "reports/eagersgd/claims.yaml")
    of_scores = [claim for claim in file.claims if "fig13" in claim.experiment and "final" in str(claim.value)]
    assert of_scores and {claim.about for claim in of_scores} == {"accuracy"}
