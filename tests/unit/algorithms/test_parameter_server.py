"""The sharded parameter server: exact weights for every pull and push schedule, timing, resume, wrong input."""

from __future__ import annotations

import functools
import json
from collections import OrderedDict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from repro.algorithms.parameter_server.shards import Shards
from repro.core.errors import InputError
from repro.fabric.codecs import Truncate16
from repro.fabric.costs import Costs
from repro.fabric.virtual import fabric as virtual
from repro.strategies import load_strategy
from repro.strategies.ibatch import check_batches
from repro.strategies.shared.sharded_server import ShardedServer
from repro.testing import small
from repro.training.device_times import BlockSeconds
from tests.support import virtual_runs

MODES = ("ps_default", "ps_layerwise", "ibatch")
MOMENTUM = small.SGD.model_copy(update={"momentum": 0.9, "weight_decay": 1e-3})


def deep(seed: int = 0) -> nn.Sequential:
    """Seven blocks: a first, a middle and a last one without parameters, one with fewer than there are servers."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        blocks = OrderedDict(
            flat=nn.Flatten(),
            a=nn.Sequential(nn.Linear(small.INPUTS, 9), nn.Tanh()),
            pool=nn.Identity(),
            b=nn.Sequential(nn.Linear(9, 1), nn.Tanh()),
            c=nn.Linear(1, 7),
            d=nn.Sequential(nn.Tanh(), nn.Linear(7, small.CLASSES)),
            end=nn.Identity(),
        )
    return nn.Sequential(blocks)


BLOCKS = BlockSeconds([1e-4, 3e-3, 0.0, 1e-3, 1e-3, 2e-3, 1e-4], [0.0, 6e-3, 0.0, 2e-3, 2e-3, 4e-3, 0.0])


def run(name: str, options: dict | None = None, **how):
    how = {"build_model": deep, "blocks": lambda rank: BLOCKS, "optimizer": MOMENTUM, "steps": 6} | how
    return small.run(name, options, **how)


# --- the cut


@settings(max_examples=30)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=9), st.integers(1, 8), st.sampled_from(["layers", "vector"]))
def test_every_element_is_on_one_server(sizes, servers, placement):
    shards = Shards.of(sizes, servers, placement)
    vector = torch.arange(float(sum(sizes)))
    copy = torch.full_like(vector, -1.0)
    for server in range(servers):
        held = shards.gather(vector, server, 0, len(sizes) - 1)
        assert len(held) == shards.size(server, 0, len(sizes) - 1)
        for layer, (start, end) in enumerate(shards.pieces[server]):
            a, b = shards.stretch(server, layer, layer)
            assert torch.equal(held[a:b], vector[start:end])
        before = copy.clone()
        shards.scatter(held, copy, server, 0, len(sizes) - 1)
        assert ((before == -1) | (before == copy)).all()
    assert torch.equal(copy, vector)


def test_placements():
    layers = Shards.of([4, 8], 2)
    assert layers.pieces == (((0, 2), (4, 8)), ((2, 4), (8, 12)))
    vector = Shards.of([4, 8], 2, "vector")  # BigDL: equal slices, the first layer is on one server alone
    assert vector.pieces == (((0, 4), (4, 6)), ((6, 6), (6, 12)))
    assert vector.runs(0, 0, 1) == [(0, 6)] and vector.size(1, 0, 0) == 0


# --- the property that matters


@functools.cache
def serial(workers: int, steps: int) -> list[torch.Tensor]:
    """The weights (n,) after each step of synchronous SGD, gradients added up in rank order, by plain PyTorch."""
    part = small.ModelShard(deep(), MOMENTUM, torch.device("cpu"))
    found = []
    for iteration in range(steps):
        gradients = [
            small.serial_gradient(part.weights, iteration, worker, workers, build_model=deep)
            for worker in range(workers)
        ]
        total = gradients[0]
        for gradient in gradients[1:]:
            total = total + gradient
        part.update(total.div_(workers))
        found.append(part.weights.clone())
    return found


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("name", MODES)
def test_every_step_has_the_weights_of_synchronous_sgd(name, workers):
    expected = serial(workers, 6)
    for steps in (1, 6):
        found = run(name, workers=workers, steps=steps)
        assert len(set(found.digests)) == 1
        assert torch.equal(found.weights[0], expected[steps - 1])


@pytest.mark.parametrize(("name", "options"), [
    *(("ibatch", options) for options in (
        {"push": "layerwise"}, {"push": "batches"}, {"placement": "vector"}, {"servers": 1}, {"servers": 3},
        {"placement": "vector", "push": "layerwise", "servers": 2}, {"placement": "vector", "push": "batches"},
        {"mode": "algorithm2"}, {"mode": "exact"},
    )),
    ("ps_default", {"requests": "in_order", "placement": "vector"}), ("ibatch", {"requests": "in_order", "servers": 2}),
    ("ps_default", {"push": "layerwise", "servers": 2}), ("ps_layerwise", {"push": "batches", "placement": "vector"}),
])  # fmt: skip
def test_every_push_placement_and_server_has_the_same_weights(name, options):
    found = run(name, options, workers=3)
    assert all(torch.equal(weights, serial(3, 6)[-1]) for weights in found.weights)


# --- resume, with everything that a server and a worker keep


@pytest.mark.parametrize("options", [
    {"servers": 2}, {"drop": 0.8}, {"wire": "truncate16"},
    {"sync": "asp"}, {"sync": "ssp", "bound": 1}, {"push": "batches", "drop": 0.5},
])  # fmt: skip
def test_resume(options):
    resumed = run("ibatch", options, workers=3, stop_and_resume_at=3)
    if options.get("sync", "bsp") == "bsp":  # otherwise the order of pushes decides, which a stop changes
        assert resumed.digests == run("ibatch", options, workers=3).digests
    assert len(set(resumed.digests)) == 1


# --- two bytes a number


@pytest.mark.parametrize("workers", [1, 3])
def test_two_bytes_are_the_upper_ones_of_weights_and_gradients(workers):
    """Workers compute on truncated weights and send truncated gradients; a server's own weights keep all bits."""
    part = small.ModelShard(deep(), MOMENTUM, torch.device("cpu"))
    truncated = Truncate16()

    def upper(vector: torch.Tensor) -> torch.Tensor:
        return truncated.encode(vector).float()

    for iteration in range(6):
        weights = upper(part.weights)
        sent = [
            upper(small.serial_gradient(weights, iteration, worker, workers, build_model=deep))
            for worker in range(workers)
        ]
        part.update(functools.reduce(torch.add, sent).div(workers))
    for name, options in (
        ("ps_default", {}), ("ibatch", {"placement": "vector"}), ("ibatch", {"servers": 2}),
        ("ps_layerwise", {"push": "layerwise"}),
    ):  # fmt: skip
        found = run(name, {"wire": "truncate16"} | options, workers=workers)
        assert torch.equal(found.weights[0], part.weights) and len(set(found.digests)) == 1


