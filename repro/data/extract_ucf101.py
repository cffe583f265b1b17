"""Extracts UCF101's features from its videos: `repro run eagersgd/fig13 --scale paper data.videos=DIR`.

Every frame is passed through torchvision's Inception-v3 (ImageNet weights, which torchvision downloads) up to its last
pooling layer, and written to <Class>/<video>.npy, (frames, 2048) float16, which the data set `ucf101` reads. eager-SGD
section 6.3 names the network but publishes neither weights nor preprocessing, so torchvision's are used. It takes about
a GPU-hour.

Existing files are kept, so the same command continues an interrupted extraction. Decoders differ by a frame or two at a
video's end: features are cut to the list's number of frames, or the last frame is repeated up to TOLERANCE times. A
larger difference is an error.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from repro.core.errors import InputError, NotHere, some_of
from repro.data.readers.ucf101_videos import Video

TOLERANCE = 2
BATCH = 64

Reader = Callable[[Path], Iterator[np.ndarray]]  # a video file -> its frames (height, width, 3), uint8 RGB
Network = Callable[[Sequence[np.ndarray]], np.ndarray]  # frames -> features (n, 2048)


def extract_missing(videos: Path, out: Path, wanted: Sequence[Video], device: str, say: Callable[[str], Any]) -> None:
    """Extract the wanted videos' features that `out` lacks. If none is missing, no decoder or network is needed."""
    if todo := missing_features(videos, out, wanted):
        read, network = video_reader(), load_inception(device)
        say(f"data: features of {len(todo)} videos in {videos}, extracted to {out} on {device}")
        extract_videos(todo, read, network, say)


def missing_features(videos: Path, out: Path, wanted: Sequence[Video]) -> list[tuple[Video, Path, Path]]:
    """(video, its file, its features' file) of videos without features; InputError for missing video files."""
    if not videos.is_dir():
        raise InputError(f"videos in {videos}: not a folder")
    todo, absent = [], []
    for video in wanted:
        target = out / f"{video.name}.npy"
        if target.is_file():
            continue
        places = [videos / f"{video.name}.avi", videos / f"{video.name.rpartition('/')[2]}.avi"]
        path = next((place for place in places if place.is_file()), None)
        if path is None:
            absent.append(places[0].name)
        else:
            todo.append((video, path, target))
    if absent:
        raise InputError(
            f"videos in {videos}: {len(absent)} of {len(wanted)} videos are missing: {some_of(absent)}; "
            "get UCF101 from www.crcv.ucf.edu/data/UCF101.php"
        )
    return todo


def extract_videos(
    todo: Sequence[tuple[Video, Path, Path]], read: Reader, network: Network, say: Callable[[str], Any]
) -> None:
    """Write the features of each video; InputError if one cannot be read, or its length differs from the list's."""
    for number, (video, path, target) in enumerate(todo, 1):
        features = np.concatenate([network(batch) for batch in _batches(read(path))] or [np.empty((0, 1))])
        count = len(features)
        if abs(count - video.frames) > TOLERANCE or not count:
            raise InputError(f"{path}: {count} frames decoded, but the list has {video.frames}")
        features = features[np.minimum(np.arange(video.frames), count - 1)].astype(np.float16)
        write_features(target, features)
        if number % 100 == 0 or number == len(todo):
            say(f"{number} of {len(todo)} videos, last {video.name}: {video.frames} frames ({count} decoded)")


def write_features(path: Path, array: np.ndarray) -> None:
    """Write an .npy file atomically; InputError if that is impossible."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            np.save(file, array)
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        temporary.unlink(missing_ok=True)


def load_inception(device: str) -> Network:
    """torchvision's Inception-v3 up to its last pooling, with its preprocessing; NotHere without torchvision."""
    try:
        from torchvision.models import Inception_V3_Weights, inception_v3
    except ImportError:
        raise NotHere("torchvision is not installed: pip install 'repro-harness[vision]'") from None
    weights = Inception_V3_Weights.IMAGENET1K_V1
    prepare = weights.transforms()
    try:
        network = inception_v3(weights=weights)
    except OSError as error:
        folder = Path(torch.hub.get_dir()) / "checkpoints"
        raise NotHere(
            f"torchvision cannot download the weights of Inception-v3 ({error}): put {weights.url} into {folder}"
        ) from None
    network.fc = torch.nn.Identity()
    network.to(device).eval()

    @torch.no_grad()
    def features(frames: Sequence[np.ndarray]) -> np.ndarray:
        images = torch.stack([torch.from_numpy(frame) for frame in frames]).permute(0, 3, 1, 2)
        return network(prepare(images.to(device))).cpu().numpy()

    return features


def video_reader() -> Reader:
    """A reader of videos that uses PyAV; NotHere without it."""
    try:
        import av
    except ImportError:
        raise NotHere("no video reader is installed: pip install av, or 'repro-harness[vision]'") from None

    def frames(path: Path) -> Iterator[np.ndarray]:
        try:
            with av.open(str(path)) as container:
                for frame in container.decode(video=0):
                    yield frame.to_ndarray(format="rgb24")
        except (av.error.FFmpegError, IndexError) as error:
            raise InputError(f"{path}: not a readable video ({error})") from None

    return frames


def _batches(frames: Iterator[np.ndarray]) -> Iterator[list[np.ndarray]]:
    while batch := list(itertools.islice(frames, BATCH)):
        yield batch
