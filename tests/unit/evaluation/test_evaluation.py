"""Metrics: which goes with which data, what an evaluation gives, and METEOR."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from repro import data, models
from repro.common.errors import InputError
from repro.data.base import Dataset, Split
from repro.data.text import IGNORED, Text
from repro.evaluation import meteor as caption_scores
from repro.evaluation import metrics
from repro.evaluation.evaluate import evaluate, evaluate_training
from repro.evaluation.meteor import meteor
from repro.training import losses
from repro.training.losses import mean_squared_error
from tests.support.probes import check, composed

# --- mETEOR of captions: the library's score without synonyms, what a network says, and the metric's place in a run


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


# --- metrics and losses of classes, text and regressions: which goes with which data, and what an evaluation gives


def split(classes: int = 8, count: int = 40) -> Split:
    generator = torch.Generator().manual_seed(0)
    return Split(torch.randn(count, classes, generator=generator), torch.arange(count) % classes)


@pytest.mark.parametrize(
    "metric, dataset, complaint",
    [
        ("mse", "mnist", "metric=mse: of regression, and data set 'mnist' has images; metrics for it: top1, top5$"),
        ("mse", "ucf101", "data set 'ucf101' has sequences; metrics for it: top1, top5$"),
        (
            "top1",
            "hyperplane",
            "of classification and text, and data set 'hyperplane' has vectors, a regression; .*: mse$",
        ),
        ("perplexity", "ucf101", "metric=perplexity: of text, and data set 'ucf101' has sequences"),
        ("msee", "hyperplane", "unknown metric 'msee'; valid: mse, "),
    ],
)
def test_a_metric_has_to_go_with_the_data(metric, dataset, complaint):
    with pytest.raises(InputError, match=complaint) as caught:
        metrics.check(metric, dataset)
    assert "\n" not in str(caught.value)


def test_metrics_that_go():
    for metric, names in {
        "top1": ["mnist", "ucf101", "ptb"],
        "top5": ["imagenet", "ucf101"],
        "mse": ["hyperplane"],
        "perplexity": ["ptb", "multi30k"],
    }.items():
        for name in names:
            metrics.check(metric, name)
    assert metrics.lower_is_better("mse") and not metrics.lower_is_better("top5")
    assert metrics.reaches("mse", 4.7, 4.8) and not metrics.reaches("mse", 4.9, 4.8)
    metrics.check_classes("top5", 6)
    with pytest.raises(InputError, match="metric=top5: the data set has 5 classes"):
        metrics.check_classes("top5", 5)


def test_modules_say_the_task_that_their_splits_have():
    for name in data.names():
        found = data.shapes(name)
        assert (found.task, found.kind) == (data.task(name), data.kind(name))
        loss = mean_squared_error if found.task == "regression" else functional.cross_entropy
        assert losses.of(found.task) is loss


def test_top1_and_top5():
    model, samples = nn.Sequential(nn.Identity()), split()
    scores = evaluate(model, {}, samples, CPU)
    order = samples.x.argsort(1, descending=True)
    places = (order == samples.y.unsqueeze(1)).nonzero()[:, 1]
    assert scores["top1"] == (places == 0).double().mean() and scores["top5"] == (places < 5).double().mean()
    assert scores["top1"] < scores["top5"] < 1
    assert scores["test_loss"] == pytest.approx(functional.cross_entropy(samples.x, samples.y).item(), rel=1e-6)
    assert "top5" not in evaluate(model, {}, split(classes=5), CPU)


def test_ignored_labels_count_nowhere():
    class Padded(Split):
        task = "text"

    samples = split()
    y = samples.y.clone()
    y[10:] = IGNORED
    scores = evaluate(nn.Sequential(nn.Identity()), {}, Padded(samples.x, y), CPU)
    of_ten = evaluate(nn.Sequential(nn.Identity()), {}, Split(samples.x[:10], samples.y[:10]), CPU)
    assert {name: scores[name] for name in of_ten} == pytest.approx(of_ten)
    assert scores["perplexity"] == pytest.approx(math.exp(scores["test_loss"]))


def test_training_samples_are_the_same_every_time():
    model, samples = nn.Sequential(nn.Identity()), split(count=400)
    one, two = (evaluate_training(model, {}, samples, CPU, 50) for _ in range(2))
    assert one == two and one.keys() == {"train_top1", "train_top5"}
    part = samples.subset(50)
    assert len(part) == 50 and part.y.shape == (50,) and len(samples.subset(1000)) == 400
    rows = part.rows.tolist()
    assert rows == sorted(set(rows)) and samples.subset(50, seed=1).rows.tolist() != rows
    everything = evaluate_training(model, {}, samples, CPU, 400)
    assert everything["train_top1"] == evaluate(model, {}, samples, CPU)["top1"]


def test_part_of_a_text():
    text = Text(torch.arange(1001), 10)
    part = text.subset(100)
    assert len(part) == 100 and torch.equal(part.words, part.words[0] + torch.arange(101))
    assert torch.equal(part.words, text.subset(100).words) and len(text.subset(5000)) == 1000


def test_mean_squared_error():
    outputs, values = torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([1.0, 4.0, 1.0])
    assert mean_squared_error(outputs, values).item() == pytest.approx(13 / 3)
    assert mean_squared_error(outputs, values, "sum").item() == 13


@pytest.mark.parametrize(
    "model, dataset, complaint",
    [
        ("hyperplane", "mnist", "model hyperplane takes vectors, and mnist .* is images; models for it: alexnet"),
        (
            "resnet20",
            "hyperplane",
            "model resnet20 takes images, and hyperplane .* is vectors; models for it: hyperplane$",
        ),
        ("lstm_ptb", "ucf101", "takes text, and .*ucf101.* is sequences; models for it: lstm_ucf101$"),
        ("lstm_ucf101", "ptb", "takes sequences, and ptb .* is text; models for it: lstm_ptb$"),
        ("lstm_ptb", "multi30k", "is sentence pairs; models for it: transformer$"),
        ("transformer", "cifar10", "takes sentence pairs, and cifar10 .* is images"),
    ],
)
def test_a_model_has_to_go_with_the_data(model, dataset, complaint):
    found = data.shapes(dataset)
    with pytest.raises(InputError, match=complaint) as caught:
        models.of(check(composed("fig4-mnist") | {"model": {"name": model}}), found, "meta")
    assert "\n" not in str(caught.value)
    assert isinstance(found, Dataset)
