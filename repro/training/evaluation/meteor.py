"""METEOR without synonyms, of captions that a network says of clips.

METEOR (Lavie, Agarwal, WMT 2007) in NLTK's form, with its parameters of that year: words of the caption and of a
reference are matched, exactly and then by Porter's stems; 10 P R / (R + 9 P) of precision and recall, less for words
out of order; the best of a clip's references counts. A corpus has the mean over its clips.

DEVIATIONS from PipeDream's METEOR score (0.294 for S2VT; its reference [11] is METEOR Universal, 2014): synonyms need
WordNet, which cannot be downloaded here, and paraphrases and the newer weights are not in NLTK; the released program
joins the counts of all clips, this takes a mean. So its levels are not to be compared with the paper's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from repro.data.readers.captioned import Captioned
    from repro.models.s2vt import S2vt

CLIPS = 50  # that are decoded at a time


def score(model: S2vt, split: Captioned, device: torch.device) -> float:
    """The score of what a model, in evaluation mode, says of the first `split.scored` clips."""
    clips = split.clips[: split.scored]
    return meteor([clip.captions for clip in clips], decoded(model, split, device))


def decoded(model: S2vt, split: Captioned, device: torch.device) -> list[list[str]]:
    """The words that a model says of each of those clips, the likeliest one at every step."""
    said: list[list[str]] = []
    for start in range(0, split.scored, CLIPS):
        x = split.frames(split.clips[start : min(start + CLIPS, split.scored)])
        said += [split.spelled(numbers) for numbers in model.captions(x.to(device)).tolist()]
    return said


def meteor(references: Sequence[Sequence[Sequence[str]]], captions: Sequence[Sequence[str]]) -> float:
    """Mean over clips, each with one caption and one or more references, all as words; 0 for a caption of none."""
    from nltk.translate.meteor_score import meteor_score

    stemmer, no_wordnet = SimpleNamespace(stem=_stem), SimpleNamespace(synsets=lambda word: ())
    scores = [
        meteor_score(each, caption, stemmer=stemmer, wordnet=no_wordnet)
        for each, caption in zip(references, captions, strict=True)
    ]
    return sum(scores) / len(scores)


@cache
def _stem(word: str) -> str:
    """Every word once: captions have few different ones."""
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer().stem(word)
