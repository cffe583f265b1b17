"""eager-SGD's strategies: equal to synchronous SGD without late ranks, conservation with late ranks, resume."""

from __future__ import annotations

import pytest
import torch

from repro.fabric.costs import Costs
from repro.testing import small
from repro.training.device_times import BlockSeconds
from tests.support.cli import run as run_cli
from tests.support.cli import summary

MOMENTUM = small.SGD.model_copy(update={"momentum": 0.9, "weight_decay": 0.01})
NAMES = ("eager_solo", "eager_majority", "eager_quorum")
STEPS = 12
# seconds before each step of up to 6 workers: nobody late, one late, all at different times, far behind
SHIFTING = [[0.004 * ((rank + step) % 6) for rank in range(6)] for step in range(6)]
FAR_BEHIND = [[0.0, 0.03, 0.0, 0.001, 0.0, 0.0]] * 3 + [[0.0] * 6] * 3


def rows(delays, workers):
    return [row[:workers] for row in delays]


def late(name, options=None, workers=3, delays=SHIFTING, **how):
    return small.run(name, options or {}, workers=workers, delays=rows(delays, workers), optimizer=MOMENTUM, **how)


# --- nobody late


@pytest.mark.parametrize("workers", [1, 2, 6])
def test_a_quorum_of_all_is_dsync_bit_for_bit(workers):
    """For any delays: all ranks wait for the last one."""
    dsync = late("dsync", {"algorithm": "recursive_doubling"}, workers)
    found = late("eager_quorum", {"quorum": workers}, workers)
    assert found.digests == dsync.digests and found.losses == dsync.losses
    if workers > 1:
        assert all(set(of_rank) == {0} for of_rank in found.staleness)
        assert all(of_rank["pending"] == of_rank["late"] == 0 for of_rank in found.counters)


@pytest.mark.ranks
@pytest.mark.parametrize("workers", [2, 3])
def test_a_quorum_of_all_is_dsync_on_real_ranks(workers):
    how = {"workers": workers, "optimizer": MOMENTUM, "fabric": "mpi"}
    dsync = small.run("dsync", {"algorithm": "recursive_doubling"}, **how)
    assert small.run("eager_quorum", {"quorum": workers}, **how).digests == dsync.digests


@pytest.mark.parametrize("name", NAMES)
def test_all_in_step_is_dsync(name):
    """Nobody late, messages at once: solo and majority are synchronous too."""
    how = {"workers": 2, "optimizer": MOMENTUM, "blocks": lambda rank: BlockSeconds([0.5, 0.5], [0.5, 0.5])}
    dsync = small.run("dsync", {"algorithm": "recursive_doubling"}, **how)
    assert small.run(name, **how).digests == dsync.digests


# --- the limiter, and rounds of blocks


@pytest.mark.parametrize("options", [{"limiter": 0}, {"limiter": 0, "layerwise": True}])
@pytest.mark.parametrize("name", ["eager_solo", "eager_majority"])
def test_a_limiter_of_0_is_dsync_bit_for_bit(name, options, workers=3):
    """For any delays: in every round all ranks wait for the last one."""
    dsync = late("dsync", {"algorithm": "recursive_doubling"}, workers)
    found = late(name, options, workers)
    assert found.digests == dsync.digests and found.losses == dsync.losses
    assert all(set(of_rank) == {0} for of_rank in found.staleness)


@pytest.mark.parametrize("layerwise", [False, True])
@pytest.mark.parametrize("limiter", [1, 5])
@pytest.mark.parametrize("delays", [FAR_BEHIND, [[0.0, 0.05, 0.0, 0.0, 0.0, 0.0]]])
@pytest.mark.parametrize("name", NAMES)
def test_no_gradient_is_later_than_the_limiter(name, delays, limiter, layerwise):
    options = {"limiter": limiter, "layerwise": layerwise}
    found = late(name, options, 6, delays)
    assert max(map(max, found.staleness)) <= limiter
    assert_conserved(found, STEPS * (2 if layerwise else 1))
    if delays == FAR_BEHIND and name == "eager_solo" and limiter == 1:
        assert max(map(max, late(name, {"layerwise": layerwise}, 6, delays).staleness)) > 2
    # the last round waits for all ranks (12 is a multiple of 2 and 6): no gradient is left over
    assert all(counted["pending"] == 0 for counted in found.counters)


