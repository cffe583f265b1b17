"""What every fabric must do: plain functions `check_xxx(fabric)`, run by every rank, each on a fabric of its own.

A check asserts; it raises Skip where the fabric does not declare what the check is about. `tests/ranks.py` runs them in
real ranks, `tests/test_fabric_conformance.py` on the virtual fabric.
"""

import contextlib
import re

import pytest
import torch

from repro.errors import InputError
from repro.fabric import collectives
from repro.fabric.base import ANY_SOURCE, BACKGROUND, CHANNELS, MAIN, FabricError, TaskCancelled

LIMIT_S = 10.0  # every wait of every check ends by then
SHORT_S = 0.3
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]
SIZES = [1, 2, 3, 5, 16, 1001]  # elements: fewer than ranks, not divisible, more
OTHER = 3  # a channel without a name


class Skip(Exception):
    """This fabric does not declare what the check needs."""


def need(fabric, *capabilities, ranks=2):
    if missing := set(capabilities) - fabric.capabilities:
        raise Skip(f"{fabric.name} does not declare {', '.join(sorted(missing))}")
    if fabric.size < ranks:
        raise Skip(f"needs {ranks} ranks")


def neighbours(fabric):
    return (fabric.rank - 1) % fabric.size, (fabric.rank + 1) % fabric.size


