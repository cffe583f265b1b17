"""MSVD's clips and captions: read from the files, or made of a small grammar where there are none."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from repro.core.errors import InputError
from repro.data import counter_rng
from repro.data.files import gzipped_text

FRAMES_A_SECOND = 3  # every tenth frame of 30 a second, as S2VT takes them
SHORTEST, LONGEST, MEDIAN, SPREAD = 2, 60, 8, 0.62  # seconds of the made-up clips; MEDIAN e^(SPREAD^2 / 2) = 9.7
PARTS = {"train": 1_200, "val": 100, "test": 670}
CAPTIONS = 8  # of a made-up clip

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
    """name: with the seconds of the film from and to which it goes · captions: their words, in the file's order"""

    name: str
    seconds: int
    captions: tuple[tuple[str, ...], ...]

    @property
    def frames(self) -> int:
        """Frames that are sampled of it."""
        return self.seconds * FRAMES_A_SECOND


def read(folder: Path, part: str) -> list[Clip]:
    """The clips of a part. InputError for a line that is no captions, tab and clip id, or a clip without a caption."""
    path = folder / f"MSVD_{part}.tsv.gz"
    return [_clip(path, number, line) for number, line in enumerate(gzipped_text(path).splitlines(), 1)]


def made_up(part: str) -> list[Clip]:
    """Clips as many as the real ones and about as long, each with eight captions of who does what."""
    count = PARTS[part]
    lengths = counter_rng.log_normal_lengths(count, MEDIAN, SPREAD, SHORTEST, LONGEST)
    draws = counter_rng.Stream("msvd", "grammar", part).rows(range(count), 3 + CAPTIONS, np.uint32).astype(int)
    shuffled = np.argsort(draws[:, 0], kind="stable")
    clips = []
    for number, (draw, place) in enumerate(zip(draws.tolist(), shuffled.tolist())):
        who, does = WHO[draw[1] % len(WHO)], list(DOES)[draw[2] % len(DOES)]
        seconds, captions = lengths[place], []
        for word in draw[3:]:
            # three captions in four agree on what is done to what
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
