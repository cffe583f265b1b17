"""Partial allreduce on the virtual fabric: Lemma 5.1, conservation and activation, over many interleavings."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.algorithms.timing import partial_forms
from repro.algorithms.timing.collective_forms import recursive_doubling
from repro.core.errors import InputError
from repro.fabric.collectives.activation import Activation, check_activation
from repro.fabric.collectives.partial import PartialAllreduce
from repro.fabric.collectives.send_buffer import TopK, Whole
from repro.fabric.costs import Costs
from repro.fabric.virtual import fabric as virtual
from tests.support import forms

ALPHA, BETA = 1e-4, 1e-9
NETWORK = virtual.Network(ALPHA, BETA)
COMPUTE = 0.01


@dataclass
class Rank:
    """One rank's observations. rounds: sum and flags of each; tasks: which one executed each; read: the round whose
    result it read in each step."""

    rounds: list[torch.Tensor] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # each step's wait for the round
    ends: float = 0.0
    counted: dict = field(default_factory=dict)
    held: list[int] = field(default_factory=list)
    pending: torch.Tensor | None = None
    delays: tuple = ()


def run(delays, initiator="solo", quorum=None, seed=0, drop=False, make=Whole, gradients=None, costs=None, **options):
    """delays: [step][rank] seconds before each proposal. gradients: by default each is a one at a place of its own."""
    steps, size = len(delays), len(delays[0])
    n = steps * size if gradients is None else gradients.shape[-1]

    def main(fabric):
        seen, me = Rank(), fabric.rank
        send_buffer = make(fabric, n, 2 * size, torch.device("cpu"), channel=1, **options)
        reduce = send_buffer.reduce

        def recording(contribution):
            received = reduce(contribution)
            seen.rounds.append(received.clone())
            seen.tasks.append(fabric.current_task())
            return received

        send_buffer.reduce = recording
        partial = PartialAllreduce(
            fabric, [send_buffer], lambda start: Activation(fabric, initiator, start, seed, quorum)
        )
        out = torch.empty(n)
        for step in range(steps):
            fabric.sleep(delays[step][me])
            gradient = torch.zeros(n) if gradients is None else gradients[me, step].clone()
            if gradients is None:
                gradient[me * steps + step] = 1
            began = fabric.now()
            partial.propose(step, gradient, drop)
            partial.ended(step)
            seen.seconds.append(fabric.now() - began)
            seen.read.append(partial.latest(out))
        seen.ends = fabric.now()
        seen.counted, seen.held = dict(partial.counted), list(partial.held[0])
        seen.delays, seen.pending = partial.take_delays(), send_buffer.pending().clone()
        partial.close()
        return seen

    return virtual.run(size, main, NETWORK, costs or Costs(True, {"reduce": 0.0}))


SIZES = st.integers(1, 8)


def some_delays(sizes=SIZES, most=7):
    """[step][rank], with many ties: from nothing to many times the latency of a round."""
    seconds = st.sampled_from([0.0, ALPHA, 3 * ALPHA, 0.001, 0.005, 0.02])
    return sizes.flatmap(lambda p: st.lists(st.lists(seconds, min_size=p, max_size=p), min_size=1, max_size=most))


def kinds(size):
    return [("solo", None), ("majority", None), ("quorum", 1), ("quorum", (size + 1) // 2), ("quorum", size)]


@settings(max_examples=120)
@given(some_delays(), st.integers(0, 4), st.integers(0, 99), st.booleans())
def test_each_gradient_counts_exactly_once(delays, kind, seed, drop):
    """Conservation and Lemma 5.1 (2): sums agree with the flags, and are the same on every rank."""
    steps, size = len(delays), len(delays[0])
    initiator, quorum = kinds(size)[kind]
    ranks = run(delays, initiator, quorum, seed, drop)
    n = steps * size
    for round_ in range(steps):
        everywhere = [rank.rounds[round_] for rank in ranks]
        assert all(torch.equal(one, everywhere[0]) for one in everywhere)
        total, flags = everywhere[0][:n].view(size, steps), everywhere[0][n:]
        assert torch.equal(total.sum(1), flags[:size])  # how many gradients each contributed
        assert torch.equal(total[:, round_], flags[size:])  # whether that of this step is among them
        assert not total[:, round_ + 1 :].any()
    accepted = torch.stack([received[:n] for received in ranks[0].rounds]).sum(0).view(size, steps)
    assert accepted.max() <= 1
    for me, rank in enumerate(ranks):
        left = rank.pending.view(size, steps)
        assert left.sum() == left[me].sum() == len(rank.held)
        assert torch.equal(accepted[me] + left[me], torch.ones(steps)) or drop
        counted = rank.counted
        assert counted["accepted"] == accepted[me].sum() and counted["rounds"] == steps
        assert counted["accepted"] + len(rank.held) + counted.get("dropped", 0) == steps
        assert drop or "dropped" not in counted
        assert sorted(rank.read) == rank.read and all(read >= step for step, read in enumerate(rank.read))
        assert len(rank.delays) == counted["accepted"] and min(rank.delays, default=0) >= 0
    if quorum:
        assert all(received[n + size :].sum() >= quorum for received in ranks[0].rounds)


@settings(max_examples=40)
@given(some_delays(st.integers(2, 6)), st.integers(0, 99))
def test_nobody_waits_for_a_late_rank_in_solo(delays, seed):
    """Lemma 5.1 (1): a step's wait is that for a round already started, whatever the others do."""
    size = len(delays[0])
    nbytes = 4 * (len(delays) * size + 2 * size)
    rounds = 2 + (size - 1).bit_length()  # two more where P is no power of two
    longest = 2 * (forms.activation_s(size, ALPHA, BETA) + rounds * (ALPHA + nbytes * BETA))
    for rank in run(delays, "solo", seed=seed):
        assert max(rank.seconds) <= longest


