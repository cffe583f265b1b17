"""Videos as sequences of features, padded at the front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch

from repro.core.not_none import not_none
from repro.data.base import move_tensor
from repro.data.readers.prefetch import AHEAD, PrefetchQueue, reader_threads
from repro.data.readers.sequences import Sequences
from repro.data.readers.ucf101_lists import Frames, Video
from repro.data.readers.video_features import Source


class Videos(Sequences):
    """Videos with their features: x (n, longest, features) float32, padded with zeros at the front; y (n,) classes.

    source: computes a video's features when it is drawn; None on the meta device, where there are only shapes.
    """

    kind: ClassVar[str] = "sequences"
    y: torch.Tensor

    def __init__(
        self,
        videos: list[Video],
        source: Source | None,
        frames: Frames,
        width: int,
        nominal: int,
        buckets: int,
        bucketing: str = "count",
        device: torch.device | str = "cpu",
    ):
        self.videos, self.source, self.frames, self.width = videos, source, frames, width
        self.nominal, self.buckets, self.bucketing = nominal, buckets, bucketing
        self.lengths = torch.tensor([frames.count(video.frames) for video in videos])
        self.y = torch.tensor([video.label for video in videos], device="meta" if source is None else device)
        self.prefetch = PrefetchQueue(lambda rows: reader_threads().submit(self._read, rows))

    def _with(self, videos: list[Video], device: torch.device | str) -> Videos:
        return Videos(videos, self.source, self.frames, self.width, self.nominal, self.buckets, self.bucketing, device)

    def to(self, device: torch.device | str) -> Videos:
        return self if self.source is None else self._with(self.videos, device)

    def take(self, rows: torch.Tensor) -> Videos:
        return self._with([self.videos[row] for row in rows.tolist()], self.device)

    def select(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The features and classes of the given rows (n,), padded to the longest of them."""
        if self.source is None:
            longest = int(self.lengths[rows].max())
            return torch.empty(len(rows), longest, self.width, device="meta"), self.y[: len(rows)]
        x = self.prefetch.take(tuple(rows.tolist())).result()
        return move_tensor(x, self.device), self.y[move_tensor(rows, self.device)]

    def _read(self, rows: Sequence[int]) -> torch.Tensor:
        """The features of the given rows on the host, in pinned memory for a GPU."""
        source = not_none(self.source)
        longest = int(self.lengths[list(rows)].max())
        x = torch.zeros(len(rows), longest, self.width, pin_memory=self.device.type == "cuda")
        for place, row in enumerate(rows):
            features = torch.from_numpy(source(self.videos[row]))
            x[place, longest - len(features) :] = features
        return x

    @property
    def lookahead(self) -> int:
        return AHEAD if self.device.type == "cuda" else 0

    def ahead(self, rows: torch.Tensor) -> None:
        self.prefetch.start(tuple(rows.tolist()), self.lookahead)