def numbers(n, seed, dtype=torch.float32):
    """n small whole numbers that add up exactly in any order."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 9, (n,), generator=generator).to(dtype)


def noise(n, seed):
    return torch.randn(n, generator=torch.Generator().manual_seed(seed))


def bits(tensor):
    return tensor.contiguous().view(-1).view(torch.uint8).tolist()


def same_everywhere(fabric, tensor):
    mine = bits(tensor)
    return all(theirs == mine for theirs in fabric.exchange(mine))


def meet(fabric):
    fabric.exchange(None)


# point to point


def check_identity(fabric):
    assert 0 <= fabric.rank < fabric.size
    assert fabric.exchange(fabric.rank) == list(range(fabric.size))
    assert fabric.capabilities <= {"threads", "tags", "any_source", "test", "cancel"}
    assert "threads" in fabric.capabilities
    assert fabric.current_task() == "main"
    assert fabric.bytes_sent == 0


def check_clock(fabric):
    before = fabric.now()
    fabric.sleep(0.01)
    assert fabric.now() - before >= 0.01
    ran = []
    with fabric.compute(0.01, "host"):
        ran.append(1)
    with fabric.compute():
        ran.append(2)
    with fabric.compute(0.01, None):
        ran.append(3)
    assert ran == [1, 2, 3]


def check_values_and_dtypes(fabric):
    need(fabric)
    left, right = neighbours(fabric)
    for dtype in DTYPES:
        for n in (1, 7, 300):
            outgoing, incoming = numbers(n, fabric.rank, dtype), torch.full((n,), 77).to(dtype)
            receive = fabric.irecv(incoming, left)
            send = fabric.isend(outgoing, right)
            receive.wait()
            send.wait()
            assert torch.equal(incoming, numbers(n, left, dtype)), (dtype, n)


def check_special_values(fabric):
    need(fabric)
    left, right = neighbours(fabric)
    special = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-45, -1e-40, 3.4e38])
    incoming = torch.zeros(8)
    receive = fabric.irecv(incoming, left)
    fabric.send(special, right)
    receive.wait()
    assert bits(incoming) == bits(special)


def check_shapes(fabric):
    need(fabric)
    left, right = neighbours(fabric)
    for shape in ((), (1,), (3, 4), (2, 3, 5)):
        outgoing, incoming = torch.full(shape, float(fabric.rank)), torch.zeros(shape)
        receive = fabric.irecv(incoming, left)
        fabric.send(outgoing, right)
        receive.wait()
        assert torch.equal(incoming, torch.full(shape, float(left)))


def check_empty_message(fabric):
    need(fabric)
    left, right = neighbours(fabric)
    receive = fabric.irecv(torch.empty(0), left)
    fabric.send(torch.empty(0), right)
    receive.wait()
    meet(fabric)


def check_large_messages_both_ways(fabric):
    need(fabric)
    left, right = neighbours(fabric)
    n = 1 << 18  # 1 MiB: past every eager limit
    incoming = [torch.zeros(n), torch.zeros(n)]
    works = [fabric.irecv(incoming[0], left, 1), fabric.irecv(incoming[1], right, 2)]
    works += [fabric.isend(noise(n, fabric.rank), right, 1), fabric.isend(noise(n, fabric.rank), left, 2)]
    for work in works:
        work.wait()
    assert torch.equal(incoming[0], noise(n, left)) and torch.equal(incoming[1], noise(n, right))


def check_blocking_send_and_receive(fabric):
    need(fabric)
    if fabric.rank == 0:
        for rank in range(1, fabric.size):
            fabric.send(torch.tensor([rank * 10.0]), rank)
        for rank in range(1, fabric.size):
            incoming = torch.zeros(1)
            assert fabric.recv(incoming, rank) == rank
            assert incoming.item() == rank * 10 + 1
    else:
        value = torch.zeros(1)
        assert fabric.recv(value, 0) == 0
        fabric.send(value + 1, 0)


def check_same_tag_keeps_order(fabric):
    need(fabric)
    left, right = neighbours(fabric)
    sends = [fabric.isend(torch.full((1 + i % 3,), float(i)), right, 4) for i in range(12)]
    for i in range(12):
        incoming = torch.zeros(1 + i % 3)
        fabric.recv(incoming, left, 4)
        assert incoming[0].item() == i
    for send in sends:
        send.wait()


def check_tags_do_not_mix(fabric):
    need(fabric, "tags")
    left, right = neighbours(fabric)
    sends = [fabric.isend(torch.tensor([float(tag)]), right, tag) for tag in range(6)]
    for tag in reversed(range(6)):  # out of order
        incoming = torch.zeros(1)
        fabric.recv(incoming, left, tag)
        assert incoming.item() == tag
    for send in sends:
        send.wait()


def check_channels_do_not_mix(fabric):
    need(fabric)
    left, right = neighbours(fabric)
    sends = [fabric.isend(torch.tensor([float(channel)]), right, 1, channel) for channel in range(CHANNELS)]
    for channel in reversed(range(CHANNELS)):
        incoming = torch.zeros(1)
        fabric.recv(incoming, left, 1, channel)
        assert incoming.item() == channel
    for send in sends:
        send.wait()


def check_receives_posted_before_the_sends(fabric):
    need(fabric, "tags")
    left, right = neighbours(fabric)
    incoming = [torch.zeros(2) for _ in range(4)]
    receives = [fabric.irecv(buffer, left, tag) for tag, buffer in enumerate(incoming)]
    meet(fabric)
    for tag in (2, 0, 3, 1):
        fabric.send(torch.full((2,), float(tag)), right, tag)
    for receive in receives:
        receive.wait()
    assert [buffer[0].item() for buffer in incoming] == [0, 1, 2, 3]


def check_wait_again(fabric):
    need(fabric)
    left, right = neighbours(fabric)
    incoming = torch.zeros(1)
    receive, send = fabric.irecv(incoming, left), fabric.isend(torch.ones(1), right)
    for _ in range(3):
        receive.wait()
        send.wait()
    assert incoming.item() == 1


def check_wait_without_end(fabric):
    need(fabric)
    left, right = neighbours(fabric)
    incoming = torch.zeros(1)
    receive, send = fabric.irecv(incoming, left), fabric.isend(torch.ones(1), right)
    receive.wait(timeout=float("inf"))
    send.wait(timeout=float("inf"))
    assert incoming.item() == 1


def check_source_of_a_named_receive(fabric):
    need(fabric)
    left, right = neighbours(fabric)
    receive = fabric.irecv(torch.zeros(1), left)
    fabric.send(torch.ones(1), right)
    receive.wait()
    assert receive.source == left


def check_any_source(fabric):
    need(fabric, "any_source")
    if fabric.rank:
        for i in range(3):
            fabric.send(torch.tensor([float(100 * fabric.rank + i)]), 0, 7)
        return
    heard = {rank: [] for rank in range(1, fabric.size)}
    for _ in range(3 * (fabric.size - 1)):
        incoming = torch.zeros(1)
        work = fabric.irecv(incoming, ANY_SOURCE, 7)
        work.wait()
        heard[work.source].append(incoming.item())
    assert heard == {rank: [100.0 * rank + i for i in range(3)] for rank in heard}  # in order from each


def check_any_source_keeps_to_its_tag_and_channel(fabric):
    need(fabric, "any_source", "tags")
    if fabric.rank == 1:
        sends = [fabric.isend(torch.tensor([1.0]), 0, 1), fabric.isend(torch.tensor([2.0]), 0, 2, BACKGROUND)]
        for send in [*sends, fabric.isend(torch.tensor([3.0]), 0, 2)]:
            send.wait()
    if fabric.rank == 0:
        incoming = torch.zeros(1)
        assert fabric.recv(incoming, ANY_SOURCE, 2) == 1 and incoming.item() == 3
        assert fabric.recv(incoming, ANY_SOURCE, 2, BACKGROUND) == 1 and incoming.item() == 2
        assert fabric.recv(incoming, ANY_SOURCE, 1) == 1 and incoming.item() == 1


def check_done(fabric):
    need(fabric, "test")
    if fabric.rank == 0:
        incoming = torch.zeros(1)
        work = fabric.irecv(incoming, 1, 3)
        assert not work.done()
        fabric.send(torch.ones(1), 1, 4)  # now it may send
        for _ in range(2000):
            if work.done():
                break
            fabric.sleep(0.005)
        assert work.done() and incoming.item() == 5 and work.source == 1
        work.wait()
    elif fabric.rank == 1:
        fabric.recv(torch.zeros(1), 0, 4)
        fabric.send(torch.tensor([5.0]), 0, 3)


def check_what_is_not_declared_says_so(fabric):
    need(fabric)
    left, right = neighbours(fabric)
    work = fabric.irecv(torch.zeros(1), left)
    send = fabric.isend(torch.ones(1), right)
    if "test" not in fabric.capabilities:
        with pytest.raises(FabricError, match=f"{fabric.name}.*test"):
            work.done()
        with pytest.raises(FabricError, match=f"{fabric.name}.*test"):
            fabric.wait_any([work])
    if "cancel" not in fabric.capabilities:
        with pytest.raises(FabricError, match=f"{fabric.name}.*cancel"):
            work.cancel()
    work.wait()
    send.wait()


def check_wait_any(fabric):
    need(fabric, "test")
    if fabric.rank == 0:
        peers = list(range(1, fabric.size))
        buffers = [torch.zeros(1) for _ in peers]
        works = [fabric.irecv(buffer, peer, 5) for buffer, peer in zip(buffers, peers)]
        for turn in reversed(range(len(peers))):  # let the last rank speak first
            fabric.send(torch.zeros(1), peers[turn], 6)
            assert fabric.wait_any(works[: turn + 1]) == turn
            assert buffers[turn].item() == peers[turn] and works[turn].source == peers[turn]
        assert fabric.wait_any(works) == 0  # the lowest, where several are done
    else:
        fabric.recv(torch.zeros(1), 0, 6)
        fabric.send(torch.tensor([float(fabric.rank)]), 0, 5)


def check_wait_any_has_an_end(fabric):
    need(fabric, "test")
    left, right = neighbours(fabric)
    works = [fabric.irecv(torch.zeros(1), left, 1), fabric.irecv(torch.zeros(1), right, 2)]
    with pytest.raises(FabricError, match=rf"rank {fabric.rank}\b.*rank {left}\b.*rank {right}\b.*{SHORT_S:g} s"):
        fabric.wait_any(works, timeout=SHORT_S)


def check_a_wait_any_leaves_nothing_behind(fabric):
    """The transfers that wait_any did not return may finish while the rank waits for something else."""
    need(fabric, "test")
    if fabric.rank == 0:
        second = torch.zeros(1)
        works = [fabric.irecv(torch.zeros(1), 1, 1), fabric.irecv(second, 1, 2)]
        assert fabric.wait_any(works) == 0
        queue = fabric.queue()
        fabric.spawn(lambda: (fabric.sleep(0.2), queue.put("item")))
        assert queue.get() == "item"  # works[1] finishes meanwhile
        works[1].wait()
        assert second.item() == 2
    elif fabric.rank == 1:
        fabric.send(torch.ones(1), 0, 1)
        fabric.sleep(0.05)
        fabric.send(torch.full((1,), 2.0), 0, 2)


def check_exchange_after_wait_any(fabric):
    need(fabric, "test")
    if fabric.rank == 0:
        works = [fabric.irecv(torch.zeros(1), 1, 1), fabric.irecv(torch.zeros(1), 1, 2)]
        assert fabric.wait_any(works) == 0
    elif fabric.rank == 1:
        fabric.send(torch.ones(1), 0, 1)
        fabric.sleep(0.05)
        fabric.send(torch.ones(1), 0, 2)  # arrives while rank 0 is in the exchange
        fabric.sleep(0.05)
    assert fabric.exchange(fabric.rank) == list(range(fabric.size))


def check_cancel(fabric):
    need(fabric, "cancel", "test")
    left, right = neighbours(fabric)
    withdrawn = torch.zeros(1)
    work = fabric.irecv(withdrawn, left, 5)
    work.cancel()
    assert work.done() and work.source is None
    work.wait()
    work.cancel()
    meet(fabric)
    send = fabric.isend(torch.tensor([9.0]), right, 5)
    incoming = torch.zeros(1)
    later = fabric.irecv(incoming, left, 5)
    later.wait()
    send.wait()
    assert incoming.item() == 9 and withdrawn.item() == 0
    later.cancel()  # too late, and harmless
    assert later.source == left


def check_bytes_sent(fabric):
    need(fabric)
    left, right = neighbours(fabric)
    expected = 0
    for channel, dtype in ((MAIN, torch.float32), (BACKGROUND, torch.int8), (OTHER, torch.bfloat16)):
        receive = fabric.irecv(torch.zeros(10, dtype=dtype), left, 0, channel)
        fabric.send(torch.zeros(10, dtype=dtype), right, 0, channel)
        receive.wait()
        expected += 10 * dtype.itemsize
        assert fabric.bytes_sent == expected
    for algorithm in ("auto", "ring"):
        fabric.allreduce(torch.zeros(12 * fabric.size), algorithm=algorithm).wait()
        expected += 2 * (fabric.size - 1) * 12 * 4
        assert fabric.bytes_sent == expected


def check_bytes_sent_by_other_collectives(fabric):
    """A broadcast hands (p - 1) n bytes to the network, an allgather p (p - 1) n: summed over ranks, at the least."""
    need(fabric)
    fabric.broadcast(torch.zeros(100), fabric.size - 1)
    assert sum(fabric.exchange(fabric.bytes_sent)) >= (fabric.size - 1) * 400
    before = fabric.bytes_sent
    fabric.allgather(torch.zeros(100))
    assert sum(fabric.exchange(fabric.bytes_sent - before)) >= fabric.size * (fabric.size - 1) * 400


def check_mismatched_size(fabric):
    need(fabric)
    if fabric.name == "torch":
        raise Skip("gloo only asks that a message fits")
    for found, expected in ((8, 4), (4, 8), (0, 1)):
        if fabric.rank == 0:
            with pytest.raises(FabricError, match=r"rank 0\b.*(rank 1\b|truncate)"):
                fabric.recv(torch.zeros(expected), 1, found)
        elif fabric.rank == 1:
            fabric.send(torch.zeros(found), 0, found)


# waits have an end


def check_receive_timeout(fabric):
    need(fabric)
    left, _ = neighbours(fabric)
    work = fabric.irecv(torch.zeros(1), left, 3)
    with pytest.raises(FabricError) as caught:
        work.wait(timeout=SHORT_S)
    said = str(caught.value)
    assert re.search(rf"rank {fabric.rank}\b.*rank {left}\b.*tag 3.*channel 0.*\b{SHORT_S:g} s", said), said


def check_the_fabrics_own_limit(fabric):
    need(fabric)
    left, _ = neighbours(fabric)
    fabric.timeout_s = SHORT_S
    with pytest.raises(FabricError, match=rf"rank {fabric.rank}\b.*rank {left}\b.*\b{SHORT_S:g} s"):
        fabric.recv(torch.zeros(1), left, 3, BACKGROUND)


def check_collective_timeout(fabric):
    """One rank does not come: the others end."""
    need(fabric)
    fabric.timeout_s = SHORT_S
    if fabric.rank:
        with pytest.raises(FabricError, match=rf"rank {fabric.rank}\b.*{SHORT_S:g} s"):
            fabric.allreduce(torch.ones(64 * fabric.size)).wait()


def check_event_and_queue_timeouts(fabric):
    with pytest.raises(FabricError, match=rf"rank {fabric.rank}\b.*event.*{SHORT_S:g} s"):
        fabric.event().wait(timeout=SHORT_S)
    with pytest.raises(FabricError, match=rf"rank {fabric.rank}\b.*queue.*{SHORT_S:g} s"):
        fabric.queue().get(timeout=SHORT_S)
    gate = fabric.event()
    task = fabric.spawn(lambda: gate.wait(timeout=LIMIT_S), "sleeper")
    with pytest.raises(FabricError, match=rf"rank {fabric.rank}\b.*sleeper.*{SHORT_S:g} s"):
        task.join(timeout=SHORT_S)
    gate.set()
    task.join()


def check_a_queue_timeout_is_not_put_off(fabric):
    """A waiter whose item another one takes still gives up when its own time has passed."""
    queue, start, got, waited = fabric.queue(), fabric.now(), [], []

    def take():
        try:
            got.append(queue.get(timeout=0.4))
        except FabricError:
            waited.append(fabric.now() - start)

    tasks = [fabric.spawn(take, f"taker{i}") for i in range(2)]
    fabric.sleep(0.3)
    queue.put(1)  # wakes both
    for task in tasks:
        task.join()
    assert got == [1] and len(waited) == 1
    if fabric.name == "virtual":
        assert waited == [pytest.approx(0.4)]


# collectives


def check_native_allreduce(fabric):
    for dtype in (torch.float32, torch.float64, torch.int32, torch.int64):
        for n in SIZES if dtype == torch.float32 else (7,):
            vector = numbers(n, fabric.rank, dtype)
            fabric.allreduce(vector).wait()
            assert torch.equal(vector, sum(numbers(n, rank, dtype) for rank in range(fabric.size))), (dtype, n)
    vector = noise(1000, fabric.rank)
    fabric.allreduce(vector, channel=OTHER).wait()
    torch.testing.assert_close(vector, sum(noise(1000, rank) for rank in range(fabric.size)))


def check_named_allreduces(fabric):
    for name in collectives.ALLREDUCE:
        contributors = range(max(1, fabric.size - 1) if name == "server" else fabric.size)  # a server only sums
        for n in SIZES:
            vector = numbers(n, fabric.rank)
            fabric.allreduce(vector, algorithm=name).wait()
            assert torch.equal(vector, sum(numbers(n, rank) for rank in contributors)), (name, n)


def check_named_allreduces_give_the_same_bits(fabric):
    """To every rank, and every time."""
    for name in collectives.ALLREDUCE:
        for n in (3, 1001):
            first, second = noise(n, fabric.rank), noise(n, fabric.rank)
            fabric.allreduce(first, algorithm=name, channel=BACKGROUND)
            fabric.allreduce(second, algorithm=name)
            assert bits(first) == bits(second), name
            assert same_everywhere(fabric, first), name


def check_allreduce_mean(fabric):
    for name in ("auto", "ring", "recursive_doubling", "tree"):
        vector = torch.full((5,), float(fabric.rank))
        fabric.allreduce(vector, op="mean", algorithm=name, async_=True).wait()
        torch.testing.assert_close(vector, torch.full((5,), (fabric.size - 1) / 2))


def check_allreduce_of_a_matrix(fabric):
    for name in ("auto", *collectives.ALLREDUCE):
        matrix = torch.ones(3, 4)
        fabric.allreduce(matrix, algorithm=name).wait()
        contributors = max(1, fabric.size - 1) if name == "server" else fabric.size
        assert torch.equal(matrix, torch.full((3, 4), float(contributors))), name


def check_asynchronous_allreduces(fabric):
    vectors = [torch.full((50,), float(i + fabric.rank)) for i in range(4)]
    works = [fabric.allreduce(vector, async_=True) for vector in vectors]
    for work in reversed(works):
        work.wait()
    for i, vector in enumerate(vectors):
        assert vector[7].item() == sum(i + rank for rank in range(fabric.size))


def check_unknown_algorithm(fabric):
    with pytest.raises(InputError, match=r"unknown allreduce algorithm 'rign'; valid: ring"):
        fabric.allreduce(torch.ones(1), algorithm="rign")


def check_allgather(fabric):
    for dtype in (torch.float32, torch.int8, torch.int64, torch.uint8):
        for shape in ((1,), (7,), (2, 3)):
            mine = torch.full(shape, fabric.rank).to(dtype)
            gathered = fabric.allgather(mine)
            assert len(gathered) == fabric.size
            for rank, part in enumerate(gathered):
                assert part.dtype == dtype and torch.equal(part, torch.full(shape, rank).to(dtype))


def check_allgather_of_bfloat16(fabric):
    gathered = fabric.allgather(torch.full((3,), float(fabric.rank), dtype=torch.bfloat16))
    assert [part[0].item() for part in gathered] == list(range(fabric.size))


def check_allgather_gives_copies(fabric):
    mine = torch.full((2,), float(fabric.rank))
    gathered = fabric.allgather(mine)
    mine.fill_(-1)
    assert gathered[fabric.rank][0].item() == fabric.rank


def check_broadcast_from_each(fabric):
    for root in range(fabric.size):
        for dtype in (torch.float32, torch.int8, torch.bfloat16, torch.int64):
            vector = numbers(9, fabric.rank, dtype)
            fabric.broadcast(vector, root)
            assert torch.equal(vector, numbers(9, root, dtype)), (root, dtype)
    matrix = torch.full((2, 2), float(fabric.rank))
    fabric.broadcast(matrix, fabric.size - 1, BACKGROUND)
    assert torch.equal(matrix, torch.full((2, 2), float(fabric.size - 1)))


def check_reduce_scatter(fabric):
    for n in SIZES:
        mine = fabric.reduce_scatter(numbers(n, fabric.rank))
        start, end = collectives.bounds(n, fabric.size)[fabric.rank]
        assert torch.equal(mine, sum(numbers(n, rank) for rank in range(fabric.size))[start:end]), n


def check_reduce_and_tree_broadcast(fabric):
    for root in range(fabric.size):
        vector = numbers(11, fabric.rank)
        collectives.binomial_reduce(fabric, vector, root)
        if fabric.rank == root:
            assert torch.equal(vector, sum(numbers(11, rank) for rank in range(fabric.size)))
        vector = numbers(11, fabric.rank)
        collectives.binomial_broadcast(fabric, vector, root)
        assert torch.equal(vector, numbers(11, root))


def check_barrier(fabric):
    for channel in (MAIN, BACKGROUND):
        fabric.sleep(0.02 * ((fabric.rank * 7 + channel) % fabric.size))
        came = fabric.now()
        fabric.barrier(channel)
        left = fabric.now()
        assert left >= max(fabric.exchange(came))  # one clock for all ranks of a machine


def check_collectives_let_messages_be(fabric):
    """A message that nobody has received yet is still there after a collective on its channel, whatever its tag."""
    need(fabric, "tags")
    left, right = neighbours(fabric)
    sends = [fabric.isend(torch.tensor([float(tag)]), right, tag) for tag in range(5)]
    meet(fabric)
    fabric.barrier()
    vector = torch.full((1,), float(fabric.rank))
    fabric.broadcast(vector, 0)
    assert vector.item() == 0
    gathered = fabric.allgather(torch.full((1,), float(fabric.rank)))
    assert [part.item() for part in gathered] == list(range(fabric.size))
    for name in ("auto", *collectives.ALLREDUCE):
        vector = torch.ones(fabric.size)
        fabric.allreduce(vector, algorithm=name).wait()
        assert vector[0].item() == (max(1, fabric.size - 1) if name == "server" else fabric.size)
    for tag in range(5):
        incoming = torch.zeros(1)
        fabric.recv(incoming, left, tag)
        assert incoming.item() == tag
    for send in sends:
        send.wait()


# groups


def check_subgroups(fabric):
    """Several, overlapping, with traffic in all of them at once."""
    wanted = [list(range(fabric.size)), list(range(0, fabric.size, 2)), list(range(fabric.size - 1, fabric.size))]
    wanted += [[rank, (rank + 1) % fabric.size] for rank in range(fabric.size) if fabric.size > 1]
    groups = [fabric.subgroup(ranks) for ranks in wanted]
    for ranks, group in zip(wanted, groups):
        assert (group is not None) == (fabric.rank in ranks)
        if group is None:
            continue
        assert group.size == len(ranks) and ranks[group.rank] == fabric.rank
        vector = torch.full((5,), float(fabric.rank))
        group.allreduce(vector, algorithm="ring")
        assert vector[0].item() == sum(ranks)
        vector = torch.full((5,), float(fabric.rank))
        group.allreduce(vector).wait()
        assert vector[0].item() == sum(ranks)
        vector = torch.full((1,), float(fabric.rank))
        group.broadcast(vector, group.size - 1)
        assert vector.item() == ranks[-1]
        group.barrier()
    vector = torch.ones(3)
    fabric.allreduce(vector, algorithm="ring")  # the whole still works
    assert vector[0].item() == fabric.size


def check_subgroup_keeps_the_order_given(fabric):
    ranks = list(reversed(range(fabric.size)))
    group = fabric.subgroup(ranks)
    assert group.rank == fabric.size - 1 - fabric.rank
    assert group.exchange(fabric.rank) == ranks
    assert [part.item() for part in group.allgather(torch.tensor([fabric.rank]))] == ranks
    vector = torch.tensor([float(fabric.rank)])
    group.broadcast(vector, 0)
    assert vector.item() == fabric.size - 1
    if group.size > 1:
        left, right = neighbours(group)
        receive = group.irecv(vector, left)
        group.send(torch.tensor([float(fabric.rank)]), right)
        receive.wait()
        assert vector.item() == ranks[left] and receive.source in (left, None)


def check_subgroup_traffic_is_apart(fabric):
    need(fabric)
    group = fabric.subgroup(range(fabric.size))
    left, right = neighbours(fabric)
    sends = [fabric.isend(torch.tensor([1.0]), right, 1), group.isend(torch.tensor([2.0]), right, 1)]
    incoming = torch.zeros(1)
    group.recv(incoming, left, 1)
    assert incoming.item() == 2
    fabric.recv(incoming, left, 1)
    assert incoming.item() == 1
    for send in sends:
        send.wait()


def check_subgroup_of_a_subgroup(fabric):
    """Where a fabric cannot, it says so at once."""
    need(fabric, ranks=3)
    outer = fabric.subgroup([1, 2])
    if outer is not None and fabric.name == "torch":
        with pytest.raises(FabricError, match=r"torch.*subgroup"):
            outer.subgroup([1])
    elif outer is not None:
        inner = outer.subgroup([1])
        assert (inner is not None) == (fabric.rank == 2)
        if inner is not None:
            assert inner.size == 1 and inner.exchange("x") == ["x"]
        again = outer.subgroup([1, 0])
        assert again.exchange(fabric.rank) == [2, 1]
    meet(fabric)


def check_subgroup_tasks_are_the_ranks_tasks(fabric):
    """A task keeps its name, and can be cancelled, whichever group's fabric it waits on."""
    need(fabric, "test")
    group = fabric.subgroup(range(fabric.size))
    group.timeout_s = 1.0
    names, (left, _) = [], neighbours(fabric)
    started = fabric.event()

    def listen():
        names.append(group.current_task())
        started.set()
        group.recv(torch.zeros(1), left)

    task = fabric.spawn(listen, "listener")
    started.wait()
    task.cancel()
    assert task.join() is None
    assert names == ["listener"]


