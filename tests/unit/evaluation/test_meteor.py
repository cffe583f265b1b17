"""METEOR of captions: the library's score without synonyms, what a network says, and the metric's place in a run."""

from __future__ import annotations

import pytest
import torch

from repro import data, models
from repro.common.errors import InputError
from repro.evaluation import meteor as caption_scores
from repro.evaluation import metrics
from repro.evaluation.evaluate import evaluate, evaluate_training
from repro.evaluation.meteor import meteor

CPU = torch.device("cpu")
GUIDE = "it is a guide to action which ensures that the military always obeys the commands of the party"
REFERENCE = "it is a guide to action that ensures that the military will forever heed party commands"


def words(*sentences: str) -> list[list[str]]:
    return [sentence.split() for sentence in sentences]


def by_hand(matches: int, chunks: int, caption: int, reference: int) -> float:
    precision, recall = matches / caption, matches / reference
    return 10 * precision * recall / (recall + 9 * precision) * (1 - 0.5 * (chunks / matches) ** 3)


def test_the_formula():
    assert meteor([words("a man rides a horse")], words("a man rides a horse")) == pytest.approx(by_hand(5, 1, 5, 5))
    # a, man, horse, and riding by its stem: in one piece but for the word between
    assert meteor([words("a man rides the horse")], words("a man riding one horse")) == pytest.approx(
        by_hand(4, 2, 5, 5)
    )
    assert meteor([words("a dog")], words("no cats here")) == 0 == meteor([words("a dog")], [[]])


def test_the_librarys_example():
    assert meteor([words(REFERENCE)], words(GUIDE)) == pytest.approx(0.6944, abs=5e-5)


def test_the_best_reference_counts_and_clips_are_averaged():
    one, two = meteor([words("a b c")], words("a b d")), meteor([words("a b d")], words("a b d"))
    assert two > one and meteor([words("a b c", "a b d", "x")], words("a b d")) == two
    assert meteor([words("a b c"), words("a b d")], words("a b d", "a b d")) == pytest.approx((one + two) / 2)


def test_no_synonyms():
    """WordNet would know that an automobile is a car."""
    assert meteor([words("automobile")], words("car")) == 0


@pytest.fixture
def small(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("REPRO_DATA", raising=False)
    dataset = data.load("msvd", features=16, steps=10, clips=40, test_clips=8, test_captions=1, scored=6)
    options = {"hidden": 12, "embedding": 8, "dropout": 0.0}
    return dataset, *(models.build("s2vt", dataset.input_shape, dataset.classes, seed, **options) for seed in (0, 1))


def test_an_evaluation_scores_what_the_network_says(small):
    dataset, model, spare = small
    scores = evaluate(spare, model.state_dict(), dataset.test, CPU)
    assert scores.keys() == {"test_loss", "top1", "top5", "perplexity", "meteor"} and 0 <= scores["meteor"] < 0.5
    said = caption_scores.decoded(spare, dataset.test, CPU)
    assert len(said) == 6 and all(len(caption) <= 10 for caption in said)
    references = [clip.captions for clip in dataset.test.clips[:6]]
    assert scores["meteor"] == meteor(references, said)
    training = evaluate_training(spare, model.state_dict(), dataset.train, CPU, 5)
    assert training.keys() == {"train_top1", "train_top5", "train_perplexity"}


def test_a_network_that_says_a_reference_has_nearly_one(small, monkeypatch):
    dataset, model, _ = small
    split = dataset.test
    first = torch.stack([split.slice(row, row + 1)[1] for row in range(6)])  # with one caption a clip
    monkeypatch.setattr(type(model), "captions", lambda self, x: first[: len(x)].clamp(min=0))
    assert 0.99 < caption_scores.score(model, split, CPU) < 1


def test_it_is_a_metric_of_captions_alone():
    metrics.check("meteor", "msvd")
    metrics.check("perplexity", "msvd")
    assert not metrics.lower_is_better("meteor") and metrics.reaches("meteor", 0.3, 0.294)
    complaint = "of captioned clips, and data set 'ptb' has text; metrics for it: top1, top5, perplexity"
    with pytest.raises(InputError, match=f"{complaint}$"):
        metrics.check("meteor", "ptb")
