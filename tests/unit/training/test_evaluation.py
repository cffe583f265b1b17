"""Evaluation: METEOR, the metrics of each kind of data, and evaluations that ranks share."""

from __future__ import annotations

import math
import threading
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional

from repro import data, models
from repro.core.errors import InputError
from repro.data import base
from repro.data.base import Split
from repro.data.readers.text import IGNORED
from repro.rank.evaluator import Evaluator
from repro.training import optimizers
from repro.training.evaluation import meteor as caption_scores
from repro.training.evaluation import metrics
from repro.training.evaluation.evaluate import Sharing, evaluate_training, evaluate_weights, weights_digest
from repro.training.evaluation.meteor import corpus_meteor
from repro.training.optimizers import mean_squared_error
from tests.support.probes import check, composed

# --- METEOR of captions: the library's score without synonyms, and decoded captions


CPU = torch.device("cpu")
GUIDE = "it is a guide to action which ensures that the military always obeys the commands of the party"
REFERENCE = "it is a guide to action that ensures that the military will forever heed party commands"


def words(*sentences: str) -> list[list[str]]:
    return [sentence.split() for sentence in sentences]


def by_hand(matches: int, chunks: int, caption: int, reference: int) -> float:
    precision, recall = matches / caption, matches / reference
    return 10 * precision * recall / (recall + 9 * precision) * (1 - 0.5 * (chunks / matches) ** 3)


def test_the_formula():
    assert corpus_meteor([words("a man rides a horse")], words("a man rides a horse")) == pytest.approx(
        by_hand(5, 1, 5, 5)
    )
    # a, man, horse, and riding by its stem: in one piece but for the word between
    assert corpus_meteor([words("a man rides the horse")], words("a man riding one horse")) == pytest.approx(
        by_hand(4, 2, 5, 5)
    )
    assert corpus_meteor([words("a dog")], words("no cats here")) == 0 == corpus_meteor([words("a dog")], [[]])

    assert corpus_meteor([words(REFERENCE)], words(GUIDE)) == pytest.approx(0.6944, abs=5e-5), "the library's example"


def test_the_best_reference_counts_and_clips_are_averaged():
    one, two = corpus_meteor([words("a b c")], words("a b d")), corpus_meteor([words("a b d")], words("a b d"))
    assert two > one and corpus_meteor([words("a b c", "a b d", "x")], words("a b d")) == two
    assert corpus_meteor([words("a b c"), words("a b d")], words("a b d", "a b d")) == pytest.approx((one + two) / 2)