def test_two_bytes_are_half_the_bytes():
    """But for the requests, of four numbers each."""
    sent = {wire: sum(run("ps_default", {"wire": wire}, workers=3).bytes_sent) for wire in ("float32", "truncate16")}
    n = sum(p.numel() for p in deep().parameters())
    payload = 2 * 2 * n * 6  # both ways, what is not a rank's own, in each of six iterations
    assert sent["float32"] - sent["truncate16"] == 2 * payload


# --- gradient dropping


def test_dropped_gradients_stay_in_the_residual():
    """Without momentum and at one worker: weights + lr x residual are where plain gradients have led."""
    options = {"drop": 0.75}
    dropped = run("ps_default", options, workers=1, steps=1, optimizer=small.SGD)
    residual = dropped.states[0]["residual"]
    whole = run("ps_default", workers=1, steps=1, optimizer=small.SGD)
    torch.testing.assert_close(dropped.weights[0] - small.SGD.lr * residual, whole.weights[0])
    n = residual.numel()
    assert (residual == 0).sum() == round(0.25 * n)
    moved = (dropped.weights[0] != small.ModelShard(deep(), small.SGD, torch.device("cpu")).weights).sum()
    assert moved <= round(0.25 * n)


def test_dropping_is_the_same_however_it_is_pulled():
    found = {name: run(name, {"drop": 0.6}, workers=3).digests for name in MODES}
    assert len({digest for digests in found.values() for digest in digests}) == 1


# --- SSP and ASP


def test_a_push_alone_takes_its_share_of_the_learning_rate():
    """One worker has nobody to wait for: ASP and SSP are plain SGD."""
    expected = serial(1, 6)[-1]
    for sync in ("asp", "ssp"):
        assert torch.equal(run("ibatch", {"sync": sync}, workers=1).weights[0], expected)


@pytest.mark.parametrize("workers", [2, 3])
def test_every_push_is_an_update_once(workers):
    for sync in ("ssp", "asp"):
        found = run("ps_layerwise", {"sync": sync}, workers=workers, delays=[[0.01 * w for w in range(workers)]])
        for state in found.states:
            server = state["server"]
            assert all(count == 6 for pushes in server["pushed"] for count in (pushes[1], pushes[5]))
            assert server["shard"]["updates"][1] == 6 * workers
        # a rank's last step does not see the pushes that come after it
        assert all(0 < len(one) <= 6 * workers for one in found.staleness)


