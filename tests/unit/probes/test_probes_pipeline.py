"""The probes `layer_sizes`, `configurations`, `runtimes` and `lengths`."""

from __future__ import annotations

import functools
import statistics
from itertools import pairwise

import pytest
import torch

from repro import models
from repro.algorithms.pipeline.partition import best_partition
from repro.algorithms.pipeline.profile import estimate_profile
from repro.core.errors import InputError
from repro.experiment import config as configs
from repro.experiment.expand import expand_runs
from repro.experiment.testbeds import Rate
from repro.fabric.virtual import fabric as virtual
from repro.fabric.virtual import modelled
from repro.probes import lengths, runtimes
from repro.rank import factory
from tests.support import pipedream_vgg16, virtual_runs
from tests.support.probes import check, planned, run

# --- the probes `layer_sizes` and `configurations`: sizes of known networks, and the partitioner's own answers


TITAN_X = {"name": "made up", "peak_flops": 1e13, "utilisation": 0.5, "launch_s": 0.0}
CLUSTERS = {"A": {"device": TITAN_X, "beta_s_per_byte": 4e-10, "kind": "simulated"}, "B": {"beta_s_per_byte": 1e-9}}
MLP = {"model": "mnist_mlp", "input_shape": [1, 28, 28], "classes": 10, "batch": 32, "cluster": "A", "machines": [2, 4]}


@functools.cache
def composed(*overrides: str):
    return configs.compose("pipesgd/fig4-mnist", ["testbed=virtual", "testbed.arithmetic=none", *overrides])


def configured(program: str, probe: dict, *overrides: str) -> dict:
    config = composed("workers=1", *overrides)
    return planned(config | {"program": program, "probe": probe}, config["workers"], config["batch"])


def test_layer_sizes_of_alexnet(tmp_path):
    large = ["dataset=imagenet", "dataset.image_size=227", "dataset.classes=1000", "model=alexnet", "batch=32"]
    found = run(configured("layer_sizes", {}, *large), tmp_path)
    result = found["result"]
    assert result["batch"] == 32 and result["parameter_bytes"] == 4 * 60_965_224
    sizes = {layer["name"]: (layer["activation_bytes"], layer["parameter_bytes"]) for layer in result["layers"]}
    assert list(sizes) == ["conv1", "conv2", "conv3", "conv4", "conv5", "fc6", "fc7", "fc8"]
    assert sizes["conv1"] == (32 * 4 * 96 * 27 * 27, 4 * (96 * 3 * 11 * 11 + 96))
    assert sizes["fc8"] == (32 * 4 * 1000, 4 * (4096 * 1000 + 1000))
    assert found["model"] == {"name": "alexnet", "parameters": 60_965_224}
    assert found["metrics"]["parameter_bytes"] == result["parameter_bytes"]
    assert found["program"] == "layer_sizes" and "parameters 243.9 MB" in found["line"]


def test_configurations_are_the_partitioners(tmp_path):
    second = MLP | {"cluster": "B", "device": TITAN_X, "machines": [3], "bandwidth_Bps": [1e6, 1e12]}
    probe = {"cost_models": ["paper", "released-sum"], "clusters": CLUSTERS, "rows": [MLP, second]}
    found = run(configured("configurations", probe), tmp_path)
    rows = found["result"]["rows"]
    conditions = [(row["cluster"], row["machines"], row["bandwidth_Bps"], row["cost_model"]) for row in rows]
    assert conditions == [
        *[("A", machines, 2.5e9, model) for machines in (2, 4) for model in probe["cost_models"]],
        *[("B", 3, bandwidth, model) for bandwidth in (1e6, 1e12) for model in probe["cost_models"]],
    ]
    model = models.build_model("mnist_mlp", (1, 28, 28), 10, 0, "meta")
    seconds = factory.modelled_seconds("mnist_mlp", (1, 28, 28), 10, 32, Rate(**TITAN_X))
    profile = estimate_profile(model, seconds, torch.zeros(32, 1, 28, 28), "made up", "mnist_mlp")
    for row in rows:
        expected = best_partition(profile, (row["machines"],), (row["bandwidth_Bps"],), row["cost_model"])
        layout = expected.layout
        assert [row[name] for name in ("config", "cuts", "noam")] == [layout.config, layout.cuts, layout.noam]
        assert row["optima"] == expected.optima
        assert row["pipeline_s"] == expected.pipeline_s and row["stages"][0]["seconds"] == expected.stages[0].seconds
        assert row["speedup_single"] == expected.single_s / expected.pipeline_s
        assert row["speedup_bsp"] == expected.data_parallel_s / expected.pipeline_s >= 1
        assert row["model"] == "mnist_mlp" and row["hardware"] == "made up" and row["batch"] == 32
    assert found["line"].startswith("8 partitions; mnist_mlp-2-A-20Gbit-paper")
    assert found["metrics"]["speedup_bsp/mnist_mlp-4-A-20Gbit-released-sum"] == rows[3]["speedup_bsp"]


