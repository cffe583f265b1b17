"""Penn Treebank: the real text, damaged files, the stand-in; streams and their minibatches."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from repro import data, models
from repro.core.errors import InputError
from repro.data import files
from repro.data.readers.text import IGNORED, Streams, Text
from repro.data.sets import ptb
from repro.training.evaluation.evaluate import evaluate_weights
from tests.unit.data.conftest import needs, real

REAL = real("ptb", ptb)


@pytest.fixture
def small_ptb(tmp_path) -> Path:
    """A folder of three short texts."""
    texts = {"train": " a b a\n the <unk> a\n\n", "valid": "b a\n", "test": "the the\na <unk>\n"}
    for part, text in texts.items():
        (tmp_path / f"ptb.{part}.txt").write_text(text)
    return tmp_path


@needs(REAL, "PTB")
def test_real_ptb(monkeypatch):
    monkeypatch.setenv("REPRO_DATA", str(REAL.parent))
    loaded = data.load_dataset("ptb", standin="never")
    assert (loaded.name, loaded.standin, loaded.classes, loaded.input_shape) == ("ptb", False, 10_000, (35,))
    assert (len(loaded.train), len(loaded.test)) == (929_588, 73_759) and len(loaded.train.y) == 929_588
    assert loaded.checksum == files.combined_checksum(ptb.FILES)
    counts = loaded.train.words.bincount()
    assert counts[:3].tolist() == [50770, 45020, 42068], "the, <unk>, <eos>"
    assert len(counts) == 10_000 and (counts.diff() <= 0).all()


def test_words_are_numbered_by_how_frequent_they_are(small_ptb):
    loaded = ptb.read(small_ptb, bptt=2)
    assert loaded.classes == 5
    # <eos> and a three times, then <unk>, b, the
    assert loaded.train.words.tolist() == [1, 3, 1, 0, 4, 2, 1, 0, 0] and loaded.test.words.tolist() == [3, 1, 0]
    part = ptb.read(small_ptb, words=5, test_words=4, test_text="test")
    assert part.test.words.tolist() == [4, 4, 0, 1] and part.train.words.tolist() == [1, 3, 1, 0, 4]
    assert (part.name, part.classes, len(part.train)) == ("ptb-subset", 5, 4)


@pytest.mark.parametrize(("content", "complaint"), [
    (b"a b\nthe zebra\n", ", line 2: the word 'zebra' is not among the 5 words of ptb.train.txt"),
    (b"\n \n", ": no words in it"),
    (b"a \xff b\n", ": not text"),
])  # fmt: skip
def test_bad_texts(small_ptb, content, complaint):
    (small_ptb / "ptb.test.txt").write_bytes(content)
    with pytest.raises(InputError, match=f"ptb.test.txt{complaint}") as caught:
        ptb.read(small_ptb)
    assert "\n" not in str(caught.value)


# The stand-in


def test_the_standin_is_the_same_everywhere_and_has_something_to_learn():
    """Counted pairs of words predict it far better than frequencies of words."""
    one = data.load_dataset("ptb")
    assert (one.name, one.standin, one.classes, one.input_shape) == ("ptb-standin-seeded", True, 10_000, (35,))
    assert (len(one.train), len(one.test)) == (199_999, 19_999) and one.checksum.startswith("a12ad877")
    shares = one.train.words.bincount(minlength=10_000) / 2e5
    assert 0.05 < shares[0] < 0.2 and (shares > 0).sum() > 5000
    train, test, n = one.train.words, one.test, one.classes
    counts = train.bincount(minlength=n).double() + 1
    frequent = counts / counts.sum()
    pairs, times = (train[:-1] * n + train[1:]).unique(return_counts=True)
    expected = test.words[:-1] * n + test.y
    place = torch.searchsorted(pairs, expected).clamp(max=len(pairs) - 1)
    after = torch.where(pairs[place] == expected, times[place], 0) / counts[test.words[:-1]]
    alone, paired = (
        p.log().mean().neg().exp().item() for p in (frequent[test.y], 0.3 * frequent[test.y] + 0.7 * after)
    )
    assert 300 < alone < 400 and 24 < paired < 80


def test_an_untrained_model_has_the_perplexity_of_chance():
    dataset = data.load_dataset("ptb", words=2000, test_words=700)
    model = models.build_model("lstm_ptb", dataset.input_shape, dataset.classes, 0, hidden=8)
    scores = evaluate_weights(model, model.state_dict(), dataset.test, torch.device("cpu"))
    assert scores["perplexity"] == pytest.approx(10_000, rel=0.1) and scores["top1"] < 0.2
    assert scores["perplexity"] == pytest.approx(math.exp(scores["test_loss"]))
    assert model.lstm1[0].hidden.numel() == 0, "nothing is left behind for the next evaluation"


def test_shapes_only():
    found = data.load_shapes("ptb")
    assert (found.name, len(found.train), len(found.test)) == ("ptb (shapes only)", 929_588, 73_759)
    assert found.task == "text" and found.train.words.is_meta and found.train.to("cpu") is found.train
    assert found.checksum != data.load_shapes("ptb", test_text="test").checksum
    x, y = found.train.minibatches(5, 4, 0, torch.device("cpu"))[3]
    assert x.shape == (5, 35) and y.shape == (175,) and x.is_meta


# Streams and minibatches


def text(words: int, steps: int = 3) -> Text:
    return Text(torch.arange(words + 1), steps)


def test_minibatches_continue_each_other_through_an_epoch():
    batches = text(103).minibatches(4, 1, seed=0)  # 4 streams of 25 words: 8 sequences of 3
    assert batches.per_epoch == 8 and text(103).iterations(4) == 8
    read = torch.cat([batches[i][0] for i in range(8)], 1)
    assert torch.equal(read, torch.arange(100).view(4, 25)[:, :24])
    for i in (0, 3, 7, 8, 11):
        x, y = batches[i]
        assert x.is_contiguous() and torch.equal(y, (x + 1).reshape(-1))
        assert torch.equal(x, batches[i % 8][0]) and batches.begins(i) == (i in (0, 8))


@pytest.mark.parametrize("workers", [1, 2, 3, 6])
def test_the_same_words_for_any_number_of_workers(workers):
    reference, ranks = Streams(text(200), 6), Streams(text(200), 6 // workers, workers)
    assert ranks.per_epoch == reference.per_epoch * workers
    for iteration in range(2 * reference.per_epoch):
        mine = [ranks[iteration * workers + rank] for rank in range(workers)]
        assert torch.equal(torch.cat([x for x, _ in mine]), reference[iteration][0])
        assert torch.equal(torch.cat([y for _, y in mine]), reference[iteration][1])
        starts = {ranks.begins(iteration * workers + rank) for rank in range(workers)}
        assert starts == {iteration % reference.per_epoch == 0}


@pytest.mark.parametrize("words", [1, 7, 30, 31, 99])
def test_an_evaluation_sees_every_word_once(words):
    seen = list(text(words).in_order())
    y = torch.cat([labels for _, labels in seen])
    assert sorted(y[y != IGNORED].tolist()) == list(range(1, words + 1))
    for x, labels in seen:
        real = labels != IGNORED
        assert torch.equal(labels[real], x.reshape(-1)[real] + 1) and x.shape[1] <= 3
    assert len({len(x) for x, _ in seen}) == 1


def test_texts_that_are_too_short():
    with pytest.raises(InputError, match="10 x 4 streams of 100 words: shorter than 3 words each"):
        Streams(text(100), 10, 4)
    with pytest.raises(IndexError):
        Streams(text(100), 2)[-1]
    dataset = data.load_dataset("ptb", words=101, bptt=30, standin="always")
    assert dataset.iterations(2) == 1
    with pytest.raises(InputError, match=r"batch=4: as many streams of ptb-standin-seeded have 25 words each, fewer"):
        dataset.iterations(4)
