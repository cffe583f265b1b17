"""Multi30k English-German (Elliott et al. 2016; WMT16's multimodal task): 29,000 pairs of sentences, 1,014 to evaluate.

eager-SGD's Figure 3 shows runtimes of a Transformer on "the WMT16 dataset", its news task with millions of sentences of
up to hundreds of words. This is a small corpus of the same campaign, captions of 1 to 39 words, with the same effect on
shorter sentences: the longest sentence determines a batch's time. Words are separated by white space.

Options: `pairs` and `test_pairs`: use the first n pairs; `vocabulary` (null: 10,000): words of both languages together,
<pad>, <bos>, <eos>, <unk> and the most frequent ones of the training text (ties in alphabetical order); `batching`:
bucketed (null: minibatches of similar length) or random. A part of the data set is named `multi30k-subset`.

A minibatch is one tensor: x (n, 2 L) int64 has the source's words and <eos> in its first half, and <bos> and the
target's words in its second, each padded at the end to the longest of both, L; y (n L,) has the target's words and
<eos>, and IGNORED for padding. `work` is L relative to the nominal length, the mean of the training pairs: a
Transformer's cost is nearly linear in it.

The stand-in is generated: source lengths are log-normal with the real median of 11 and mean of 11.9; the target is a
word longer, as long or shorter, and has the source's words under a fixed permutation, with one in ten replaced.
"""

from __future__ import annotations

import hashlib
import statistics
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from repro.core.errors import InputError
from repro.core.fields import Count, Model, check_fields
from repro.core.word_numbers import OWN, UNK
from repro.data import counter_rng, files
from repro.data.files import File, combined_checksum, gzipped_text
from repro.data.readers.tokens import Pair, build_vocabulary, pair_length

if TYPE_CHECKING:
    from repro.data.base import Dataset

FILES = {
    "train.en.gz": File(568929, "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f"),
    "train.de.gz": File(637044, "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6"),
    "val.en.gz": File(21650, "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28"),
    "val.de.gz": File(24681, "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a"),
}
MIRRORS = (
    "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/",
)
TASK, KIND = "text", "sentence pairs"
STANDIN = "multi30k-standin-seeded"
TRAIN, TEST, VOCABULARY = 29_000, 1_014, 10_000
BUCKETS = 50
# lengths of the stand-in's sources; the mean, MEDIAN * e^(SPREAD^2 / 2), is 11.9
SHORTEST, LONGEST, MEDIAN, SPREAD = 3, 37, 11, 0.397


class _Options(Model):
    """Options of the configuration; None stands for the default in the module's docstring."""

    pairs: Count | None = None
    test_pairs: Count | None = None
    vocabulary: Annotated[int, Field(ge=len(OWN) + 1)] | None = None
    batching: Literal["bucketed", "random"] | None = None


OPTIONS = tuple(_Options.model_fields)


def find(root: str | None = None) -> Path | None:
    """The folder of the four files, verified; None if there is none."""
    return files.find_files("multi30k", FILES, root, ("multi30k", "multi30k_wmt16", "."))


def read(folder: Path, **values: Any) -> Dataset:
    """The real pairs in a folder that `find` returned; InputError for a malformed file, or different numbers of
    lines."""
    options = check_fields(_Options, values, "dataset")
    parts = [read_pairs(folder, part) for part in ("train", "val")]
    words = (word for pair in parts[0] for side in pair for word in side)
    numbers = build_vocabulary(words, options.vocabulary or VOCABULARY)
    train, test = (
        [(encode_words(source, numbers), encode_words(target, numbers)) for source, target in part] for part in parts
    )
    return _dataset("multi30k", False, combined_checksum(FILES), train, test, len(OWN) + len(numbers), options)


def encode_words(sentence: list[str], numbers: dict[str, int]) -> np.ndarray:
    """The numbers of a sentence's words."""
    return np.array([numbers.get(word, UNK) for word in sentence])


def standin(**values: Any) -> Dataset:
    """Generated pairs, the same on every machine."""
    options = check_fields(_Options, values, "dataset")
    words = options.vocabulary or VOCABULARY
    train, test = (_generated(part, count, words) for part, count in (("train", TRAIN), ("test", TEST)))
    digest = hashlib.sha256(b"".join(side.astype("<i8").tobytes() for pair in train + test for side in pair))
    return _dataset(STANDIN, True, digest.hexdigest(), train, test, words, options)


def timing(root: str | None = None, **values: Any) -> Dataset:
    """Lengths only, on the meta device: the real ones if the files are found, else the stand-in's."""
    folder = find(root)
    made = read(folder, **values) if folder else standin(**values)
    return replace(made, name=f"{made.name} (shapes only)", train=made.train.to("meta"), test=made.test.to("meta"))


def read_pairs(folder: Path, part: str) -> list[tuple[list[str], list[str]]]:
    """The words of each pair, English and German."""
    texts = []
    for language in ("en", "de"):
        text = gzipped_text(folder / f"{part}.{language}.gz")
        texts.append([line.split() for line in text.rstrip("\n").split("\n")])
    if len(texts[0]) != len(texts[1]):
        raise InputError(f"{folder}: {part}.en.gz has {len(texts[0])} lines, {part}.de.gz {len(texts[1])}")
    return list(zip(*texts))


def _dataset(
    name: str, standin: bool, checksum: str, train: list[Pair], test: list[Pair], classes: int, options: _Options
) -> Dataset:
    from repro.data.base import Dataset
    from repro.data.readers.sequences import Pairs

    parts = train[: options.pairs], test[: options.test_pairs]
    if not standin and sum(map(len, parts)) < len(train) + len(test):
        name = f"{name}-subset"
    nominal = round(statistics.fmean(map(pair_length, train)))
    splits = [Pairs(part, nominal, 1 if options.batching == "random" else BUCKETS) for part in parts]
    return Dataset(name, standin, checksum, *splits, classes=classes, input_shape=(2 * nominal,))


def _generated(part: str, count: int, words: int) -> list[Pair]:
    lengths = np.array(counter_rng.log_normal_lengths(count, MEDIAN, SPREAD, SHORTEST, LONGEST))
    draw = counter_rng.Stream("multi30k", part).rows(range(count), 3 * LONGEST + 8, np.uint32).astype(np.int64)
    lengths = lengths[np.argsort(draw[:, 0], kind="stable")]
    others = len(OWN), words - len(OWN)
    translated = others[0] + np.argsort(
        counter_rng.Stream("multi30k", "dictionary").rows([0], others[1], np.uint64)[0], kind="stable"
    )
    # a product of two uniform numbers makes low word numbers frequent
    drawn = others[0] + (draw[:, 8:] % 2**16) * (draw[:, 8:] // 2**16) * others[1] // 2**32
    pairs = []
    for row, (size, extra) in enumerate(zip(lengths.tolist(), (draw[:, 1] % 3 - 1).tolist())):
        source, spare = drawn[row, :size], drawn[row, LONGEST : 2 * LONGEST + 1]
        target = np.append(translated[source - others[0]], spare[-1])
        replaced = draw[row, 8 + 2 * LONGEST : 8 + 2 * LONGEST + size] % 10 == 0
        target[:size][replaced] = spare[:size][replaced]
        pairs.append((source, target[: size + extra]))
    return pairs