@pytest.mark.parametrize("name", NAMES)
def test_rounds_of_blocks_are_dsync_where_all_are_in_step(name, workers=4):
    how = {"workers": workers, "optimizer": MOMENTUM, "blocks": lambda rank: BlockSeconds([0.5, 0.5], [0.5, 0.5])}
    dsync = small.run("dsync", {"algorithm": "recursive_doubling"}, **how)
    found = small.run(name, {"layerwise": True} | ({"quorum": workers} if name == "eager_quorum" else {}), **how)
    assert found.digests == dsync.digests and found.losses == dsync.losses


def test_a_blocks_round_begins_during_the_backward_pass():
    """Rounds of whole gradients begin when it has ended: on a slow processor sums then take longer to hide."""
    how = {"workers": 2, "steps": 4, "costs": Costs(True, {"reduce": 1e-3, "update": 0.0}, {})}
    how["blocks"] = lambda rank: BlockSeconds([0.1, 0.1], [0.1, 0.1])
    assert small.run("eager_solo", {"layerwise": True}, **how).seconds < small.run("eager_solo", **how).seconds


@pytest.mark.ranks
@pytest.mark.parametrize("options", [{"limiter": 2}, {"layerwise": True}, {"limiter": 1, "layerwise": True}])
def test_real_ranks_with_a_limiter_and_rounds_of_blocks(options):
    found = late("eager_solo", options, 3, SHIFTING, fabric="mpi")
    assert_conserved(found, STEPS * (2 if "layerwise" in options else 1))
    if "limiter" in options:
        assert max(map(max, found.staleness)) <= options["limiter"]


# --- somebody late


def assert_conserved(found, steps=STEPS):
    for counted in found.counters:
        assert counted["accepted"] + counted["pending"] + counted["dropped"] == steps == counted["rounds"]
        assert counted["active"] <= counted["accepted"]
    assert [len(of_rank) for of_rank in found.staleness] == [int(c["accepted"]) for c in found.counters]


@pytest.mark.parametrize(("workers", "delays"), [(2, SHIFTING), (6, FAR_BEHIND)])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "options",
    [{}, {"late": "drop"}, {"repeated": "skip"}, {"density": 0.25}, {"codec": "quantize8", "algorithm": "ring"}],
)
def test_every_gradient_is_accepted_once_or_pending(name, workers, delays, options):
    found = late(name, options, workers, delays)
    assert_conserved(found)
    dropped = sum(counted["dropped"] for counted in found.counters)
    assert dropped == 0 if options.get("late") != "drop" else dropped == sum(c["late"] for c in found.counters)
    assert all(torch.isfinite(weights).all() for weights in found.weights)


def test_who_is_late_is_counted():
    found = late("eager_solo", workers=2, delays=[[0.0, 0.02]])
    fast, slow = found.counters
    assert (fast["active"], fast["late"], fast["missed"], fast["repeated"]) == (STEPS, 0, 0, 0)
    assert slow["late"] > 0 and slow["missed"] > 0 and slow["repeated"] > 0 and slow["null"] > 0
    # the last round is in everybody's receive buffer, so each result was applied once, or missed
    assert slow["missed"] == slow["repeated"]
    assert max(found.staleness[1]) > 1 and set(found.staleness[0]) == {0}


def test_solo_does_not_wait_and_synchronous_sgd_does():
    """Seconds of the fast ranks: one of three is late at each step."""
    delays = [[0.05 * (rank == step % 3) for rank in range(3)] for step in range(3)]
    synchronous = late("dsync", delays=delays).seconds
    solo = late("eager_solo", delays=delays).seconds
    quorum = late("eager_quorum", {"quorum": 2}, delays=delays).seconds
    assert synchronous > STEPS * 0.05 > 2 * solo / 1.5
    assert solo <= quorum < synchronous


