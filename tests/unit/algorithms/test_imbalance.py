"""Injected load imbalance: the injectors' delays, the worker's sleeps, errors before a run, and all strategies."""

from __future__ import annotations

import math
import statistics
from collections import Counter

import pytest
import torch

from repro import strategies
from repro.algorithms import imbalance
from repro.algorithms.imbalance import cloud
from repro.core.errors import InputError
from repro.data.minibatches import Batches
from repro.experiment import code_digest
from repro.experiment import config as configs
from repro.experiment.expand import expand_runs
from repro.experiment.key import keyed_values
from repro.experiment.plugins import plugin_maker
from repro.experiment.schema import RunConfig
from repro.experiment.versions import roots_of
from repro.fabric.virtual import fabric as virtual
from repro.testing import real, small
from repro.training.clock import Clock
from repro.training.device_times import BlockSeconds
from repro.training.model_shard import ModelShard
from repro.training.worker import Worker
from tests.support import virtual_runs

FIG4 = "pipesgd/fig4-mnist"
EVERY = ["random_one", "random_n", "random_draws", "shifting", "cloud"]  # but for delays from a file


def injector(name, workers=4, seed=0, **options):
    plugin = plugin_maker("imbalance")({"name": name, **options})
    config = RunConfig.model_construct(imbalance=plugin, workers=workers, seed=seed, timeout_s=120, min_compute_s=None)
    imbalance.check_imbalance(config)
    return imbalance.imbalance_for(config)


def trace(folder, text):
    path = folder / "delays.txt"
    path.write_text(text, encoding="utf-8")
    return str(path)


# --- what is drawn
def test_one_random_worker_a_step_and_every_one_as_often():
    found = injector("random_one", workers=8, delay_s=0.3)
    late = Counter()
    for iteration in range(1600):
        delays = found.delays(iteration)
        assert sorted(delays) == [0.0] * 7 + [0.3]
        late[delays.index(0.3)] += 1
    assert all(abs(late[worker] - 200) < 5 * math.sqrt(200 * 7 / 8) for worker in range(8))


def test_n_random_workers_a_step_none_twice():
    found = injector("random_n", workers=64, n=4, delay_s=0.46)
    sets = {tuple(w for w, delay in enumerate(found.delays(t)) if delay == 0.46) for t in range(200)}
    assert {len(late) for late in sets} == {4} and len(sets) > 190
    assert injector("random_n", workers=3, n=3, delay_s=1).delays(5) == [1.0] * 3


def test_shifting_is_linear_over_the_ranks_and_moves_by_one_each_step():
    found = injector("shifting", workers=8, low_s=0.05, high_s=0.4)
    first = found.delays(0)
    assert first == pytest.approx([0.05 * (1 + worker) for worker in range(8)])
    for step in range(20):
        assert found.delays(step) == first[step % 8 :] + first[: step % 8]
    assert injector("shifting", workers=1).delays(3) == [0.05]


def test_cloud_has_the_moments_of_figure_4():
    """The cut log-normal's mean and deviation, in closed form, are the published ones; draws stay below the largest."""
    mu, sigma = cloud.MU, cloud.SIGMA
    limit = (math.log(cloud.LARGEST_S) - mu) / sigma

    def moment(k):
        return math.exp(k * mu + (k * sigma) ** 2 / 2) * cloud.NORMAL.cdf(limit - k * sigma) / cloud.BELOW_LARGEST

    assert moment(1) == pytest.approx(cloud.MEAN_S - cloud.MINIMUM_S, rel=1e-4)
    assert math.sqrt(moment(2) - moment(1) ** 2) == pytest.approx(cloud.DEVIATION_S, rel=1e-4)
    found = injector("cloud", workers=8, scale=2)
    drawn = [seconds for t in range(2500) for seconds in found.delays(t)]
    assert min(drawn) >= 0 and max(drawn) <= found.longest
    assert found.longest == pytest.approx(2 * 1.493)
    assert statistics.fmean(drawn) == pytest.approx(2 * moment(1), rel=0.1)
    assert statistics.median(drawn) == pytest.approx(2 * cloud.excess_seconds(0.5), rel=0.05)
    assert cloud.excess_seconds(0.0) == 0 and cloud.excess_seconds(1.0) == pytest.approx(cloud.LARGEST_S)


