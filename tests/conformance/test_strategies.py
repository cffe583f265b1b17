"""The conformance tests on every strategy, and equivalences: other strategies or closed forms that one must equal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from repro import strategies
from repro.answers.ranking import form_checks
from repro.answers.ranking.candidates import Candidate
from repro.fabric.collectives import dense as collectives
from repro.testing import StrategyConformance, real, small
from tests.support import faulty_strategies

CODECS = ("none", "truncate16", "quantize8")


def in_rank_order(gradients: list[torch.Tensor]) -> torch.Tensor:
    total = gradients[0].clone()
    for gradient in gradients[1:]:
        total += gradient
    return total


@pytest.mark.parametrize("name", real.strategy_names())
class TestEveryStrategy(StrategyConformance):
    in_bits = True

    def most(self, name: str) -> int:
        """The small model's number of blocks, if every rank holds a stage."""
        straight = getattr(strategies.load_strategy(name).Options, "config", None) == "straight"
        return len(small.model()) if straight else super().most(name)

    def test_without_arithmetic_it_takes_the_same_time(self, name: str) -> None:
        """And the same messages and staleness, also if a rank is late."""
        if real.needed_library(name):
            pytest.skip(f"{name} has no virtual time")
        (workers,) = self.numbers(name, 3)
        for delays in ((), [[0.02 * (rank == 0) for rank in range(workers)], [0.0] * workers]):
            timed, whole = (
                self.run(name, workers=workers, steps=6, delays=delays, arithmetic=arithmetic)
                for arithmetic in (False, True)
            )
            assert timed.seconds == pytest.approx(whole.seconds, rel=1e-12)
            assert (timed.bytes_sent, timed.staleness) == (whole.bytes_sent, whole.staleness)
            assert timed.counters == whole.counters or "mass" in str(whole.counters)


@pytest.mark.parametrize("workers", [2, 3, 6])
def test_bytes_are_counted(workers):
    n = small.initial_weights().numel()
    blocks = [end - start for start, end in collectives.chunk_bounds(n, workers)]
    # in a ring every rank sends every block but one in each half
    ring = [2 * 4 * n - 4 * blocks[(r + 1) % workers] - 4 * blocks[(r + 2) % workers] for r in range(workers)]
    for name in ("dsync", "pipe_sgd"):
        assert small.run(name, workers=workers, steps=5).bytes_sent == [5 * sent for sent in ring]
    served = small.run("ps_sync", workers=workers, steps=5).bytes_sent
    assert served == [5 * 4 * n] * workers + [5 * 4 * n * workers]


@pytest.fixture
def short_wire(tmp_path, monkeypatch):
    """The strategy that docs/strategy.md shows, as a file beside ours."""
    page = (Path(__file__).parents[2] / "docs" / "strategy.md").read_text()
    code, form, *_ = re.findall(r"^```python\n((?:# strat|from repro\.alg).*?)```", page, re.DOTALL | re.MULTILINE)
    imports, method = form.split("\n\n", 1)
    code = code.replace("import torch\n", f"import torch\n{imports}\n", 1)
    (tmp_path / "short_wire.py").write_text(f"{code}\n{method}")
    monkeypatch.setattr(strategies, "__path__", [*strategies.__path__, str(tmp_path)])


@pytest.mark.usefixtures("short_wire")
class TestTheExampleOfTheDocs(StrategyConformance):
    strategy = "short_wire"

    def test_its_wire_is_shorter(self):
        assert "short_wire" in strategies.strategy_names()
        whole, half = small.run("short_wire", workers=3), small.run("short_wire", {"wire": "bfloat16"}, workers=3)
        torch.testing.assert_close(whole.weights[0], small.run("dsync", workers=3).weights[0])
        assert len(set(half.digests)) == 1 and half.bytes_sent[0] * 2 == whole.bytes_sent[0]

    @pytest.mark.parametrize("wire", ["bfloat16", "float32"])
    def test_its_form_is_its_simulation(self, wire):
        named = {"name": "short_wire", "label": "short wire", "strategy": "short_wire", "options": {"wire": wire}}
        candidate = Candidate(**named, family="compression", keeps="compressed", link="ring", vectors=1)
        (row,) = form_checks.check_form(candidate, 1)
        assert row.form_s == pytest.approx(row.simulated_s)