def check_exchange(fabric):
    for i in range(3):
        objects = fabric.exchange({"rank": fabric.rank, "list": [None] * fabric.rank, "i": i})
        assert objects == [{"rank": rank, "list": [None] * rank, "i": i} for rank in range(fabric.size)]


# tasks and what they wait on


def check_task_results(fabric):
    names = []
    tasks = [fabric.spawn(lambda i=i: (names.append(fabric.current_task()), i * i)[1], f"task{i}") for i in range(3)]
    assert [task.join() for task in tasks] == [0, 1, 4]
    assert tasks[1].join() == 1  # again
    assert sorted(names) == ["task0", "task1", "task2"] and [task.name for task in tasks] == sorted(names)
    assert fabric.current_task() == "main"


def check_task_starts_tasks(fabric):
    def outer():
        return fabric.spawn(lambda: fabric.current_task(), "inner").join()

    assert fabric.spawn(outer, "outer").join() == "inner"


def check_cancel_a_task_that_waits(fabric):
    queue, event = fabric.queue(), fabric.event()
    for wait in (lambda: queue.get(timeout=float("inf")), lambda: event.wait(timeout=float("inf"))):
        started, ended = fabric.event(), []

        def body(started=started, wait=wait, ended=ended):
            started.set()
            try:
                wait()
            finally:
                ended.append(True)

        task = fabric.spawn(body, "waiter")
        started.wait()
        task.cancel()
        assert task.join() is None and ended == [True]
        task.cancel()  # of one that has ended


