"""Lists of UCF101's videos with classes and numbers of frames: the official splits, or generated.

The split lists are the ucfTrainTestlist files of the data set's authors (crcv.ucf.edu); the frame counts are the
rawframes lists of the Open-MMLab projects for split 1, which name all 13,320 videos. All videos have 29 to 1,776
frames, with median 167 and standard deviation 97.65; the 9,537 training videos of split 1 have median 168 and deviation
96.63 (eager-SGD section 2.1 states 29, 1,776, 167 and 97 for these).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from repro.core.errors import InputError
from repro.data import files
from repro.data.counter_rng import log_normal_lengths
from repro.data.files import File

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