@pytest.fixture
def faulty(tmp_path, monkeypatch):
    """The strategies of `tests.support.faulty_strategies`, as those of an installed package."""
    faulty_strategies.install(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("faulty")
class TestPlantedFaults:
    """Each planted fault fails the test that is meant for it."""

    kit = StrategyConformance()

    @pytest.mark.parametrize(
        ("name", "test"),
        [
            ("diloco_forgets_momentum", kit.test_state_survives_a_checkpoint),
            ("diloco_forgets_common_weights", kit.test_state_survives_a_checkpoint),
            ("powersgd_forgets_errors", kit.test_state_survives_a_checkpoint),
            ("powersgd_forgets_factors", kit.test_state_survives_a_checkpoint),
            ("diloco_sums", kit.test_workers_on_the_same_data_are_one_worker),
            ("diloco_first_come", kit.test_whoever_is_late),
        ],
    )
    def test_a_planted_fault_is_seen(self, name, test):
        with pytest.raises(AssertionError):
            test(name)

    @pytest.mark.parametrize(("name", "options"), [("diloco", {"H": faulty_strategies.NEVER}), ("powersgd_alone", {})])
    def test_a_strategy_that_never_exchanges_fails(self, name, options, monkeypatch):
        monkeypatch.setattr(StrategyConformance, "options", options)
        monkeypatch.setattr("repro.testing.strategies.MOST_STEPS", 25)
        for test in ("test_state_survives_a_checkpoint", "test_workers_on_the_same_data_are_one_worker"):
            with pytest.raises(pytest.fail.Exception, match=r"exchanged nothing in \d+ iterations.*`options`"):
                getattr(self.kit, test)(name)

    @pytest.mark.parametrize("name", ["diloco", "powersgd"])
    def test_a_state_that_is_not_loaded_is_seen(self, name, monkeypatch):
        """Also if it makes no difference yet."""
        monkeypatch.setattr(strategies.load_strategy(name), "load_state_dict", lambda self, state: None)
        with pytest.raises(AssertionError, match="iteration"):
            self.kit.test_what_a_checkpoint_holds_is_taken_up(name)


SIGNS = """
from repro.strategies.dsync import DSync
from repro.strategies.shared.data_parallel import DataParallel, GradientStrategy


class Signs(GradientStrategy):
    name = "signs"
    unlike_plain_sgd = "it applies signs"

    def exchange(self, gradient):
        self.worker.fabric.allreduce(total := gradient.sign())
        return total.sign() * self.worker.workers


class Sums(GradientStrategy):
    name = "sums"

    def exchange(self, gradient):
        self.worker.fabric.allreduce(gradient)
        return gradient * self.worker.workers


class Twice(GradientStrategy):
    name = "twice"

    def exchange(self, gradient):
        self.worker.fabric.allreduce(gradient)
        return gradient / self.worker.workers


class Extra(DSync):
    name = "extra"

    def step(self):
        report = super().step()
        self.worker.update()
        return report


class Weights(DataParallel):
    name = "weights"

    def step(self):
        loss = self.worker.gradients(self.minibatch())
        self.worker.update()
        self.worker.fabric.allreduce(self.worker.model_shard.weights).wait()
        return self.advanced(loss)


class Rounds(GradientStrategy):
    name = "rounds"

    def exchange(self, gradient):
        self.worker.fabric.allreduce(gradient)
        return 0.3 - (0.3 - gradient)
"""


class TestAFileOfOnesOwn:
    """The kit on strategies of a file: correct ones pass it whole, and a fault is named with its entry and its size."""

    def kit(self, tmp_path, which):
        (tmp_path / f"kit_{which.lower()}.py").write_text(SIGNS)

        class Kit(StrategyConformance):
            strategy = f"{tmp_path}/kit_{which.lower()}.py:{which}"

        kit = Kit()
        return kit, Kit.name.__wrapped__(kit)

    @pytest.mark.parametrize("which", ["Signs", "Rounds"])
    def test_a_correct_one_passes(self, tmp_path, which):
        kit, name = self.kit(tmp_path, which)
        for test in (member for member in dir(kit) if member.startswith("test_")):
            try:
                getattr(kit, test)(name)
            except pytest.skip.Exception as skip:
                assert "NCCL" in str(skip) or "unlike_plain_sgd" in str(skip)

    @pytest.mark.parametrize(
        ("which", "cause"),
        [("Sums", "a sum of 3 were not divided"), ("Weights", "a sum of 3 were not divided"),
         ("Twice", "1/3 of the workers' gradients, as if a mean were divided again")],
    )  # fmt: skip
    def test_a_fault_is_named_with_its_entry_and_its_size(self, tmp_path, which, cause):
        kit, name = self.kit(tmp_path, which)
        kit.test_one_worker_is_plain_sgd(name)
        message = rf"\['a\.0\.weight'\] differs in 30 of 30 elements, by up to [\d.]+.*{cause}"
        with pytest.raises(AssertionError, match=message):
            kit.test_workers_on_the_same_data_are_one_worker(name)

    def test_two_updates_in_one_iteration_are_counted(self, tmp_path):
        kit, name = self.kit(tmp_path, "Extra")
        with pytest.raises(AssertionError, match=r"made 24 updates of the weights in 12 iterations.*If other options"):
            kit.test_one_worker_is_plain_sgd(name)


# --- Pipe-SGD


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("codec", CODECS)
def test_pipe_sgd_with_K_1_is_dsync(workers, codec):
    dsync = small.run("dsync", {"codec": codec}, workers=workers)
    pipe = small.run("pipe_sgd", {"K": 1, "codec": codec}, workers=workers)
    assert (pipe.digests, pipe.losses) == (dsync.digests, dsync.losses)


@pytest.mark.parametrize("algorithm", ["recursive_doubling", "tree", "auto"])
def test_pipe_sgd_with_K_1_is_dsync_with_every_algorithm(algorithm):
    dsync = small.run("dsync", {"algorithm": algorithm}, workers=3)
    assert small.run("pipe_sgd", {"K": 1, "algorithm": algorithm}, workers=3).digests == dsync.digests


@pytest.mark.parametrize("K", [1, 2, 3, 5])
@pytest.mark.parametrize("workers", [1, 2])
def test_pipe_sgd_is_delayed_sgd(K, workers):
    """w[t] = w[t-1] - lr * mean gradient of iteration t-K+1 (from 1), taken at w[t-K];"""
    steps = 12
    history = [small.initial_weights()]  # history[t]: weights after t steps
    totals: list[torch.Tensor] = []
    for t in range(1, steps + 1):
        gradients = [small.serial_gradient(history[-1], t - 1, worker, workers) for worker in range(workers)]
        totals.append(in_rank_order(gradients))
        due = t - K
        history.append(small.sgd_step(history[-1], totals[due], workers) if due >= 0 else history[-1])
    assert torch.equal(small.run("pipe_sgd", {"K": K}, workers=workers, drain=False).weights[0], history[-1])
    for due in range(steps - K + 1, steps):  # drain: the rest, each once
        history.append(small.sgd_step(history[-1], totals[due], workers))
    assert torch.equal(small.run("pipe_sgd", {"K": K}, workers=workers).weights[0], history[-1])


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_warm_up_is_dsync_and_every_gradient_is_applied_once(K, momentum):
    optimizer = small.SGD.model_copy(update={"momentum": momentum})
    warm = {"K": K, "warmup_epochs": 0.5}  # 5 iterations of 10
    dsync = small.run("dsync", workers=2, steps=5, optimizer=optimizer)
    assert small.run("pipe_sgd", warm, workers=2, steps=5, optimizer=optimizer).digests == dsync.digests
    # while the pipe fills again no step is left out and none is doubled: K - 1 gradients are under way
    assert len(small.run("pipe_sgd", warm, workers=2, steps=9, drain=False).states[0]["ready"]) == K - 1
    assert small.run("pipe_sgd", warm, workers=2).states[0]["ready"] == []


def test_pipe_sgd_resumes_inside_the_warm_up_and_behind_it():
    options = {"K": 3, "warmup_epochs": 0.5, "codec": "quantize8"}
    whole = small.run("pipe_sgd", options, workers=3)
    for stop in (3, 5, 9):
        assert small.run("pipe_sgd", options, workers=3, stop_and_resume_at=stop).digests == whole.digests


# --- parameter server


@pytest.mark.parametrize("workers", [1, 2, 3, 6])
def test_ps_sync_is_sgd_on_the_sum_in_rank_order(workers):
    weights = small.initial_weights()
    for iteration in range(12):
        gradients = [small.serial_gradient(weights, iteration, worker, workers) for worker in range(workers)]
        weights = small.sgd_step(weights, in_rank_order(gradients), workers)
    assert torch.equal(small.run("ps_sync", workers=workers).weights[0], weights)


# --- overlap, in virtual time


def test_pipe_sgd_hides_what_dsync_exposes():
    """Computation takes 6 ms, the ring of 4 ranks 0.6 ms: Pipe-SGD's steps cost computation and update only."""
    dsync, pipe = small.run("dsync", workers=4, steps=50), small.run("pipe_sgd", workers=4, steps=50)
    assert dsync.seconds == pytest.approx(50 * (6e-3 + 0.6e-3), rel=1e-3)
    assert pipe.seconds == pytest.approx(50 * 6e-3 + 0.6e-3, rel=1e-3)