def check_cancel_a_task_that_receives(fabric):
    need(fabric, "test")
    left, _ = neighbours(fabric)
    started = fabric.event()

    def listen():
        started.set()
        fabric.recv(torch.zeros(1), left, 1, BACKGROUND)

    task = fabric.spawn(listen, "listener")
    started.wait()
    task.cancel()
    assert task.join() is None


def check_a_cancelled_tasks_next_receive(fabric):
    need(fabric)
    left, _ = neighbours(fabric)
    fabric.timeout_s = 1.0
    started, gate = fabric.event(), fabric.event()

    def stubborn():
        started.set()
        with contextlib.suppress(TaskCancelled):
            gate.wait()
        fabric.recv(torch.zeros(1), left, 1, BACKGROUND)

    task = fabric.spawn(stubborn, "stubborn")
    started.wait()
    task.cancel()
    assert task.join() is None


def check_task_errors_reach_the_rank(fabric):
    need(fabric)
    if fabric.name == "virtual":
        raise Skip("ends the whole virtual run: see test_fabric_virtual.py")
    left, _ = neighbours(fabric)
    fabric.timeout_s = 2.0

    def fail():
        raise ValueError("boom")

    task = fabric.spawn(fail, "faulty")
    with pytest.raises(ValueError, match="boom"):
        fabric.queue().get()
    with pytest.raises(ValueError, match="boom"):
        fabric.recv(torch.zeros(1), left)
    with pytest.raises(ValueError, match="boom"):
        task.join()


