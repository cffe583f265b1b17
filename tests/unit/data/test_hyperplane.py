"""Hyperplane regression: points that are computed when drawn, and the error of a trained model."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from repro import data, models
from repro.core.errors import InputError
from repro.data import counter_rng
from repro.data.minibatches import Batches
from repro.data.readers import hyperplane_points
from repro.data.sets import hyperplane
from repro.training.evaluation.evaluate import evaluate_training
from tests.unit.data.conftest import trained


def test_the_papers_sizes():
    dataset = data.load_dataset("hyperplane")
    assert (dataset.name, dataset.standin, dataset.task, dataset.kind) == ("hyperplane", False, "regression", "vectors")
    assert (len(dataset.train), len(dataset.test), dataset.input_shape, dataset.classes) == (32768, 4096, (8192,), 1)
    assert dataset.iterations(2048) == 16
    x, y = dataset.train.slice(0, 64)
    assert x.shape == (64, 8192) and x.dtype == y.dtype == torch.float32 and y.shape == (64,)
    assert abs(x.mean()) < 0.01 and abs(x.std() - 1) < 0.01 and x.abs().max() < 1.7254
    assert dataset.train.coefficients.unique().tolist() == [-7, -5, -3, -1, 1, 3, 5, 7]
    assert sum(p.numel() for p in models.build_model("hyperplane", (8192,), 1, 0, "meta").parameters()) == 8193


def test_a_point_is_the_same_in_every_minibatch_and_every_process():
    one, two = (data.load_dataset("hyperplane", samples=512, test_samples=64) for _ in range(2))
    whole_x, whole_y = one.train.slice(0, 512)
    batches = two.train.minibatches(32, 4, 7)
    assert isinstance(batches, Batches) and batches.per_epoch == 16
    for minibatch in (3, 0, 17):
        rows, (x, y) = batches.indices(minibatch), batches[minibatch]
        assert torch.equal(x, whole_x[rows]) and torch.equal(y, whole_y[rows])
    assert torch.equal(one.train.y, whole_y) and one.checksum == two.checksum
    assert not torch.equal(one.test.slice(0, 64)[0], whole_x[:64])
    assert one.checksum.startswith("7438ea90"), "the numbers are the same on every machine"


def test_labels_are_the_plane_plus_noise():
    exact = hyperplane.load(noise=0.0, samples=256)
    x, y = exact.train.slice(0, 256)
    sums = x.double() @ (exact.train.coefficients.double() / hyperplane_points.LEVELS)
    assert torch.allclose(sums, y.double(), atol=1e-4)
    noisy = hyperplane.load(noise=2.0, samples=256).train.slice(0, 256)[1]
    assert 1.7 < (noisy - y).std() < 2.3 and abs((noisy - y).mean()) < 0.5
    other = hyperplane.load(seed=1, samples=256)
    assert other.checksum != exact.checksum and not torch.equal(other.train.coefficients, exact.train.coefficients)


def test_noise_by_its_place():
    drawn = counter_rng.normal_values(counter_rng.Stream("a"), range(20000))
    assert abs(drawn.mean()) < 0.03 and abs(drawn.std() - 1) < 0.02 and abs(drawn).max() < 6
    assert (counter_rng.normal_values(counter_rng.Stream("a"), [7, 19999]) == drawn[[7, 19999]]).all()
    assert not (counter_rng.normal_values(counter_rng.Stream("b"), [7]) == drawn[[7]]).any()


def test_training_ends_near_what_least_squares_can_do():
    """The expected error on new points, s^2 (1 + d / (n - d - 1)), is our reading of the paper's 4.7."""
    dataset = data.load_dataset("hyperplane", dimensions=64, samples=256, test_samples=1024)
    floor = hyperplane.NOISE**2 * (1 + 65 / (256 - 65 - 1))
    first, last = trained(dataset, partial(torch.optim.SGD, lr=0.03), 150, 64, "hyperplane")
    assert last.keys() == {"test_loss", "mse"} and last["mse"] == last["test_loss"]
    assert first["mse"] > 12 and 0.75 * floor < last["mse"] < 1.25 * floor
    model = models.build_model("hyperplane", dataset.input_shape, dataset.classes, 0)
    on_training = evaluate_training(model, model.state_dict(), dataset.train, torch.device("cpu"), 100)
    assert on_training.keys() == {"train_mse"}
    assert pytest.approx(4.7, abs=0.005) == hyperplane.NOISE**2 * (1 + 8193 / (32768 - 8193 - 1))


def test_shapes_only():
    found = data.load_shapes("hyperplane")
    x, y = found.train.minibatches(256, 8, 0, "cpu")[3]
    assert x.shape == (256, 8192) and y.shape == (256,) and x.is_meta and y.is_meta and len(found.train.y) == 32768
    assert (found.name, found.task) == ("hyperplane (shapes only)", "regression") and found.input_shape == (8192,)


def test_nothing_to_find_or_to_fetch():
    from repro.data.fetch import fetch_dataset

    lines = []
    assert data.ensure_dataset("hyperplane", say=lines.append) is None and lines == ["data: hyperplane, generated"]
    row = next(row for row in data.dataset_status() if row["name"] == "hyperplane")
    nothing = {"where": None, "ok": None, "megabytes": 0, "standin": None}
    assert row == {"name": "hyperplane", "detail": "generated"} | nothing
    for search in (fetch_dataset, data.verify_dataset):
        with pytest.raises(InputError, match="'hyperplane' is generated: there is nothing to download"):
            search("hyperplane")