@settings(max_examples=40)
@given(some_delays(st.integers(2, 6), most=12))
def test_staleness_has_the_bound_that_follows_from_the_delays(delays):
    """Lemma 5.1 (4), for solo."""
    size = len(delays[0])
    with_compute = [[COMPUTE + delay for delay in step] for step in delays]
    latency = 4 * forms.activation_s(size, ALPHA, BETA) + 8 * 4 * ALPHA
    bound = forms.staleness_bound(delays, COMPUTE, latency)
    for rank in run(with_compute, "solo"):
        assert max(rank.delays, default=0) <= bound


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 8])
def test_with_all_ranks_a_quorum_is_an_allreduce(size):
    delays = [[0.001 * ((7 * rank + 3 * step) % 5) for rank in range(size)] for step in range(5)]
    gradients = torch.randn(size, 5, 40, generator=torch.Generator().manual_seed(1))

    def dense(fabric):
        vectors = gradients[fabric.rank].clone()
        for vector in vectors:
            fabric.allreduce(vector, algorithm="recursive_doubling")
        return vectors

    sums = virtual.run(size, dense, NETWORK)[0]
    for rank in run(delays, "quorum", size, gradients=gradients):
        assert all(torch.equal(received[:40], sums[step]) for step, received in enumerate(rank.rounds))
        assert rank.counted["active"] == 5 and not rank.counted.get("null") and not rank.held


@pytest.mark.parametrize("size", [3, 8])
def test_majority_is_half_in_expectation(size):
    """Lemma 5.1 (3), section 4.2: ranks skewed by more than a round; (P + 1) / 2 of them are active on average."""
    delays = [[0.002 * rank for rank in range(size)]]
    seeds = range(60)
    active = [sum(rank.counted["active"] for rank in run(delays, "majority", seed=seed)) for seed in seeds]
    assert set(active) == set(range(1, size + 1))  # any number, from one to all: only the mean is guaranteed
    deviation = ((size**2 - 1) / 12) ** 0.5
    expected = partial_forms.active_processes("majority", size)
    assert abs(statistics.fmean(active) - expected) < 4 * deviation / len(active) ** 0.5