def check_communication_thread(fabric):
    """An allreduce on BACKGROUND in a task, one on MAIN in the main line, at once; five rounds by a queue."""
    todo, ready = fabric.queue(), fabric.queue()

    def communicate():
        while (vector := todo.get()) is not None:
            fabric.allreduce(vector, channel=BACKGROUND, algorithm="ring")
            ready.put(vector)
        return "over"

    task = fabric.spawn(communicate, "communication")
    for round_ in range(5):
        mine, theirs = numbers(1001, fabric.rank + round_), numbers(777, fabric.rank - round_ + 50)
        todo.put(mine)
        fabric.allreduce(theirs).wait()
        assert torch.equal(theirs, sum(numbers(777, rank - round_ + 50) for rank in range(fabric.size)))
        assert torch.equal(ready.get(), sum(numbers(1001, rank + round_) for rank in range(fabric.size)))
    todo.put(None)
    assert task.join() == "over"


def check_queue(fabric):
    queue, got = fabric.queue(), []
    for i in range(3):
        queue.put(i)
    assert len(queue) == 3
    assert [queue.get() for _ in range(3)] == [0, 1, 2] and len(queue) == 0
    tasks = [fabric.spawn(lambda: got.append(queue.get()), f"taker{i}") for i in range(3)]
    for i in range(3):
        queue.put(i)
    for task in tasks:
        task.join()
    assert sorted(got) == [0, 1, 2]
    queue.put(None)
    assert queue.get() is None


def check_event(fabric):
    event, log = fabric.event(), []
    assert not event.is_set()
    tasks = [fabric.spawn(lambda: (event.wait(), log.append(1)), f"waiter{i}") for i in range(3)]
    fabric.sleep(0.02)
    assert log == []
    event.set()
    for task in tasks:
        task.join()
    assert log == [1, 1, 1] and event.is_set()
    event.wait()
    event.clear()
    assert not event.is_set()


def check_lock(fabric):
    lock, count = fabric.lock(), [0]

    def add():
        for _ in range(5):
            with lock:
                before = count[0]
                fabric.sleep(0.001)
                count[0] = before + 1

    tasks = [fabric.spawn(add, f"adder{i}") for i in range(3)]
    for task in tasks:
        task.join()
    assert count == [15]


# last, because what follows would suffer: torch's groups get out of step for good, gloo ends the process
CHECKS = {name: function for name, function in globals().items() if name.startswith("check_")}
CHECKS["check_subgroup_of_a_subgroup"] = CHECKS.pop("check_subgroup_of_a_subgroup")
CHECKS["check_collectives_let_messages_be"] = CHECKS.pop("check_collectives_let_messages_be")
