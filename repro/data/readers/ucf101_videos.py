"""UCF101's videos: lists with classes and numbers of frames, and features, a vector for each frame; real or generated.

The split lists are the ucfTrainTestlist files of the data set's authors (crcv.ucf.edu); the frame counts are the
rawframes lists of the Open-MMLab projects for split 1, which name all 13,320 videos. All videos have 29 to 1,776
frames, with median 167 and standard deviation 97.65; the 9,537 training videos of split 1 have median 168 and deviation
96.63 (eager-SGD section 2.1 states 29, 1,776, 167 and 97 for these).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from repro.core.errors import InputError
from repro.data import counter_rng, files
from repro.data.counter_rng import log_normal_lengths
from repro.data.files import File
from repro.data.readers import feature_files

CLASSES = 101
FEATURES = 2048  # of a frame, the width of Inception-v3's last pooling
TRAIN, TEST = 9_537, 3_783  # videos of split 1
FILES = {
    "classInd.txt": File(1586, "d7abbb76074d04e80c62ad8a61529bb8eec32ef978569601b2890edec3af0359"),
    "trainlist01.txt": File(395164, "f7a4d7abc05147b921c17fc227d731197c3583f29945d1f1d46bce830d1b9f12"),
    "trainlist02.txt": File(397610, "3ea7145317098bdb4a999f69fb3b53ca3d3831d692602fc5dc8cd5c5e3eb8ca9"),
    "trainlist03.txt": File(398805, "c75af0148b3b0e70d5d881ad71b0a5fbb685bf2d3278908278658435c3f1bf0f"),
    "testlist01.txt": File(145735, "81be4765084d72739dca4d11658f7ec369c441ad9e227f11d9468fe2a1c14890"),
    "testlist02.txt": File(143430, "c9eec18f3f312153cda441f93e30bc9cffef1941367ebc06996e40c9cd056c91"),
    "testlist03.txt": File(142360, "f9cc029b0598c63f5cc07d070ae1fa4666d1d3901cc79a93490ea0742ca097db"),
    "ucf101_train_split_1_rawframes.txt": File(
        383824, "4a94bf449120106f267901c66f9b9b69cff32564cf319fff716ff9ef90ed5ec8"
    ),
    "ucf101_val_split_1_rawframes.txt": File(
        152282, "03b0a611bb5d1d327e529bf658e077f498d6016c4eb849e78aa063be57fd7f7e"
    ),
}
# Public copies at fixed commits; neither has all files.
MIRRORS = (
    "https://raw.githubusercontent.com/yjxiong/temporal-segment-networks/"
    "2c5e5e7c9c4f552cfde46fa90a4c0c230d857afe/data/ucf101_splits/",
    "https://raw.githubusercontent.com/vt-vl-lab/video-data-aug/01667cdbd1b952f2510af3422beeeb76e0d9e15a/data/ucf101/",
)
# Generated lengths: a log-normal distribution with the paper's median, truncated to its range, whose standard
# deviation is the paper's 97 (median * e^(v/2) * sqrt(e^v - 1) for v = SPREAD^2).
SHORTEST, LONGEST, MEDIAN, SPREAD = 29, 1776, 167, 0.4865
GROUPS, TEST_GROUPS = 25, 7  # of each class; those of the test videos of split 1 are 1 to 7


class Video(NamedTuple):
    """name: "Class/v_Class_g01_c01"; label: 0 to 100; frames: their total number"""

    name: str
    label: int
    frames: int

    @property
    def group(self) -> str:
        """Class and group; the videos of a group show the same people in the same place."""
        return self.name.rpartition("_c")[0]


@dataclass(frozen=True)
class Frames:
    """The frames to use: every `stride`-th, at most `most`."""

    stride: int = 1
    most: int | None = None

    def count(self, frames: int) -> int:
        used = -(-frames // self.stride)
        return used if self.most is None else min(used, self.most)


def find_lists(root: str | None = None) -> Path | None:
    """The folder of the verified lists; None if there is none."""
    return files.find_files("ucf101", FILES, root, ("ucf101", "ucf101/ucfTrainTestlist", "."))


def read_lists(folder: Path, split: int) -> tuple[list[Video], list[Video]]:
    """The training and test videos of a split; InputError for a malformed line, or a video without frame count."""
    labels, frames = {}, {}
    for path, number, words in _lines(folder / "classInd.txt", 2):
        labels[words[1]] = _whole(path, number, words[0]) - 1
    for part in ("train", "val"):
        for path, number, words in _lines(folder / f"ucf101_{part}_split_1_rawframes.txt", 3):
            frames[words[0]] = _whole(path, number, words[1])
    train, test = (
        [
            _video(path, number, words[0], labels, frames)
            for path, number, words in _lines(folder / f"{part}list0{split}.txt", least)
        ]
        for part, least in (("train", 2), ("test", 1))
    )
    return train, test


def generate_videos() -> tuple[list[Video], list[Video]]:
    """Generated videos with the numbers, classes and groups of split 1, and the paper's distribution of lengths."""
    count = TRAIN + TEST
    lengths = log_normal_lengths(count, MEDIAN, SPREAD, SHORTEST, LONGEST)
    lengths[-1] = LONGEST
    # shuffle lengths by a hash, the same on every machine
    lengths = [lengths[i] for i in sorted(range(count), key=lambda i: hashlib.sha256(f"length/{i}".encode()).digest())]
    train = [_generated(i, TEST_GROUPS + 1, GROUPS - TEST_GROUPS, lengths[i]) for i in range(TRAIN)]
    test = [_generated(i, 1, TEST_GROUPS, lengths[TRAIN + i]) for i in range(TEST)]
    return train, test