def test_the_draw_is_the_same_everywhere_and_even():
    def main(fabric):
        activation = Activation(fabric, "majority", lambda _: None, seed=5)
        drawn = [activation.designated(round_) for round_ in range(3000)]
        activation.close()
        return drawn

    one, *others = virtual.run(3, main, NETWORK)
    assert all(other == one for other in others)
    assert all(900 < one.count(rank) < 1100 for rank in range(3))


@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_a_round_takes_activation_and_recursive_doubling(size):
    """All ranks but the initiator are late: it waits for the closed form, to rounding."""
    n = 1000
    gradients = torch.ones(size, 1, n)
    seen = run([[0.0] + [1.0] * (size - 1)], "solo", gradients=gradients, costs=Costs(True, {"reduce": 1e-9}))
    nbytes = 4 * (n + 2 * size)
    collective = recursive_doubling(size, nbytes, ALPHA, BETA, 1e-9)
    # the farthest rank is activated last, and starts last
    assert seen[0].seconds[0] == pytest.approx(forms.activation_s(size, ALPHA, BETA) + collective, rel=1e-3)


@pytest.mark.parametrize("size", [3, 6, 11])
def test_a_round_off_powers_of_two_takes_at_most_one_long_message_more(size):
    """Without pacing, early messages delay those that others wait for, but not in every round."""
    n = 250_000
    seen = run([[0.0] + [1.0] * (size - 1)], "solo", gradients=torch.ones(size, 1, n))
    nbytes = 4 * (n + 2 * size)
    form = forms.activation_s(size, ALPHA, BETA) + recursive_doubling(size, nbytes, ALPHA, BETA)
    assert seen[0].seconds[0] <= form + nbytes * BETA


@pytest.mark.parametrize("size", [2, 3, 5, 8, 13])
@pytest.mark.parametrize("root", [0, 1])
def test_an_activation_reaches_every_rank(size, root):
    """One initiator: all start once, after at most ceil(log2 P) messages, with at most P log2 P messages in all."""

    def main(fabric):
        begun = fabric.queue()
        activation = Activation(fabric, "solo", begun.put)
        if fabric.rank == root:
            activation.arrive(7)
        assert begun.get(timeout=1.0) == 7
        after = fabric.now()
        activation.close()
        assert len(begun) == 0
        return after, sum(activation.messages_to)

    results = virtual.run(size, main, NETWORK)
    dimensions = (size - 1).bit_length()
    last, form = max(after for after, _ in results), forms.activation_s(size, ALPHA, BETA)
    assert last <= form * 1.001
    if size & (size - 1) == 0:  # else two dimensions may lead to one rank
        assert last == pytest.approx(form, rel=1e-3)
    assert size - 1 <= sum(messages for _, messages in results) <= size * dimensions


@settings(max_examples=40)
@given(some_delays(st.integers(1, 5), most=5), st.integers(0, 99))
def test_top_k_leaves_the_rest_in_the_send_buffer(delays, seed):
    """Sums of all rounds and send buffers are those of all gradients, to the last bit on whole numbers."""
    steps, size = len(delays), len(delays[0])
    generator = torch.Generator().manual_seed(seed)
    gradients = torch.randint(-50, 50, (size, steps, 30), generator=generator).float()
    ranks = run(delays, "solo", gradients=gradients, make=TopK, k=4)
    applied = torch.stack([received[:30] for received in ranks[0].rounds]).sum(0)
    assert torch.equal(applied + sum(rank.pending for rank in ranks), gradients.sum((0, 1)))
    for rank in ranks:
        for mine, first in zip(rank.rounds, ranks[0].rounds, strict=True):
            assert torch.equal(mine, first) and (mine[:30] != 0).sum() <= 4 * size


def test_a_null_contribution_of_top_k_is_nothing():
    gradients = torch.ones(2, 3, 8)
    slow = run([[0.0, 0.05]] * 3, "solo", gradients=gradients, make=TopK, k=2)
    assert slow[0].rounds[0][8:10].tolist() == [1, 0] and slow[0].rounds[0][:8].sum() == 2


