"""Features of UCF101's videos, a vector for each frame: from files, or generated from a seed."""

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