def test_a_row_may_read_its_profile(tmp_path):
    path = tmp_path / "vgg16.graph.txt"
    path.write_text(pipedream_vgg16.text())
    row = {"profile": str(path), "cluster": "A", "machines": [8], "bandwidth_Bps": [1.25e9]}
    probe = {"cost_models": ["released-sum"], "clusters": CLUSTERS, "rows": [row]}
    (found,) = run(configured("configurations", probe), tmp_path)["result"]["rows"]
    assert found["config"] == "7-1" and found["pipeline_s"] == pytest.approx(0.10084139337142857, abs=1e-9)
    assert found["batch"] is None and found["model"] == "vgg16"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rows": [MLP, MLP | {"colour": 1}]}, "unknown option 'probe.rows.colour'; valid: probe.rows.cluster"),
        ({"rows": [MLP | {"cluster": "C"}]}, "unknown cluster in probe.rows 'C'; valid: B, A"),
        ({"rows": [MLP | {"model": "mlp"}]}, "unknown model 'mlp'"),
        ({"rows": [{name: MLP[name] for name in ("model", "cluster", "machines")}]}, "lacks input_shape and classes"),
        ({"rows": [MLP | {"cluster": "B"}]}, "cluster B: has no device, nor has the row of mnist_mlp"),
    ],
)
def test_configurations_that_cannot_be(change, words):
    probe = {"cost_models": ["paper"], "clusters": CLUSTERS, "rows": [MLP]} | change
    with pytest.raises(InputError) as refusal:
        check(configured("configurations", probe))
    assert words in str(refusal.value) and "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("program", "probe"),
    [("layer_sizes", {}), ("configurations", {"cost_models": ["paper"], "clusters": CLUSTERS, "rows": [MLP]})],
)
def test_one_worker(program, probe):
    with pytest.raises(InputError, match=f"workers=2: program {program}"):
        check(configured(program, probe, "workers=2"))


# --- the probes `runtimes` and `lengths`: what they time and count, on made-up data and in virtual time


SMALL = ["dataset.videos=404", "dataset.test_videos=101", "dataset.features=8", "model.hidden=8"]


def run_timed(experiment, folder, *overrides):
    """The summary of a run of a probe on the paper's testbed, in this process."""
    testbed = () if any(each.startswith("testbed=") for each in overrides) else ("testbed=paper/eagersgd-lstm",)
    config = virtual_runs.configured(f"eagersgd/{experiment}", [*SMALL, *testbed, *overrides], "quick")
    network = virtual.Network(config.testbed.alpha_s, config.testbed.beta_s_per_byte)
    return virtual_runs.ended(config, folder, network, modelled.virtual_costs(config.testbed))