@pytest.mark.parametrize("options", [{}, {"codec": "quantize8", "algorithm": "ring"}, {"density": 0.25}])
def test_a_computing_rank_takes_part_at_once(options):
    """Rank 0, late once, stays behind: rank 1 never waits until it has finished a pass."""
    delays = [[0.2, 0.0]] + [[0.0, 0.0]] * 5
    how = {"workers": 2, "steps": 6, "delays": delays, "blocks": lambda rank: BlockSeconds([0.1, 0.1], [0.2, 0.2])}
    slow, fast = small.run("eager_solo", options, **how).counters
    assert slow["late"] == 6 and fast["late"] == 0


# --- model synchronisation


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("workers", [2, 6])
def test_weights_are_the_same_on_all_ranks_after_every_synchronisation(name, workers):
    """0.3 of 10 iterations an epoch: after iterations 3, 6, 9, 12."""
    found = late(name, {"sync_epochs": 0.3}, workers, FAR_BEHIND)
    assert len(set(found.digests)) == 1
    assert all(counted["syncs"] == 4 for counted in found.counters)
    assert_conserved(found)
    if name == "eager_solo":
        assert len(set(late(name, {}, workers, FAR_BEHIND).digests)) > 1  # what they are without


@pytest.mark.parametrize(("epochs", "syncs"), [(0.37, 3), (0.34, 4), (0.04, 12)])
def test_a_synchronisation_is_due_at_the_nearest_iteration(epochs, syncs):
    """Of 10 an epoch: every 4th, every 3rd, and never more often than every one."""
    found = small.run("eager_solo", {"sync_epochs": epochs}, workers=2)
    assert all(counted["syncs"] == syncs for counted in found.counters)


@pytest.mark.ranks
@pytest.mark.parametrize("name", ["eager_solo", "eager_majority"])
def test_real_ranks_conserve_and_synchronise(name):
    """Delays by which real ranks overtake each other; the last iteration synchronises."""
    for workers in (2, 3, 4):
        found = late(name, {"sync_epochs": 0.4}, workers, SHIFTING, fabric="mpi")
        assert_conserved(found)
        assert len(set(found.digests)) == 1
    assert sum(counted["late"] for counted in found.counters) > 0 or name == "eager_majority"


# --- resume


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "options",
    [{}, {"density": 0.25}, {"codec": "truncate16", "algorithm": "ring"}, {"limiter": 2}, {"layerwise": True}],
)
def test_resume_loses_nothing(name, options):
    """Ranks that were apart go on together after a resume, so weights may differ; contributions are all there."""
    steps = STEPS * (2 if "layerwise" in options else 1)
    found = late(name, options, delays=FAR_BEHIND, stop_and_resume_at=5)
    for counted in found.counters:
        assert counted["accepted"] + counted["pending"] == steps == counted["rounds"]


@pytest.mark.parametrize("name", NAMES)
def test_resume_of_ranks_in_step_has_the_same_bits(name):
    how = {"workers": 3, "optimizer": MOMENTUM, "blocks": lambda rank: BlockSeconds([0.5, 0.5], [0.5, 0.5])}
    options = {"quorum": 3} if name == "eager_quorum" else {}
    whole = small.run(name, options, **how)
    assert small.run(name, options, stop_and_resume_at=7, **how).digests == whole.digests


# --- faults and bad input

HERE = ("testbed=here", "workers=3", "batch=60")


@pytest.mark.ranks
def test_a_stopped_rank_ends_the_run_though_others_pass_it_by(tmp_path):
    done = run_cli(tmp_path, "strategy=eager_solo", *HERE, "timeout_s=6", fault="stop:1:5")
    assert done.returncode == 1 and "nothing after 6 s" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.ranks
def test_a_killed_run_resumes_and_conserves(tmp_path):
    """The killed rank's progress thread is gone with it: rounds cannot end, and the survivors do not hang."""
    killed = run_cli(tmp_path, "strategy=eager_majority", *HERE, fault="kill:2:12")
    assert killed.returncode == 1 and "Traceback" not in killed.stderr
    assert "rank 2 was lost: ended by SIGKILL" in killed.stderr
    again = summary(run_cli(tmp_path, "strategy=eager_majority", *HERE))
    counted, steps = again["counters"], again["iterations"]
    assert again["wall"]["resumes"] == 1
    assert counted["accepted"] + counted["pending"] == 3 * steps == counted["rounds"]
