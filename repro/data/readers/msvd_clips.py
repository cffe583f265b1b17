"""MSVD's clips with captions and features, from files or generated: captions by a small grammar, features from the
captions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from repro.core.errors import InputError
from repro.data import counter_rng
from repro.data.files import gzipped_text
from repro.data.readers import feature_files

FRAMES_A_SECOND = 3  # every tenth of 30 frames/s, as in S2VT
SHORTEST, LONGEST, MEDIAN, SPREAD = 2, 60, 8, 0.62  # seconds of generated clips; MEDIAN e^(SPREAD^2 / 2) = 9.7
PARTS = {"train": 1_200, "val": 100, "test": 670}
CAPTIONS = 8  # of a generated clip

WHO = ("man", "woman", "boy", "girl", "cat", "dog", "monkey", "panda", "chef", "team")
DOES = {
    "is cutting": ("an onion", "a potato", "some bread", "a tomato"),
    "is playing": ("a guitar", "a flute", "football", "with a ball"),
    "is riding": ("a horse", "a bicycle", "a motorcycle", "an elephant"),
    "is eating": ("noodles", "an apple", "some meat", "a banana"),
    "is mixing": ("some eggs", "the sauce", "flour and water", "a salad"),
    "is walking": ("on the street", "in the snow", "with a friend", "near the sea"),
    "is driving": ("a car", "a truck", "a boat", "a tractor"),
    "is pouring": ("some oil", "the milk", "water into a pot", "a drink"),
}
FORMS = ("a {0} {1} {2}", "the {0} {1} {2}", "there is a {0} who {1} {2}", "a {0} {1} {2} slowly")


class Clip(NamedTuple):
    """name: ends in the clip's first and last second in its video; captions: as words, in the file's order"""

    name: str
    seconds: int
    captions: tuple[tuple[str, ...], ...]

    @property
    def frames(self) -> int:
        """The number of sampled frames."""
        return self.seconds * FRAMES_A_SECOND


def read_clips(folder: Path, part: str) -> list[Clip]:
    """The clips of a part; InputError for a malformed line, or a clip without a caption."""
    path = folder / f"MSVD_{part}.tsv.gz"
    return [_clip(path, number, line) for number, line in enumerate(gzipped_text(path).splitlines(), 1)]


def generate_clips(part: str) -> list[Clip]:
    """Generated clips, as many as the real ones, of similar lengths, with eight captions each of who does what."""
    count = PARTS[part]
    lengths = counter_rng.log_normal_lengths(count, MEDIAN, SPREAD, SHORTEST, LONGEST)
    draws = counter_rng.Stream("msvd", "grammar", part).rows(range(count), 3 + CAPTIONS, np.uint32).astype(int)
    shuffled = np.argsort(draws[:, 0], kind="stable")
    clips = []
    for number, (draw, place) in enumerate(zip(draws.tolist(), shuffled.tolist())):
        who, does = WHO[draw[1] % len(WHO)], list(DOES)[draw[2] % len(DOES)]
        seconds, captions = lengths[place], []
        for word in draw[3:]:
            # three of four captions name the same object
            what = DOES[does][(draw[2] // len(DOES) if word % 4 else word // 16) % 4]
            captions.append(tuple(FORMS[word // 4 % 4].format(who, does, what).split()))
        clips.append(Clip(f"{part}{number:04d}_0_{seconds}", seconds, tuple(captions)))
    return clips


def _clip(path: Path, number: int, line: str) -> Clip:
    text, tab, name = line.partition("\t")
    start, end = (name.rsplit("_", 2) if name.count("_") > 1 else ["", "", ""])[1:]
    if not tab or not start.isdigit() or not end.isdigit() or int(end) <= int(start):
        raise InputError(
            f"{path}, line {number}: expected captions, a tab and a clip id that ends in _start_end, in seconds"
        )
    captions = tuple(tuple(caption.split()) for caption in text.split(", ") if caption.split())
    if not captions:
        raise InputError(f"{path}, line {number}: clip {name} has no caption")
    return Clip(name, int(end) - int(start), captions)


NOISE, SHOWN = 0.5, 0.1  # deviation of a frame's noise; least share of a clip's captions for a word to be visible


class Source(Protocol):
    def __call__(self, clip: Clip, most: int) -> np.ndarray:
        """The features of a clip's first frames, at most `most`: (frames, features) float32."""


class Extracted:
    """Features from files <folder>/<clip id>.npy, (frames, `features` or more) float16 or float32.

    S2VT extracts every tenth frame.
    """

    def __init__(self, folder: Path, features: int):
        self.folder, self.features = folder, features

    def __call__(self, clip: Clip, most: int) -> np.ndarray:
        path = self.folder / f"{clip.name}.npy"
        array = feature_files.load_features(path)
        if array.shape[1] < self.features:
            raise InputError(f"{path}: {array.shape[1]} features a frame, fewer than dataset.features={self.features}")
        return array[:most, : self.features].astype(np.float32)

    def check(self, clips: Sequence[Clip]) -> str:
        """The SHA-256 over names and sizes of the clips' files; InputError if files are missing or hold no features."""
        checksum = feature_files.features_checksum(self.folder, [clip.name for clip in clips], "clips")
        for clip in clips:
            self(clip, 1)
        return checksum


class Generated:
    """The stand-in, generated from a clip's name and captions.

    Every word has a random vector. A clip is the sum of its words' vectors, each times the share of the clip's captions
    with the word (at least a tenth); a frame is that sum plus uniform noise. So a network can learn captions that
    generalise to test clips, but its score says nothing about video understanding.
    """

    def __init__(self, features: int):
        self.features = features
        self._clips: dict[str, np.ndarray] = {}

    def __call__(self, clip: Clip, most: int) -> np.ndarray:
        frames = min(clip.frames, most)
        noise = counter_rng.Stream("msvd", "noise", clip.name).rows([0], frames * self.features, np.int8)[0]
        values = noise.reshape(frames, self.features).astype(np.float32)
        values *= np.float32(NOISE / 74)
        values += self._common(clip)
        return values

    def _common(self, clip: Clip) -> np.ndarray:
        """(features,) float32: the part that all frames of a clip share."""
        if clip.name not in self._clips:
            counts = Counter(word for caption in clip.captions for word in set(caption))
            total = np.zeros(self.features, np.float32)
            for word, count in sorted(counts.items()):
                if count >= SHOWN * len(clip.captions):
                    drawn = counter_rng.Stream("msvd", "word", word).rows([0], self.features, np.int8)[0]
                    total += (2 * drawn.astype(np.float32) + 1) * np.float32(count / len(clip.captions) / 148)
            self._clips[clip.name] = total
        return self._clips[clip.name]