def test_in_virtual_time_a_batch_takes_its_length(tmp_path):
    """Published seconds at mean length, in proportion to what the batch is padded to; nothing else is counted."""
    found = run_timed("fig2-runtimes", tmp_path, "probe.batches=20")
    result, mean_length = found["result"], found["dataset"]["input_shape"][0]
    assert result["batches"] == len(result["seconds"]) == len(result["lengths"]) == 20
    for seconds, length in zip(result["seconds"], result["lengths"]):
        assert seconds == pytest.approx(1.235 * length / mean_length, rel=1e-9)
    assert len(set(result["lengths"])) > 5
    said = result["statistics"]
    assert said["n"] == 20 and said["min"] == min(result["seconds"]) and said["max"] == max(result["seconds"])
    assert said["mean"] == pytest.approx(statistics.fmean(result["seconds"]))
    assert said["sd"] == pytest.approx(statistics.stdev(result["seconds"]))
    assert found["program"] == "runtimes" and "20 batches" in found["line"]
    assert found["metrics"]["seconds/mean"] == said["mean"]


def test_lengths_count_every_video_once(tmp_path):
    found = run_timed("fig2-lengths", tmp_path, "probe.bins=7")["result"]["splits"]
    assert set(found) == {"train", "test"} and found["train"]["n"] == 404 and found["test"]["n"] == 101
    for split in found.values():
        bars = split["histogram"]
        assert sum(count for *_, count in bars) == split["n"] and len(bars) <= 7
        assert all(high == low for (_, high, _), (low, _, _) in pairwise(bars))  # no gap, no overlap
        assert bars[0][0] <= split["min"] <= split["median"] <= split["max"] < bars[-1][1]


def test_bars_hold_what_lies_between_their_edges():
    edges = lengths.histogram_bars([3, 12], 5)
    assert edges == [(3, 5), (5, 7), (7, 9), (9, 11), (11, 13)]
    found = lengths.describe_lengths([3, 4, 5, 12, 12], edges)
    assert [count for *_, count in found["histogram"]] == [2, 1, 0, 0, 2]
    assert found["median"] == 5 and found["sd"] == pytest.approx(statistics.pstdev([3, 4, 5, 12, 12]))
    assert lengths.histogram_bars([7, 7], 40) == [(7, 8)]


def test_batches_are_drawn_without_replacement_and_at_most_all():
    class Ten:
        per_epoch = 10

    drawn = runtimes.draw_minibatches(Ten(), 15, 2, seed=1)
    assert len(set(drawn)) == 15 and drawn == sorted(drawn) and max(drawn) < 20
    assert runtimes.draw_minibatches(Ten(), 15, 2, seed=1) == drawn != runtimes.draw_minibatches(Ten(), 15, 2, seed=2)
    assert runtimes.draw_minibatches(Ten(), 100, 0.5, seed=0) == [0, 1, 2, 3, 4]
    assert runtimes.padded_lengths(Ten(), drawn) is None  # samples of one size


def test_loading_and_delays_are_not_part_of_a_runtime(monkeypatch):
    class Clock:
        def take(self):
            return {"data": 9.0, "forward": 0.25, "backward": 0.5, "imbalance": 7.0, "overlapped": 0.0}

    class Worker:
        clock, asked = Clock(), []

        def gradients(self, minibatch):
            self.asked.append(minibatch)
            return torch.zeros(())

    worker = Worker()
    assert runtimes.time_passes(worker, 4) == 0.75 and worker.asked == [4]


@pytest.mark.parametrize(
    ("experiment", "overrides", "words"),
    [
        ("fig2-runtimes", ["workers=2"], "workers=2: program runtimes"),
        ("fig2-lengths", ["workers=2"], "workers=2: program lengths"),
        ("fig4-runtimes", ["program=lengths", "+probe.bins=3"], "program lengths has no option 'batches'; valid: bins"),
        ("fig2-lengths", ["dataset=imagenet"], "data set 'imagenet' have one size; use one of"),
    ],
)
def test_parameters_that_cannot_be_used_are_one_line(experiment, overrides, words):
    with pytest.raises(InputError) as refusal:
        expand_runs(f"eagersgd/{experiment}", overrides, "quick")
    assert words in str(refusal.value) and "\n" not in str(refusal.value)
