"""Features of MSVD's clips, a vector for each frame: from files, or generated from the captions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from repro.core.errors import InputError
from repro.data import counter_rng
from repro.data.readers import feature_files
from repro.data.readers.msvd_clips import Clip

FEATURES = 4096  # of a frame, from VGG's fc7
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
