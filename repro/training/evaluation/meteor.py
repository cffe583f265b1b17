"""METEOR without synonyms, of captions that a network decodes for clips.

METEOR (Lavie, Agarwal, WMT 2007) in NLTK's form, with the parameters of 2007: words of a caption and a reference are
matched, exactly and then by Porter's stems; 10 P R / (R + 9 P) of precision and recall, reduced for words out of order;
the best of a clip's references counts. A corpus has the mean over its clips.

DEVIATIONS from PipeDream's METEOR score (0.294 for S2VT; its reference [11] is METEOR Universal, 2014): synonyms need
WordNet, which cannot be downloaded here, and NLTK lacks paraphrases and the newer weights; the released program adds up
the counts of all clips, this takes a mean. So the values are not comparable with the paper's.
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

CLIPS = 50  # clips decoded at a time


def score(model: S2vt, split: Captioned, device: torch.device) -> float:
    """The score of the captions that a model, in evaluation mode, decodes for the first `split.scored` clips."""
    clips = split.clips[: split.scored]
    return corpus_meteor([clip.captions for clip in clips], decode_captions(model, split, device))


def decode_captions(model: S2vt, split: Captioned, device: torch.device) -> list[list[str]]:
    """The caption of each of these clips by greedy decoding, as words."""
    captions: list[list[str]] = []
    for start in range(0, split.scored, CLIPS):
        x = split.frames(split.clips[start : min(start + CLIPS, split.scored)])
        captions += [split.spelled(numbers) for numbers in model.captions(x.to(device)).tolist()]
    return captions


def corpus_meteor(references: Sequence[Sequence[Sequence[str]]], captions: Sequence[Sequence[str]]) -> float:
    """The mean over clips, each with one caption and one or more references as words; 0 for an empty caption."""
    from nltk.translate.meteor_score import meteor_score

    stemmer, no_wordnet = SimpleNamespace(stem=_stem), SimpleNamespace(synsets=lambda word: ())
    scores = [
        meteor_score(each, caption, stemmer=stemmer, wordnet=no_wordnet)
        for each, caption in zip(references, captions, strict=True)
    ]
    return sum(scores) / len(scores)


@cache
def _stem(word: str) -> str:
    """The stem of a word; cached, because captions have few different words."""
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer().stem(word)