@pytest.mark.parametrize("bound", [0, 1, 3])
def test_a_worker_is_ahead_by_the_bound(bound):
    """The slow one's first gradient is as old as all iterations that the other is let go: those up to the bound."""
    found = run("ps_default", {"sync": "ssp", "bound": bound, "servers": 1}, workers=2, steps=12,
                delays=[[0.0, 0.2]], drain=False)  # fmt: skip
    assert found.staleness[2][bound + 1] == max(found.staleness[2]) == bound + 1


@pytest.mark.parametrize("sync", ["bsp", "ssp", "asp"])
def test_only_bsp_is_deterministic(sync):
    """And whether a stop does, at which all wait for each other."""
    chosen = load_strategy("ps_default")
    ways: list[dict] = [{}, {"delays": [[0.0, 0.0, 0.05]]}, {"delays": [[0.05, 0.0, 0.0]]}]
    ends = [run("ps_default", {"sync": sync}, workers=3, **how).digests[0] for how in ways]
    stopped = run("ps_default", {"sync": sync}, workers=3, settle_every=1, **ways[1]).digests[0]
    deterministic = chosen(chosen.parse({"sync": sync})).deterministic
    assert deterministic == (sync == "bsp") == (len(set(ends)) == 1) == (stopped == ends[1])


# --- the order of requests


@pytest.mark.parametrize("threads", [1, 2])
def test_workers_that_ask_in_the_same_order_crowd_at_one_server(monkeypatch, threads):
    """Each has a server for itself when they are staggered; in order all want the first one first."""
    monkeypatch.setattr(small, "NETWORK", virtual.Network(0.0, 1e-3))
    costs = Costs(True, {"reduce": 0.0, "update": 0.0}, {"sync": 0.0, "startup": 0.0}, threads)
    options = {"placement": "vector"}
    plain, crowded = (
        run("ps_default", options | {"requests": requests}, workers=4, costs=costs)
        for requests in ("staggered", "in_order")
    )
    assert crowded.seconds > 1.2 * plain.seconds
    assert crowded.digests == plain.digests and crowded.bytes_sent == plain.bytes_sent


# --- the forward pass of a batch waits for its own parameters alone


def step_seconds(name: str, options: dict, blocks: BlockSeconds, startup: float, alpha: float, beta: float) -> dict:
    """(`describe`, `describe_rank`) of the only worker of a run with one server."""
    costs = Costs(True, {"reduce": 0.0, "update": 0.0}, {"sync": 0.0, "startup": startup})

    def main(fabric):
        part = small.ModelShard(deep(), small.SGD, torch.device("meta"))
        worker = small.Worker(
            1, fabric, small.Clock(fabric), part, small.NoBatches(), 1, 0, blocks=blocks, arithmetic=False
        )
        strategy = load_strategy(name)(load_strategy(name).parse({"servers": 1, "measure": True} | options))
        strategy.setup(worker)
        worker.clock.start()
        for _ in range(3):
            strategy.step()
        strategy.settle()
        described = strategy.describe(), strategy.describe_rank()
        strategy.close()
        return described

    return virtual.run(2, main, virtual.Network(alpha, beta), costs)[0]


@pytest.mark.parametrize("startup", [0.0, 1e-3])
@pytest.mark.parametrize("name", MODES)
def test_the_pipeline_model_is_what_is_executed(name, startup):
    """One worker, one server, nobody else on the network: executed time = the profile's, to rounding."""
    alpha, beta = 2e-4, 1e-5
    described, rank = step_seconds(name, {}, BLOCKS, startup, alpha, beta)
    profile = described["profile"]
    # a pull is a request and an answer; nothing is one element, and so a layer's first element is in T_s
    assert profile["startup_s"] == pytest.approx(startup + 2 * alpha + (16 + 4) * beta, rel=1e-9)
    sizes = described["parameters"]
    assert profile["transfer_s"] == pytest.approx([4 * (n - 1) * beta if n else 0.0 for n in sizes], rel=1e-9)
    assert profile["forward_s"] == BLOCKS.forward
    slack = 4 * beta * len(described["batches"]) * len(sizes)  # those first elements of the batches' other layers
    assert described["executed_s"] == pytest.approx(rank["first_step"]["forward_end_s"], abs=slack)
    assert rank["first_step"]["overlap_s"] <= min(rank["first_step"]["pull_s"], rank["first_step"]["forward_s"]) + 1e-12
    if name == "ps_default":
        assert rank["overlap_s"] == 0.0
    else:
        assert rank["overlap_s"] > 0.0