def balance_classes(videos: list[Video], count: int) -> list[Video]:
    """`count` of the videos, with class sizes that differ by at most one; the choice depends on names only."""
    order = sorted(range(len(videos)), key=lambda i: hashlib.sha256(videos[i].name.encode()).digest())
    counts: Counter[int] = Counter()
    turns = []
    for i in order:
        turns.append((counts[videos[i].label], videos[i].label, i))
        counts[videos[i].label] += 1
    return [videos[i] for i in sorted(i for _, _, i in sorted(turns)[:count])]


def _generated(i: int, first: int, groups: int, frames: int) -> Video:
    label, turn = i % CLASSES, i // CLASSES
    name = f"Class{label:03d}"
    return Video(f"{name}/v_{name}_g{first + turn % groups:02d}_c{1 + turn // groups:02d}", label, frames)


def _lines(path: Path, least: int) -> list[tuple[Path, int, list[str]]]:
    """(path, number, words) of each line; InputError for fewer words than `least`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    lines = [(path, number, line.split()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    for _, number, words in lines:
        if len(words) < least:
            raise InputError(f"{path}, line {number}: {len(words)} words, expected {least}")
    return lines


def _whole(path: Path, number: int, word: str) -> int:
    if not word.isdigit() or int(word) < 1:
        raise InputError(f"{path}, line {number}: '{word}' is not a whole number above 0")
    return int(word)


def _video(path: Path, number: int, file: str, labels: dict[str, int], frames: dict[str, int]) -> Video:
    name = file.removesuffix(".avi")
    label = labels.get(name.partition("/")[0])
    if label is None or name not in frames:
        missing = "its class is not in classInd.txt" if label is None else "no rawframes list has its frames"
        raise InputError(f"{path}, line {number}: {name}: {missing}")
    return Video(name, label, frames[name])


class Source(Protocol):
    def __call__(self, video: Video) -> np.ndarray:
        """The features of the used frames, (frames, features) float32."""


class Extracted:
    """Features from files <folder>/<Class>/<video>.npy, (frames, 2048) float16 or float32; the first `features` of
    them."""

    def __init__(self, folder: Path, features: int, frames: Frames):
        self.folder, self.features, self.frames = folder, features, frames

    def __call__(self, video: Video) -> np.ndarray:
        array = self.load(video)
        return array[:: self.frames.stride][: self.frames.most, : self.features].astype(np.float32)

    def load(self, video: Video) -> np.ndarray:
        """The memory-mapped file; InputError if it cannot be read or does not match the video."""
        path = self.folder / f"{video.name}.npy"
        array = feature_files.load_features(path, str(FEATURES))
        if len(array) != video.frames:
            raise InputError(f"{path}: features of {len(array)} frames, but the list has {video.frames} for this video")
        return array

    def check(self, videos: Sequence[Video]) -> str:
        """The SHA-256 over names and sizes of the videos' files; InputError if a file is missing or does not match its
        video. Headers are read once for a set of files."""
        remedy = " (data.videos=DIR extracts them from the videos)"
        checksum = feature_files.features_checksum(self.folder, [video.name for video in videos], "videos", remedy)
        files.check_once("ucf101-headers", checksum, lambda: [self.load(video) for video in videos])
        return checksum


MOTIFS, STAGES = 24, 3
MOTIF, PLACE, NOISE = 0.5, 0.1, 1.0  # strengths of a stage's motif, a group's background, a frame's noise
GROUP_CHANGES, VIDEO_CHANGES = 20, 38  # of 256: how often a stage's motif differs in a whole group, in a single video


class Generated:
    """The stand-in, generated from a video's name: three consecutive stages over the video's length.

    A stage has one of 24 motifs, which are random vectors. A class is an order of three different motifs; classes 2 j
    and 2 j + 1 have the same three in opposite orders, so that a mean over time identifies only pairs of classes. The
    stages' starts vary by up to a sixth of a video's length. Each group (the videos of a class with the same people in
    the same place; test groups are not in the training set) adds a background to every frame, and replaces the motif of
    each stage with probability 20 / 256; each video does so again with 38 / 256. So some videos look like another
    class, and no network can be perfect. Values have uniform noise, about mean 0 and deviation 1, unlike Inception's,
    which are not negative.
    """

    def __init__(self, features: int, frames: Frames):
        self.features, self.frames = features, frames
        self.motifs = _vectors("motifs", MOTIFS, features) * np.float32(MOTIF)
        self.scripts = _scripts()

    def __call__(self, video: Video) -> np.ndarray:
        used = self.frames.count(video.frames)
        plan = counter_rng.Stream("ucf101", "plan", video.name).rows([0], 2 * STAGES + 2, np.uint8)[0].astype(int)
        script = self._changed(self._of_group(video), plan[: 2 * STAGES], VIDEO_CHANGES)  # the motif of each stage
        borders = [
            video.frames * (stage * 512 + plan[2 * STAGES + stage - 1] - 128) // (512 * STAGES)
            for stage in range(1, STAGES)
        ]
        stage = np.searchsorted(borders, np.arange(used) * self.frames.stride, side="right")
        noise = counter_rng.Stream("ucf101", "noise", video.name).rows([0], used * self.features, np.int8)[0]
        values = noise.reshape(used, self.features).astype(np.float32)
        values *= np.float32(NOISE / 74)
        of_stages = self.motifs[script] + _vectors(f"group/{video.group}", 1, self.features) * np.float32(PLACE)
        values += of_stages[stage]
        return values

    def _of_group(self, video: Video) -> np.ndarray:
        plan = counter_rng.Stream("ucf101", "group plan", video.group).rows([0], 2 * STAGES, np.uint8)[0].astype(int)
        return self._changed(self.scripts[video.label], plan, GROUP_CHANGES)

    @staticmethod
    def _changed(script: np.ndarray, plan: np.ndarray, often: int) -> np.ndarray:
        return np.where(plan[:STAGES] < often, plan[STAGES:] % MOTIFS, script)


def _vectors(name: str, count: int, values: int) -> np.ndarray:
    """(count, values) float32 with mean 0 and deviation 1."""
    drawn = counter_rng.Stream("ucf101", name).rows(range(count), values, np.int8)
    return (2 * drawn.astype(np.float32) + 1) / np.float32(148)


def _scripts() -> np.ndarray:
    """The motifs of each class's stages: (classes, stages)."""
    draws = counter_rng.Stream("ucf101", "scripts").rows(range(8 * CLASSES), MOTIFS, np.uint32)
    scripts: list[tuple[int, ...]] = []
    for draw in draws:
        order = tuple(np.argsort(draw, kind="stable")[:STAGES].tolist())
        if len(scripts) < CLASSES and order not in scripts:
            scripts += [order, order[::-1]]
    return np.array(scripts[:CLASSES])
