"""Multi30k: sentence pairs, their lengths and numbers, minibatches, the stand-in."""

from __future__ import annotations

import gzip
import statistics
from pathlib import Path

import numpy as np
import pytest
import torch

from repro import data, models
from repro.core.errors import InputError
from repro.data import files
from repro.data.readers.text import IGNORED
from repro.data.readers.tokens import BOS, EOS, PAD, UNK
from repro.data.sets import multi30k
from repro.training import losses
from repro.training.evaluation.evaluate import evaluate
from tests.unit.data.conftest import real

REAL = real("multi30k", multi30k)
needs_pairs = pytest.mark.skipif(REAL is None, reason="Multi30k is neither in $REPRO_DATA nor in ../shared/data")


@needs_pairs
def test_the_real_pairs(monkeypatch):
    monkeypatch.setenv("REPRO_DATA", str(REAL.parent))
    loaded = data.load("multi30k", None, "never")
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
    part = data.load("multi30k", pairs=100, test_pairs=10, vocabulary=50)
    assert (part.name, len(part.train), len(part.test), part.classes) == ("multi30k-subset", 100, 10, 50)
    timing = data.shapes("multi30k")
    one, two = (dataset.train.minibatches(64, 2, 1) for dataset in (timing, loaded))
    assert timing.name == "multi30k (shapes only)" and [one.work(i) for i in range(20)] == [
        two.work(i) for i in range(20)
    ]


def write(folder: Path, **texts: str) -> dict[str, files.File]:
    table = {}
    for name, text in texts.items():
        path = folder / f"{name.replace('_', '.')}.gz"
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
        table[path.name] = files.File(path.stat().st_size, files.sha256(path))
    return table


def test_words_become_numbers(tmp_path, monkeypatch):
    table = write(tmp_path, train_en="a b a\nc\n", train_de="x a\nb b y\n", val_en="c z\n", val_de="y\n")
    monkeypatch.setattr(multi30k, "FILES", table)
    loaded = data.load("multi30k", str(tmp_path), "never")
    # a and b three times each, then c, x, y by the alphabet: 4, 5, 6, 7, 8
    assert [[side.tolist() for side in pair] for pair in loaded.train.pairs] == [[[4, 5, 4], [7, 4]], [[6], [5, 5, 8]]]
    assert loaded.classes == 9 and loaded.input_shape == (8,)
    x, y = loaded.test.slice(0, 1)
    assert x.tolist() == [[6, UNK, EOS, BOS, 8, PAD]] and y.tolist() == [8, EOS, IGNORED]
    assert loaded.test.y.tolist() == [8, EOS]
    few = data.load("multi30k", str(tmp_path), vocabulary=5)
    assert few.classes == 5 and few.train.pairs[1][0].tolist() == [UNK]


@pytest.mark.parametrize(
    "texts, complaint",
    [
        ({"train_de": "x\n"}, "train.en.gz has 2 lines, train.de.gz 1"),
        ({"val_en": None}, "val.en.gz: not readable gzipped text"),
    ],
)
def test_bad_files(tmp_path, monkeypatch, texts, complaint):
    good = {"train_en": "a\nb\n", "train_de": "x\ny\n", "val_en": "a\n", "val_de": "x\n"}
    monkeypatch.setattr(multi30k, "FILES", write(tmp_path, **good | {k: v for k, v in texts.items() if v}))
    if None in texts.values():
        (tmp_path / "val.en.gz").write_bytes(b"not gzip")
        monkeypatch.setattr(files, "check", lambda *_: None)
    with pytest.raises(InputError, match=complaint):
        data.load("multi30k", str(tmp_path))


def test_the_standin_has_such_lengths_and_is_the_same_everywhere():
    one, two = (data.load("multi30k") for _ in range(2))
    assert (one.name, one.standin, one.classes) == ("multi30k-standin-seeded", True, 10_000)
    assert one.checksum == two.checksum and one.checksum.startswith("16e38730")
    words = [len(pair[0]) for pair in one.train.pairs]
    assert (min(words), max(words), statistics.median(words)) == (3, 37, 11)
    assert statistics.fmean(words) == pytest.approx(11.9, abs=0.1)
    assert all(abs(len(source) - len(target)) <= 1 for source, target in one.train.pairs)
    assert all(side.min() >= 4 and side.max() < 10_000 for pair in one.train.pairs[:500] for side in pair)
    assert data.shapes("multi30k").name == "multi30k-standin-seeded (shapes only)"


def test_minibatches():
    dataset = data.load("multi30k", pairs=640)
    batches = dataset.train.minibatches(16, 4, seed=0)
    assert batches.per_epoch == 40
    rows = torch.cat([batches.indices(40 + i) for i in range(40)])
    assert sorted(rows.tolist()) == list(range(640))
    for minibatch in (5, 0, 41):
        x, y = batches[minibatch]
        longest = x.shape[1] // 2
        assert x.shape == (16, 2 * longest) and y.shape == (16 * longest,) and x.dtype == y.dtype == torch.int64
        source, target = x.chunk(2, 1)
        assert longest == batches.length(minibatch) and batches.work(minibatch) == longest / dataset.train.nominal
        y = y.view(16, longest)
        assert ((target == PAD) == (y == IGNORED)).all() and ((source == EOS).sum(1) == 1).all()
        assert (target[:, 0] == BOS).all() and ((y == EOS).sum(1) == 1).all()
        shifted = (target[:, 1:] == y[:, :-1]) | (target[:, 1:] == PAD)
        assert shifted.all(), "each label is the word behind"
    other = dataset.train.minibatches(16, 2, seed=0)
    assert torch.equal(other[7][0], batches[7][0])


def test_a_transformer_learns_from_it():
    dataset = data.load("multi30k", vocabulary=60, test_pairs=100)
    small = {"width": 32, "layers": 1, "heads": 2, "feed_forward": 64, "dropout": 0.0}
    model, spare = (models.build("transformer", dataset.input_shape, dataset.classes, 0, **small) for _ in range(2))
    before = evaluate(spare, model.state_dict(), dataset.test, torch.device("cpu"))
    optimizer, batches = torch.optim.Adam(model.parameters(), lr=0.01), dataset.train.minibatches(16, 1, 0)
    for step in range(40):
        x, y = batches[step]
        optimizer.zero_grad()
        losses.of(dataset.task)(model(x), y).backward()
        optimizer.step()
    after = evaluate(spare, model.state_dict(), dataset.test, torch.device("cpu"))
    assert after.keys() == {"test_loss", "top1", "top5", "perplexity"}
    assert after["perplexity"] < 40 < before["perplexity"] and after["top1"] > before["top1"]
