"""Features of videos, a vector for each frame: from files, or generated from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from repro.core.errors import InputError
from repro.data import counter_rng, files
from repro.data.readers import feature_files
from repro.data.readers.ucf101_lists import CLASSES, FEATURES, Frames, Video


class Source(Protocol):
    def __call__(self, video: Video) -> np.ndarray:
        """The features of the used frames, (frames, features) float32."""


class Extracted:
    """Files <folder>/<Class>/<video>.npy of shape (frames, 2048), float16 or float32; the first `features` are used."""

    def __init__(self, folder: Path, features: int, frames: Frames):
        self.folder, self.features, self.frames = folder, features, frames

    def __call__(self, video: Video) -> np.ndarray:
        array = self.load(video)
        return array[:: self.frames.stride][: self.frames.most, : self.features].astype(np.float32)

    def load(self, video: Video) -> np.ndarray:
        """The memory-mapped file; InputError if it cannot be read or its shape does not match the video."""
        path = self.folder / f"{video.name}.npy"
        array = feature_files.load(path, str(FEATURES))
        if len(array) != video.frames:
            raise InputError(f"{path}: features of {len(array)} frames, but the list has {video.frames} for this video")
        return array

    def check(self, videos: Sequence[Video]) -> str:
        """The SHA-256 over names and sizes of the videos' files; InputError if a file is missing or does not match its
        video. Headers are read once for a set of files."""
        remedy = " (data.videos=DIR extracts them from the videos)"
        found = feature_files.checksum(self.folder, [video.name for video in videos], "videos", remedy)
        files.once("ucf101-headers", found, lambda: [self.load(video) for video in videos])
        return found


MOTIFS, STAGES = 24, 3
MOTIF, PLACE, NOISE = 0.5, 0.1, 1.0  # strength of a stage's motif, of a group's background, of a frame's noise
GROUP_CHANGES, VIDEO_CHANGES = 20, 38  # of 256: how often a stage has another motif in a whole group, in a single video


class Generated:
    """The stand-in: each video has its real length and three consecutive stages.

    A stage shows one of 24 motifs, which are random vectors. A class is an order of three different motifs; classes 2 j
    and 2 j + 1 have the same three in opposite orders, so that a mean over time identifies only pairs of classes. The
    stages' starts vary by up to a sixth of a video's length. A group (the clips of a class with the same people in the
    same place; test groups are not in the training set) adds a background to every frame, and has another motif than
    its class in each stage with probability 20 / 256; a single video again with 38 / 256. So some videos look like
    another class, and no network can be perfect. Each value of a frame has uniform noise. A video depends on its name
    only; values have about mean 0 and deviation 1, unlike Inception's, which are at least 0.
    """

    def __init__(self, features: int, frames: Frames):
        self.features, self.frames = features, frames
        self.motifs = _vectors("motifs", MOTIFS, features) * np.float32(MOTIF)
        self.scripts = _scripts()

    def __call__(self, video: Video) -> np.ndarray:
        used = self.frames.count(video.frames)
        plan = counter_rng.Stream("ucf101", "plan", video.name).rows([0], 2 * STAGES + 2, np.uint8)[0].astype(int)
        script = self._changed(self._of_group(video), plan[: 2 * STAGES], VIDEO_CHANGES)
        borders = [
            video.frames * (stage * 512 + plan[2 * STAGES + stage - 1] - 128) // (512 * STAGES)
            for stage in range(1, STAGES)
        ]
        stage = np.searchsorted(borders, np.arange(used) * self.frames.stride, side="right")
        noise = counter_rng.Stream("ucf101", "noise", video.name).rows([0], used * self.features, np.int8)[0]
        values = noise.reshape(used, self.features).astype(np.float32)
        values *= np.float32(NOISE / 74)
        shown = self.motifs[script] + _vectors(f"group/{video.group}", 1, self.features) * np.float32(PLACE)
        values += shown[stage]
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
    found: list[tuple[int, ...]] = []
    for draw in draws:
        order = tuple(np.argsort(draw, kind="stable")[:STAGES].tolist())
        if len(found) < CLASSES and order not in found:
            found += [order, order[::-1]]
    return np.array(found[:CLASSES])
