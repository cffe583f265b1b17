"""Multi30k: sentence pairs, minibatches, the stand-in."""

from __future__ import annotations

import gzip
import statistics
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from repro import data
from repro.core.errors import InputError
from repro.core.word_numbers import BOS, EOS, PAD, UNK
from repro.data import files
from repro.data.readers.text import IGNORED
from repro.data.sets import multi30k
from tests.unit.data.conftest import needs, real, trained, write_table

REAL = real("multi30k", multi30k)


@needs(REAL, "Multi30k")
def test_the_real_pairs(monkeypatch):
    monkeypatch.setenv("REPRO_DATA", str(REAL.parent))
    loaded = data.load_dataset("multi30k", None, "never")
    assert (loaded.name, loaded.standin, loaded.task, loaded.kind) == ("multi30k", False, "text", "sentence pairs")
    assert (len(loaded.train), len(loaded.test), loaded.classes, loaded.input_shape) == (29000, 1014, 10000, (26,))
    for side, wanted in ((0, (3, 37, 11, 11.90)), (1, (1, 39, 11, 11.12))):  # English, German
        words = [len(pair[side]) for pair in loaded.train.pairs]
        assert (min(words), max(words), statistics.median(words)) == wanted[:3]
        assert statistics.fmean(words) == pytest.approx(wanted[3], abs=0.005)
    numbers = np.concatenate([side for pair in loaded.train.pairs for side in pair])
    assert numbers.min() == UNK and numbers.max() == 9999 and 0.05 < (numbers == UNK).mean() < 0.07
    counts = np.bincount(numbers)[4:]
    assert (np.diff(counts) <= 0).all(), "the most frequent word is the first"


def write(folder: Path, **texts: str) -> dict[str, files.File]:
    contents = {f"{name.replace('_', '.')}.gz": gzip.compress(text.encode()) for name, text in texts.items()}
    return write_table(folder, contents)


def test_words_become_numbers(tmp_path, monkeypatch):
    table = write(tmp_path, train_en="a b a\nc\n", train_de="x a\nb b y\n", val_en="c z\n", val_de="y\n")
    monkeypatch.setattr(multi30k, "FILES", table)
    loaded = data.load_dataset("multi30k", str(tmp_path), "never")
    # a and b three times each, then c, x, y by the alphabet: 4, 5, 6, 7, 8
    assert [[side.tolist() for side in pair] for pair in loaded.train.pairs] == [[[4, 5, 4], [7, 4]], [[6], [5, 5, 8]]]
    assert loaded.classes == 9 and loaded.input_shape == (8,)
    x, y = loaded.test.slice(0, 1)
    assert x.tolist() == [[6, UNK, EOS, BOS, 8, PAD]] and y.tolist() == [8, EOS, IGNORED]
    assert loaded.test.y.tolist() == [8, EOS]
    few = data.load_dataset("multi30k", str(tmp_path), vocabulary=5, pairs=1)
    assert (few.name, few.classes, len(few.train)) == ("multi30k-subset", 5, 1)
    assert few.test.pairs[0][0].tolist() == [UNK, UNK]
    timing = data.load_shapes("multi30k", str(tmp_path))
    one, two = (dataset.train.minibatches(1, 2, 1) for dataset in (timing, loaded))
    assert timing.name == "multi30k (shapes only)" and [one.work(i) for i in (0, 1)] == [two.work(i) for i in (0, 1)]


@pytest.mark.parametrize(("texts", "complaint"), [
    ({"train_de": "x\n"}, "train.en.gz has 2 lines, train.de.gz 1"),
    ({"val_en": None}, "val.en.gz: not readable gzipped text"),
])  # fmt: skip
def test_bad_files(tmp_path, monkeypatch, texts, complaint):
    good = {"train_en": "a\nb\n", "train_de": "x\ny\n", "val_en": "a\n", "val_de": "x\n"}
    monkeypatch.setattr(multi30k, "FILES", write(tmp_path, **good | {k: v for k, v in texts.items() if v}))
    if None in texts.values():
        (tmp_path / "val.en.gz").write_bytes(b"not gzip")
        monkeypatch.setattr(files, "check_file", lambda *_: None)
    with pytest.raises(InputError, match=complaint):
        data.load_dataset("multi30k", str(tmp_path))


@pytest.fixture(scope="module")
def standin():
    return data.load_dataset("multi30k", standin="always")


def test_the_standin_has_similar_lengths_and_is_the_same_everywhere(standin):
    one = standin
    assert (one.name, one.standin, one.classes) == ("multi30k-standin-seeded", True, 10_000)
    assert one.checksum.startswith("16e38730")
    words = [len(pair[0]) for pair in one.train.pairs]
    assert (min(words), max(words), statistics.median(words)) == (3, 37, 11)
    assert statistics.fmean(words) == pytest.approx(11.9, abs=0.1)
    assert all(abs(len(source) - len(target)) <= 1 for source, target in one.train.pairs)
    assert all(side.min() >= 4 and side.max() < 10_000 for pair in one.train.pairs[:500] for side in pair)


def test_minibatches(standin):
    train = standin.train.take(torch.arange(640))
    batches = train.minibatches(16, 4, seed=0)
    assert batches.per_epoch == 40
    rows = torch.cat([batches.indices(40 + i) for i in range(40)])
    assert sorted(rows.tolist()) == list(range(640))
    for minibatch in (5, 0, 41):
        x, y = batches[minibatch]
        longest = x.shape[1] // 2
        assert x.shape == (16, 2 * longest) and y.shape == (16 * longest,) and x.dtype == y.dtype == torch.int64
        source, target = x.chunk(2, 1)
        assert longest == batches.length(minibatch) and batches.work(minibatch) == longest / train.nominal
        y = y.view(16, longest)
        assert ((target == PAD) == (y == IGNORED)).all() and ((source == EOS).sum(1) == 1).all()
        assert (target[:, 0] == BOS).all() and ((y == EOS).sum(1) == 1).all()
        shifted = (target[:, 1:] == y[:, :-1]) | (target[:, 1:] == PAD)
        assert shifted.all(), "each label is the next word"
    other = train.minibatches(16, 2, seed=0)
    assert torch.equal(other[7][0], batches[7][0])


def test_a_transformer_learns_from_it():
    dataset = data.load_dataset("multi30k", vocabulary=60, test_pairs=100)
    small = {"width": 32, "layers": 1, "heads": 2, "feed_forward": 64, "dropout": 0.0}
    before, after = trained(dataset, partial(torch.optim.Adam, lr=0.01), 40, 16, "transformer", **small)
    assert after.keys() == {"test_loss", "top1", "top5", "perplexity"}
    assert after["perplexity"] < 40 < before["perplexity"] and after["top1"] > before["top1"]