@pytest.mark.parametrize("text", ["0.1,0.2\n\n# a comment\n0,0.5\n0.3, 1e-3\n", "[0.1, 0.2]\n[0, 0.5]\n[0.3, 0.001]\n"])
def test_a_trace_is_read_and_cycles(tmp_path, text):
    found = injector("trace", workers=2, file=trace(tmp_path, text))
    rows = [[0.1, 0.2], [0.0, 0.5], [0.3, 0.001]]
    assert [found.delays(t) for t in range(7)] == [*rows, *rows, rows[0]] and found.longest == 0.5


def test_workers_that_draw_by_themselves_are_late_two_of_64_a_step_and_sometimes_none():
    found = injector("random_draws", workers=64)
    late = Counter(sum(delay > 0 for delay in found.delays(iteration)) for iteration in range(2000))
    assert sum(n * steps for n, steps in late.items()) / 2000 == pytest.approx(2, rel=0.1)
    assert late[0] / 2000 == pytest.approx((1 - 1 / 64) ** 128, rel=0.25) and late[4] > 0
    assert injector("random_draws", workers=1).delays(3) == [0.32]


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(("workers", "seed"), [(4, 0), (8, 99), (70, 3)])
def test_every_rank_draws_the_same_from_seed_and_iteration_alone(name, workers, seed):
    one, other = injector(name, workers, seed), injector(name, workers, seed)
    backwards = {t: other.delays(t) for t in reversed(range(20))}
    for iteration in range(20):
        delays = one.delays(iteration)
        assert delays == backwards[iteration] and len(delays) == workers
        assert all(0 <= seconds <= one.longest for seconds in delays)


def test_another_seed_draws_others():
    drawn = {seed: [injector("random_one", 8, seed).delays(t) for t in range(30)] for seed in range(3)}
    assert drawn[0] != drawn[1] != drawn[2] != drawn[0]


# --- in the worker
def steps(fabric, inject, n=6, min_compute_s=None, blocks=True, work=None, ready=None):
    """A rank's training clock after each of n gradient computations, the phases' sums and the last gradient."""
    batches = Batches(small.split(), 4, 3, 10 * fabric.size)
    if work:
        batches.work = work
    worker = Worker(
        workers=fabric.size, fabric=fabric, clock=Clock(fabric), batches=batches,
        model_shard=ModelShard(small.model(), small.SGD, torch.device("cpu")), iterations_per_epoch=10, seed=0,
        blocks=BlockSeconds([0.01, 0.02], [0.03, 0.04]) if blocks else None, imbalance=inject,
        min_compute_s=min_compute_s,
    )  # fmt: skip
    worker.clock.start()
    marks = []
    for t in range(n):
        hook = ready and (lambda _: ready(worker.clock.train_s()))
        worker.gradients(t * fabric.size + fabric.rank, gradient_ready=hook)
        marks.append(worker.clock.train_s())
    gradient = torch.cat([p.grad.view(-1) for p in worker.model_shard.parameters])
    return marks, worker.clock.take(), gradient


def run(workers, inject, **how):
    return virtual.run(workers, lambda fabric: steps(fabric, inject, **how), small.NETWORK)


@pytest.mark.parametrize("name", EVERY)
def test_a_rank_sleeps_its_own_delay_before_each_pass(name):
    inject = injector(name, workers=4)
    for rank, (marks, phases, _) in enumerate(run(4, inject)):
        delays = [inject.delays(t)[rank] for t in range(6)]
        expected = [sum(delays[: t + 1]) + 0.1 * (t + 1) for t in range(6)]
        assert marks == pytest.approx(expected)
        assert phases["imbalance"] == pytest.approx(sum(delays))
        assert phases["forward"] == pytest.approx(6 * 0.03) and phases["backward"] == pytest.approx(6 * 0.07)
        assert sum(seconds for name, seconds in phases.items() if name != "overlapped") == pytest.approx(marks[-1])