@pytest.mark.parametrize(
    "codec, algorithm, bound",
    [
        ("none", "ring", 0.0),
        ("none", "native", 0.0),
        ("truncate16", "ring", 0.02),
        ("quantize8", "ring_pipelined", 0.05),
    ],
)
def test_other_allreduces_and_codecs(codec, algorithm, bound):
    """Flags stay exact whatever a codec does to the sums."""
    gradients = torch.rand(3, 4, 50, generator=torch.Generator().manual_seed(3))
    seen = run([[0.0, 0.004, 0.02]] * 4, "solo", gradients=gradients, codec=codec, algorithm=algorithm)
    applied = torch.stack([received[:50] for received in seen[0].rounds]).sum(0)
    total = applied + sum(rank.pending for rank in seen)
    torch.testing.assert_close(total, gradients.sum((0, 1)), rtol=0, atol=max(1e-5, bound * 12))
    flags = torch.stack([received[50:53] for received in seen[0].rounds]).sum(0)
    assert flags.tolist() == [rank.counted["accepted"] for rank in seen]


def test_bad_values():
    for quorum in (0, 5, True, None, 1.5, "2"):
        with pytest.raises(
            InputError, match=r"strategy\.quorum=.*: must be a whole number from 1 \(solo\) to workers=4"
        ):
            check_activation("quorum", quorum, 4)
    with pytest.raises(InputError, match="unknown initiator 'nobody'"):
        check_activation("nobody", None)


def test_means_of_the_microbenchmark():
    """The closed forms against the mean over ranks (and initiators) written out."""
    p, skew = 7, 0.003
    waits = [[max(0, j - i) * skew for i in range(p)] for j in range(p)]
    assert partial_forms.mean_wait_s("majority", p, skew) == pytest.approx(
        statistics.fmean(wait for drawn in waits for wait in drawn)
    )
    for q in range(1, p + 1):
        assert partial_forms.mean_wait_s("quorum", p, skew, q) == pytest.approx(statistics.fmean(waits[q - 1]))
    assert partial_forms.mean_wait_s("allreduce", p, skew) == pytest.approx(statistics.fmean(waits[-1]))
    assert partial_forms.mean_wait_s("solo", p, skew) == 0
    ratio = partial_forms.mean_wait_s("allreduce", 32, skew) / partial_forms.mean_wait_s("majority", 32, skew)
    assert ratio == pytest.approx(3 * 32 / 33)


def test_a_resumed_result_is_a_copy_on_the_send_buffers_device():
    """A checkpoint is loaded to the host, and a round reuses the result's memory as a send buffer."""

    def main(fabric):
        send_buffer = Whole(fabric, 3, 2, torch.device("meta"), "ring", channel=1)
        partial = PartialAllreduce(fabric, [send_buffer], lambda start: Activation(fabric, "solo", start, 0, None))
        partial.load_state_dict(partial.state_dict() | {"round": 1, "received": [torch.ones(5)]})
        device = partial.received[0].device
        partial.close()
        return device

    assert virtual.run(1, main, NETWORK, Costs(True, {}, {}))[0].type == "meta"


def test_if_all_ranks_initiate_at_once_a_round_is_executed_once():
    for rank in run([[0.0] * 6] * 3, "solo"):
        assert len(rank.rounds) == 3 and rank.counted["active"] == 3 and rank.read == [0, 1, 2]


def test_the_task_that_waits_for_a_round_executes_it():
    """Section 4.3: the application's thread while it is in the library, an auxiliary one while it computes."""
    for rank in run([[0.0] * 4] * 3, "solo"):
        assert rank.tasks == ["main"] * 3
    early, late = run([[0.0, 0.01]] * 3, "solo")
    assert early.tasks == ["main"] * 3 and late.tasks == ["rounds"] * 3


def test_a_late_rank_reads_only_the_latest_result():
    """Section 5: earlier rounds' results are overwritten before the slow rank reads the receive buffer."""
    _, slow = run([[0.0, 0.01]] * 6, "solo")
    assert set(slow.read) == {5}