def test_batches_are_pulled_while_others_compute():
    """Forward passes of 1, 10 and 1 ms, pulls of 2 ms each: the second one is waited for, the third is hidden."""
    blocks = BlockSeconds([0.0, 1e-3, 0.0, 10e-3, 0.0, 1e-3, 0.0], [0.0] * 7)
    found = {
        name: step_seconds(name, options, blocks, 1e-3, 5e-4, 0.0)[1]["first_step"]["forward_end_s"]
        for name, options in (
            ("ps_default", {}), ("ibatch", {"batches": [[1, 3], [4, 4], [5, 7]]}), ("ps_layerwise", {}),
        )
    }  # fmt: skip
    assert found["ps_default"] == pytest.approx(2e-3 + 12e-3)
    assert found["ibatch"] == pytest.approx(2e-3 + 2e-3 + 10e-3 + 1e-3)  # the second pull begins with the first pass
    assert found["ps_layerwise"] == pytest.approx(found["ibatch"])


@pytest.mark.parametrize(("threads", "startups"), [(None, 1), (1, 3), (2, 2), (4, 1)])
def test_threads_share_the_startups_of_a_pull(threads, startups):
    """One of each of three servers, by way of the profile, which a pull of nothing begins."""
    costs = Costs(True, {"reduce": 0.0, "update": 0.0}, {"sync": 0.0, "startup": 0.5}, threads)
    found = run("ps_default", {"measure": True}, workers=3, steps=1, arithmetic=False, costs=costs)
    assert found.states[0]["profile"]["startup_s"] == pytest.approx(0.5 * startups, rel=0.01)


# --- bad input


@pytest.mark.parametrize("batches", [[], "1-3", [[1, 2], [4, 5]], [[2, 3]], [[1, 2, 3]], [[1, 0]], [[1, True]]])
def test_batches_that_cannot_be_used(batches):
    with pytest.raises(InputError, match=r"strategy\.batches"):
        check_batches(batches)


def test_clipping_needs_the_whole_gradient():
    with pytest.raises(InputError, match="clip_norm"):
        run("ps_default", workers=2, optimizer=small.SGD.model_copy(update={"clip_norm": 1.0}))
    clipped = run("ps_default", workers=1, optimizer=small.SGD.model_copy(update={"clip_norm": 1e-3}))
    assert not torch.equal(clipped.weights[0], run("ps_default", workers=1, optimizer=small.SGD).weights[0])


@pytest.mark.parametrize(("entry", "message"), [
    ({"forward_s": [1.0] * 3, "transfer_s": [1.0] * 3}, "has 3 layers, but the model has 7"),
    ({"layers": list("abcdefg")}, "layers"),
    ({"workers": 5}, "workers 5, here 2"),
    ({"servers": 6}, "servers of their own 6, here 0"),
    ({"parameters": [1] * 7}, "parameters"),
])  # fmt: skip
def test_the_profile_of_another_model_or_cluster(tmp_path, entry, message):
    path = tmp_path / "profile.json"
    path.write_text(json.dumps({"startup_s": 0.1, "transfer_s": [1.0] * 7, "forward_s": [1.0] * 7} | entry))
    with pytest.raises(InputError, match=message):
        run("ibatch", {"profile": str(path)}, workers=2)


def test_the_end_of_a_run_waits_for_the_slowest_push(tmp_path):
    """The last evaluation is of weights with every worker's last gradient in them, whoever is late."""

    def whole(name: str) -> dict:
        quick = ["testbed=virtual", "dataset.standin=always", "batch=60", "epochs=0.2", "workers=3", "trace_steps=0"]
        late = ["imbalance=random_one", "imbalance.delay_s=0.5"]
        own = [*quick, *late, f"strategy={name}", "grid=null", "seeds=1"]
        return virtual_runs.ended(virtual_runs.configured("pipesgd/fig4-mnist", own), tmp_path / name)

    found = {name: whole(name) for name in ("ps_sync", "ps_default", "ibatch")}
    assert len({one["weights_sha256"] for one in found.values()}) == 1
    pushed = 4 * found["ibatch"]["model"]["parameters"] * 2 * 2  # two of three thirds pulled and pushed, by three ranks
    assert abs(found["ibatch"]["bytes_sent"] * 3 - pushed) < 1000


@pytest.mark.parametrize("name", MODES)
def test_a_rank_that_resumes_late_answers_earlier_requests(name, monkeypatch):
    """A pull that came before a server had loaded its state waited for an update that nobody would make."""
    loads = ShardedServer.load_state_dict

    def late(self, state):
        if self.worker.fabric.rank == 0:
            self.worker.fabric.sleep(5.0)
        loads(self, state)

    undisturbed = run(name, stop_and_resume_at=3)
    monkeypatch.setattr(ShardedServer, "load_state_dict", late)
    small.assert_same(run(name, stop_and_resume_at=3), undisturbed)