def test_delays_change_no_gradient_and_none_is_not_asked():
    plain, late = run(2, None), run(2, injector("shifting", workers=2))
    for (_, phases, gradient), (_, _, other) in zip(plain, late):
        assert phases["imbalance"] == 0 and torch.equal(gradient, other)
    assert injector("none") is None


def test_padding_fills_up_to_the_seconds_asked_for():
    """In virtual time without modelled passes computation takes none, so all of it is padding."""
    ((marks, phases, _),) = run(1, None, min_compute_s=0.5, blocks=False)
    assert marks == pytest.approx([0.5 * (t + 1) for t in range(6)])
    assert phases["forward"] == pytest.approx(3.0) and phases["imbalance"] == 0
    ((both, phases, _),) = run(1, injector("random_one", workers=1, delay_s=0.2), min_compute_s=0.5, blocks=False)
    assert both == pytest.approx([0.7 * (t + 1) for t in range(6)])  # a delay is not part of a computation
    assert phases["imbalance"] == pytest.approx(1.2)


def test_no_gradient_is_ready_before_its_padding_is_over():
    """Or what leaves as soon as it is ready would travel in the padding, and overlap what cannot be overlapped."""
    seen = []
    run(1, None, min_compute_s=0.5, blocks=False, ready=seen.append)
    assert seen == pytest.approx([0.5 * (1 + t // 2) for t in range(12)])  # two blocks a pass


def test_padding_does_nothing_where_the_testbed_says_the_time():
    assert run(2, None, min_compute_s=5.0)[0][0] == run(2, None)[0][0]


def test_the_work_of_a_minibatch_scales_modelled_passes_and_padding():
    lengths = [0.5, 1.0, 2.5, 1.0, 0.25, 3.0]
    ((marks, phases, _),) = run(1, None, work=lambda minibatch: lengths[minibatch])
    assert marks[-1] == pytest.approx(0.1 * sum(lengths)) and phases["forward"] == pytest.approx(0.03 * sum(lengths))
    ((padded, _, _),) = run(1, None, work=lambda minibatch: lengths[minibatch], min_compute_s=0.5, blocks=False)
    assert padded[-1] == pytest.approx(0.5 * sum(lengths))


# --- configuration
@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["imbalance=random_on"], ["unknown imbalance 'random_on'", "random_one", "shifting"]),
        (["imbalance=random_one", "imbalance.delay_s=-0.1"], ["imbalance.delay_s=-0.1", "0 or more"]),
        (["imbalance=random_one", "imbalance.delay_s=121"], ["imbalance.delay_s=121", "timeout_s=120", "0 to 120 s"]),
        (["imbalance=random_n", "imbalance.n=5"], ["imbalance.n=5", "1 to workers=4"]),
        (["imbalance=shifting", "imbalance.low_s=0.5"], ["imbalance.low_s=0.5", "imbalance.high_s=0.4"]),
        (["imbalance=cloud", "imbalance.scale=100"], ["imbalance.scale=100", "149.3 s", "timeout_s=120"]),
        (["imbalance=trace"], ["imbalance.file=None", "path of a file"]),
        (["imbalance=trace", "imbalance.file=/nowhere/delays.csv"], ["/nowhere/delays.csv", "No such file"]),
        (["imbalance=none", "+imbalance.delay_s=1"], ["imbalance none has no option 'delay_s'", "valid: none"]),
        (["min_compute_s=500"], ["min_compute_s=500", "timeout_s=120"]),
    ],
)
def test_wrong_configurations(overrides, words):
    with pytest.raises(InputError) as refusal:
        expand_runs(FIG4, overrides)
    for word in words:
        assert word in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["has no row"]),
        ("0.1,0.2,0.3,0.4\n0.1,0.2\n", [":2:", "2 columns", "workers=4"]),
        ("rank0,rank1,rank2,rank3\n", [":1:", "neither numbers"]),
        ("[0.1,0.2,0.3\n", [":1:", "nor a JSON list"]),
        ("0.1,0.2,-0.3,0.4\n", [":1:", "'-0.3'", "0 or more"]),
        ("0.1,nan,0.3,0.4\n", [":1:", "'nan'"]),
        ("0.1,0.2,0.3,500\n", ["500 s", "timeout_s=120"]),
    ],
)
def test_a_malformed_trace_is_named_with_its_line(tmp_path, text, words):
    path = trace(tmp_path, text)
    with pytest.raises(InputError) as refusal:
        expand_runs(FIG4, ["imbalance=trace", f"imbalance.file={path}"])
    for word in [path, *words]:
        assert word in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_key_depends_on_imbalance_only_where_there_is_some(tmp_path):
    plain = expand_runs(FIG4, ["strategy=dsync", "testbed=virtual"])[0].config
    assert not {"imbalance", "min_compute_s", "eval_train"} & keyed_values(plain).keys()
    for changed in ("imbalance=random_one", "min_compute_s=0.1", "eval_train=10"):
        config = expand_runs(FIG4, ["strategy=dsync", "testbed=virtual", changed])[0].config
        assert keyed_values(config) != keyed_values(plain)
    path = trace(tmp_path, "0,0,0,0\n")
    traced = expand_runs(FIG4, ["strategy=dsync", "testbed=virtual", "imbalance=trace", f"imbalance.file={path}"])[0]
    before = keyed_values(traced.config)
    trace(tmp_path, "0,0,0,1\n")
    assert keyed_values(traced.config) != before  # by what the file holds, not by its name
    assert "repro.algorithms.imbalance.trace" in roots_of(traced.config)
    assert not any(root.startswith("repro.algorithms.imbalance") for root in roots_of(plain))
    modules = code_digest.imported_modules(roots_of(plain))
    assert "repro.algorithms.imbalance.base" in modules and "repro.algorithms.imbalance.cloud" not in modules