@pytest.fixture
def small(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("REPRO_DATA", raising=False)
    dataset = data.load_dataset("msvd", features=16, steps=10, clips=40, test_clips=8, test_captions=1, scored=6)
    options = {"hidden": 12, "embedding": 8, "dropout": 0.0}
    return dataset, *(
        models.build_model("s2vt", dataset.input_shape, dataset.classes, seed, **options) for seed in (0, 1)
    )


def test_an_evaluation_scores_decoded_captions(small, monkeypatch):
    dataset, model, spare = small
    scores = evaluate_weights(spare, model.state_dict(), dataset.test, CPU)
    assert scores.keys() == {"test_loss", "top1", "top5", "perplexity", "meteor"} and 0 <= scores["meteor"] < 0.5
    captions = caption_scores.decode_captions(spare, dataset.test, CPU)
    assert len(captions) == 6 and all(len(caption) <= 10 for caption in captions)
    references = [clip.captions for clip in dataset.test.clips[:6]]
    assert scores["meteor"] == corpus_meteor(references, captions)
    training = evaluate_training(spare, model.state_dict(), dataset.train, CPU, 5)
    assert training.keys() == {"train_top1", "train_top5", "train_perplexity"}
    first = torch.stack([dataset.test.slice(row, row + 1)[1] for row in range(6)])  # a reference of each clip
    monkeypatch.setattr(type(model), "captions", lambda self, x: first[: len(x)].clamp(min=0))
    assert 0.99 < caption_scores.score(model, dataset.test, CPU) < 1


# --- metrics and losses of classification, text and regression


def split(classes: int = 8, count: int = 40) -> Split:
    generator = torch.Generator().manual_seed(0)
    return Split(torch.randn(count, classes, generator=generator), torch.arange(count) % classes)


@pytest.mark.parametrize(("metric", "dataset", "complaint"), [
    ("mse", "mnist", "metric=mse: .* for regression, and data set 'mnist' has images; metrics for it: top1, top5$"),
    ("top1", "hyperplane", "for classification and text, and .* has vectors, a regression; .*: mse$"),
    ("meteor", "ptb", "for captioned clips, and data set 'ptb' has text; .*: top1, top5, perplexity$"),
    ("msee", "hyperplane", "unknown metric 'msee'; valid: mse, "),
])  # fmt: skip
def test_a_metric_must_suit_the_data(metric, dataset, complaint):
    with pytest.raises(InputError, match=complaint) as caught:
        metrics.check_metric(metric, dataset)
    assert "\n" not in str(caught.value)


def test_metrics_and_targets():
    for metric, names in {
        "top1": ["mnist", "ucf101", "ptb"],
        "top5": ["imagenet", "ucf101"],
        "mse": ["hyperplane"],
        "perplexity": ["ptb", "multi30k", "msvd"],
        "meteor": ["msvd"],
    }.items():
        for name in names:
            metrics.check_metric(metric, name)
    assert metrics.reaches_target("mse", 4.7, 4.8) and not metrics.reaches_target("mse", 4.9, 4.8)
    assert metrics.reaches_target("meteor", 0.3, 0.294) and not metrics.reaches_target("top5", 0.9, 0.91)
    assert all(metrics.reaches_target(metric, 0.97, 0.97) for metric in metrics.METRICS)
    metrics.check_classes("top5", 6)
    with pytest.raises(InputError, match="metric=top5: needs more than 5 classes"):
        metrics.check_classes("top5", 5)


def test_modules_have_the_task_and_kind_of_their_splits():
    for name in data.dataset_names():
        shapes = data.load_shapes(name)
        assert (shapes.task, shapes.kind) == (data.task_of(name), data.input_kind(name))
        loss = mean_squared_error if shapes.task == "regression" else functional.cross_entropy
        assert optimizers.loss_of(shapes.task) is loss


def test_top1_and_top5():
    model, samples = nn.Sequential(nn.Identity()), split()
    scores = evaluate_weights(model, {}, samples, CPU)
    order = samples.x.argsort(1, descending=True)
    places = (order == samples.y.unsqueeze(1)).nonzero()[:, 1]
    assert scores["top1"] == (places == 0).double().mean() and scores["top5"] == (places < 5).double().mean()
    assert scores["top1"] < scores["top5"] < 1
    assert scores["test_loss"] == pytest.approx(functional.cross_entropy(samples.x, samples.y).item(), rel=1e-6)
    assert "top5" not in evaluate_weights(model, {}, split(classes=5), CPU)


def test_ignored_labels_count_nowhere():
    class Padded(Split):
        task = "text"

    samples = split()
    y = samples.y.clone()
    y[10:] = IGNORED
    scores = evaluate_weights(nn.Sequential(nn.Identity()), {}, Padded(samples.x, y), CPU)
    of_ten = evaluate_weights(nn.Sequential(nn.Identity()), {}, Split(samples.x[:10], samples.y[:10]), CPU)
    assert {name: scores[name] for name in of_ten} == pytest.approx(of_ten)
    assert scores["perplexity"] == pytest.approx(math.exp(scores["test_loss"]))


def test_training_samples_are_the_same_in_every_evaluation():
    model, samples = nn.Sequential(nn.Identity()), split(count=400)
    one, two = (evaluate_training(model, {}, samples, CPU, 50) for _ in range(2))
    assert one == two and one.keys() == {"train_top1", "train_top5"}
    part = samples.subset(50)
    assert len(part) == 50 and part.y.shape == (50,) and len(samples.subset(1000)) == 400
    rows = part.rows.tolist()
    assert rows == sorted(set(rows)) and samples.subset(50, seed=1).rows.tolist() != rows
    everything = evaluate_training(model, {}, samples, CPU, 400)
    assert everything["train_top1"] == evaluate_weights(model, {}, samples, CPU)["top1"]


def test_mean_squared_error():
    outputs, values = torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([1.0, 4.0, 1.0])
    assert mean_squared_error(outputs, values).item() == pytest.approx(13 / 3)
    assert mean_squared_error(outputs, values, "sum").item() == 13


@pytest.mark.parametrize(("model", "dataset", "complaint"), [
    ("hyperplane", "mnist", "model hyperplane takes vectors, and mnist .* is images; models for it: alexnet"),
    ("resnet20", "hyperplane", "resnet20 takes images, and hyperplane .* is vectors; models for it: hyperplane$"),
    ("lstm_ptb", "ucf101", "takes text, and .*ucf101.* is sequences; models for it: lstm_ucf101$"),
    ("softmax", "ptb", "model softmax takes images, and ptb .* is text; models for it: lstm_ptb"),
    ("transformer", "cifar10", "takes sentence pairs, and cifar10 .* is images"),
])  # fmt: skip
def test_a_model_must_suit_the_data(model, dataset, complaint):
    with pytest.raises(InputError, match=complaint) as caught:
        models.model_for(check(composed("fig4-mnist") | {"model": {"name": model}}), data.load_shapes(dataset), "meta")
    assert "\n" not in str(caught.value)


# --- evaluations that ranks share


def together(ranks: int, work) -> list:
    """The results of work(rank, exchange) on as many threads; `exchange` is like a fabric's."""
    barrier, sent, results = threading.Barrier(ranks, timeout=60), [None] * ranks, [None] * ranks

    def one(rank: int) -> None:
        def exchange(mine):
            sent[rank] = mine
            barrier.wait()
            everyone = list(sent)
            barrier.wait()
            return everyone

        results[rank] = work(rank, exchange)

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize(("name", "model", "options", "ranks"), [
    ("cifar10", "resnet8", {"images": 16, "test_images": 55}, 3),
    ("hyperplane", "hyperplane", {"dimensions": 16, "samples": 64, "test_samples": 55}, 8),
    ("ucf101", "lstm_ucf101", {"videos": 101, "test_videos": 101, "features": 8, "stride": 16}, 3),
])  # fmt: skip
def test_a_shared_evaluation_equals_one_ranks_bit_for_bit(name, model, options, ranks, monkeypatch):
    monkeypatch.setattr(base, "EVALUATION_BATCH", 10)  # six pieces, the last one smaller
    dataset = data.load_dataset(name, standin="always", **options)
    shape = dataset.input_shape
    sizes = {"hidden": 8, "dense": 8} if model == "lstm_ucf101" else {}
    built = [models.build_model(model, shape, dataset.classes, 0, **sizes) for _ in range(ranks + 1)]
    weights = built[0].state_dict()
    alone = evaluate_weights(built[0], weights, dataset.test, CPU)
    alone |= evaluate_training(built[0], weights, dataset.train, CPU, 15)

    def work(rank, exchange):
        sharing = Sharing(rank, ranks, exchange)
        scores = evaluate_weights(built[rank], weights, dataset.test, CPU, sharing)
        return scores | evaluate_training(built[rank], weights, dataset.train, CPU, 15, sharing)

    assert together(ranks + 1, work) == [alone] * (ranks + 1)  # the last is a server
    pieces = [list(dataset.test.in_order(rank, ranks)) for rank in range(ranks)]
    assert sum(len(y) for share in pieces for _, y in share) == len(dataset.test)


def test_shared_sums_are_added_in_the_pieces_order():
    """2^60 + 1 - 2^60 is 0, and 1 in the order of the ranks."""
    dataset = data.load_dataset("hyperplane", standin="always", dimensions=16, samples=64, test_samples=8)
    model = models.build_model("hyperplane", dataset.input_shape, dataset.classes, 0)
    sums = [[2.0**60, -(2.0**60)], [1.0]]
    shares = [[{"test_loss": each, "counted": 1} for each in mine] for mine in sums]
    sharing = Sharing(0, 2, lambda mine: shares)
    assert evaluate_weights(model, model.state_dict(), dataset.test, CPU, sharing)["test_loss"] == 0


@pytest.mark.parametrize(("differs", "shared", "sent"), [
    ("nothing", True, 0), ("running mean", True, 1), ("parameter", True, 1), ("all but one", True, None),
    ("state", False, 0),
])  # fmt: skip
def test_ranks_share_with_the_weights_of_rank_0(differs, shared, sent):
    """As after model averaging, when ranks of eager-SGD drift, or in a pipeline, where each has a part of the model.
    Ranks do not share a model that carries state. The last rank is a server."""
    dataset = data.load_dataset("cifar10", standin="always", images=16, test_images=16)
    built = [models.build_model("resnet8", dataset.input_shape, dataset.classes, 0) for _ in range(4)]
    names = [name for name, _ in built[0].named_buffers() if "running_mean" in name]
    with torch.no_grad():
        if differs == "running mean":
            built[2].get_buffer(names[0]).add_(1)
        elif differs == "parameter":
            next(iter(built[2].parameters())).add_(1e-6)

    def work(rank, exchange):
        def broadcast(tensor):
            fabric.sent += 1
            tensor.copy_(exchange(tensor.clone())[0])

        fabric = SimpleNamespace(rank=rank, exchange=exchange, broadcast=broadcast, bytes_sent=5, sent=0)
        shard = SimpleNamespace(device=CPU, stateful=differs == "state" and rank == 1)
        worker = SimpleNamespace(blocks=None, workers=3, rank=rank, fabric=fabric, model_shard=shard)
        evaluator = Evaluator(worker, None, built[rank], dataset, None)
        mine = {name: tensor.clone() for name, tensor in built[rank].state_dict().items()}
        if differs == "all but one" and rank:
            mine = {name: tensor for name, tensor in mine.items() if name in names[:1]}
        weights, sharing = evaluator._shared(mine)
        assert (sharing is not None) == shared and fabric.bytes_sent == 5
        assert fabric.sent == (len(weights) - 1 if sent is None else sent)
        return weights

    weights_of_ranks = together(4, work)
    if shared:
        assert all(weights_digest(weights) == weights_digest(built[0].state_dict()) for weights in weights_of_ranks)