def test_every_injector_has_a_file_of_its_options():
    for name in imbalance.imbalance_names():
        given = configs.compose(FIG4, [f"imbalance={name}"])["imbalance"]
        if name != "trace":  # which has no file to read by itself
            options = imbalance.load_imbalance(name).parse(
                {key: value for key, value in given.items() if key != "name"}
            )
            assert vars(options) == {key: value for key, value in given.items() if key != "name"}


# --- with strategies
@pytest.mark.parametrize("name", [name for name in strategies.strategy_names() if not real.needed_library(name)])
def test_every_strategy_sleeps_once_an_iteration(name):
    how = {"workers": 2, "steps": 4}
    slept = small.run(name, delays=[[1.0, 1.0]], **how).seconds - small.run(name, **how).seconds
    assert slept == pytest.approx(4.0, abs=0.01)


@pytest.mark.parametrize("name", ["dsync", "pipedream", "ibatch"])
def test_a_run_records_its_delays(name, tmp_path):
    overrides = [
        f"strategy={name}", "testbed=virtual", "workers=2", "batch=40", "epochs=0.1", "eval_every=0.1",
        "dataset.standin=always", "imbalance=shifting", "imbalance.low_s=0.5", "imbalance.high_s=1.5",
    ]  # fmt: skip
    summary = virtual_runs.ended(virtual_runs.configured(FIG4, overrides), tmp_path)
    assert summary["imbalance"] == {"name": "shifting", "low_s": 0.5, "high_s": 1.5}
    assert summary["iterations"] == 4 and summary["phases"]["imbalance"] == pytest.approx(1.0)
    assert sum(summary["phases"].values()) == pytest.approx(summary["step"]["mean_s"])
    assert summary["step"]["mean_s"] > 0.9 and summary["min_compute_s"] is None
