"""Four sketches of later papers' communication on the fabric interface: it carries them, and virtual time shows how."""

from collections import Counter

import pytest
import torch

from repro.fabric.base import ANY_SOURCE, BACKGROUND, MAIN
from repro.fabric.virtual.fabric import Network, run

CONTROL_TAG, DATA_TAG = 0, 1000


# (a) PipeDream: 1F1B over three stages, at most NOAM minibatches in flight


def one_f_one_b(stage, stages, minibatches):
    """[("F", i) or ("B", i)]: stages - stage forwards, then one backward, one forward in turn, then what is left."""
    ahead = min(stages - stage, minibatches)
    order = [("F", i) for i in range(ahead)]
    for i in range(minibatches):
        order.append(("B", i))
        if ahead + i < minibatches:
            order.append(("F", ahead + i))
    return order


def pipeline_stage(fabric, minibatches, forward_s, backward_s, width):
    """Activations go to the right with tag 2i, gradients to the left with tag 2i + 1; receives are posted early."""
    stage, last = fabric.rank, fabric.size - 1
    receives, sends, done = {}, [], []
    for i in range(minibatches):
        if stage > 0:
            buffer = torch.empty(width)
            receives["F", i] = fabric.irecv(buffer, stage - 1, 2 * i), buffer
        if stage < last:
            buffer = torch.empty(width)
            receives["B", i] = fabric.irecv(buffer, stage + 1, 2 * i + 1), buffer
    for kind, i in one_f_one_b(stage, fabric.size, minibatches):
        work, value = receives.get((kind, i), (None, torch.full((width,), float(i))))
        if work:
            work.wait()
        with fabric.compute(forward_s if kind == "F" else backward_s):
            done.append(f"{kind}{i}")
            value = value + 1 if kind == "F" else value * 2
        if kind == "F" and stage < last:
            sends.append(fabric.isend(value, stage + 1, 2 * i))
        elif kind == "B" and stage > 0:
            sends.append(fabric.isend(value, stage - 1, 2 * i + 1))
        elif kind == "B":
            assert value[0].item() == i * 2.0**fabric.size  # the gradient has been through every stage
    for send in sends:
        send.wait()
    return " ".join(done), fabric.now()


def finish_times(stages, minibatches, forward_s, backward_s, message_s):
    """When each stage is done: the longest path through the schedule, independent of the fabric."""
    plans = [one_f_one_b(stage, stages, minibatches) for stage in range(stages)]
    end, free, place = {}, [0.0] * stages, [0] * stages
    while any(place[s] < len(plans[s]) for s in range(stages)):
        moved = False
        for s in range(stages):
            if place[s] == len(plans[s]):
                continue
            kind, i = plans[s][place[s]]
            before = s - 1 if kind == "F" else s + 1
            needs = (before, kind, i) if 0 <= before < stages else None
            if needs is None or needs in end:
                start = max(free[s], end[needs] + message_s if needs else 0.0)
                free[s] = end[s, kind, i] = start + (forward_s if kind == "F" else backward_s)
                place[s] += 1
                moved = True
        assert moved, "the schedule deadlocks"
    return free


@pytest.mark.parametrize("network", [Network(0.0, 0.0), Network(0.125, 2.0**-10)], ids=["free", "slow"])
def test_1f1b_pipeline(network):
    stages, minibatches, forward_s, backward_s, width = 3, 6, 1.0, 2.0, 64
    results = run(stages, lambda f: pipeline_stage(f, minibatches, forward_s, backward_s, width), network)
    assert [order for order, _ in results] == [
        "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5",
        "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5",
        "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5",
    ]
    message_s = network.alpha + 4 * width * network.beta
    times = [time for _, time in results]
    if message_s == 0:
        assert times[0] == (minibatches + stages - 1) * (forward_s + backward_s)
    expected = finish_times(stages, minibatches, forward_s, backward_s, message_s)
    # a stage also waits until its last message has left
    assert times == [expected[0], *(time + 4 * width * network.beta for time in expected[1:])]


def test_noam_bounds_the_minibatches_in_flight():
    for stage, order in enumerate(one_f_one_b(stage, 3, 9) for stage in range(3)):
        in_flight = most = 0
        for kind, _ in order:
            in_flight += 1 if kind == "F" else -1
            most = max(most, in_flight)
        assert most == 3 - stage and in_flight == 0


# (b) iBatch: every rank is worker and server; a prefetch thread pulls layers in batches while forward computes


def owner(layer, size):
    return layer % size


def serve(fabric, layers, weights):
    """Answers (layer) requests of anybody until every rank has said -1."""
    leavers, request, sends = 0, torch.empty(1), []
    while leavers < fabric.size:
        source = fabric.recv(request, ANY_SOURCE, CONTROL_TAG, BACKGROUND)
        layer = int(request.item())
        if layer < 0:
            leavers += 1
        else:
            assert owner(layer, fabric.size) == fabric.rank
            sends.append(fabric.isend(weights[layer], source, DATA_TAG + layer, BACKGROUND))
    for send in sends:
        send.wait()


def parameter_server_step(fabric, batches, width, forward_s, overlap):
    layers = [layer for batch in batches for layer in batch]
    mine = {layer: torch.full((width,), 100.0 + layer) for layer in layers if owner(layer, fabric.size) == fabric.rank}
    server = fabric.spawn(lambda: serve(fabric, layers, mine), "server")
    ready, pulled = {layer: fabric.event() for layer in layers}, {}

    def pull():
        for batch in batches:
            works = []
            for layer in batch:
                pulled[layer] = torch.empty(width)
                works.append(fabric.irecv(pulled[layer], owner(layer, fabric.size), DATA_TAG + layer, BACKGROUND))
                request = torch.tensor([float(layer)])
                fabric.isend(request, owner(layer, fabric.size), CONTROL_TAG, BACKGROUND).wait()
            for layer, work in zip(batch, works):
                work.wait()
                ready[layer].set()
        return fabric.now()

    prefetch = fabric.spawn(pull, "prefetch")
    if not overlap:
        prefetch.join()
    starts = []
    for layer in layers:
        ready[layer].wait()
        with fabric.compute(forward_s):
            starts.append(fabric.now())
            assert torch.equal(pulled[layer], torch.full((width,), 100.0 + layer))
    forward_end, pull_end = fabric.now(), prefetch.join()
    for rank in range(fabric.size):
        fabric.isend(torch.tensor([-1.0]), rank, CONTROL_TAG, BACKGROUND).wait()
    server.join()
    return starts[0], pull_end, forward_end


@pytest.mark.parametrize("size", [1, 3, 4])
def test_sharded_parameter_server_with_prefetch(size):
    batches, forward_s = [[0, 1], [2, 3, 4], [5]], 0.01
    network = Network(1e-3, 1e-6)

    def step(overlap):
        return run(size, lambda f: parameter_server_step(f, batches, 2500, forward_s, overlap), network)

    for (first, pulled, end), (_, pulled_before, end_before) in zip(step(True), step(False)):
        assert end_before == pytest.approx(pulled_before + 6 * forward_s)
        if size > 1:
            assert first < pulled  # forward began while layers were still on their way
            assert max(pulled, 6 * forward_s) < end < end_before
            assert end_before - end > forward_s  # a whole layer and more was hidden


# (c) gTop-k: a binomial tree of top-k merges, then a broadcast


def top_k(values, indices, k):
    """The k largest magnitudes, ties by index, in the order of the indices."""
    order = sorted(range(len(values)), key=lambda i: (-abs(values[i].item()), indices[i].item()))[:k]
    keep = torch.tensor(sorted(order, key=lambda i: indices[i].item()))
    return values[keep], indices[keep]


def merge(a, b, k):
    """Sum of two sparse vectors, its k largest."""
    indices, places = torch.cat([a[1], b[1]]).unique(return_inverse=True)
    values = torch.zeros(len(indices)).index_add_(0, places, torch.cat([a[0], b[0]]))
    return top_k(values, indices, k)


def pack(sparse):
    return torch.cat([sparse[0].view(torch.int32), sparse[1].to(torch.int32)])


def unpack(wire):
    k = wire.numel() // 2
    return wire[:k].clone().view(torch.float32), wire[k:].clone()


def gtopk_allreduce(fabric, sparse, k):
    """In round d rank r with r % 2d == d gives its part to r - d; rank 0 ends with the result and broadcasts it."""
    distance, wire = 1, pack(sparse)
    while distance < fabric.size:
        if fabric.rank % (2 * distance) == distance:
            fabric.send(wire, fabric.rank - distance, distance)
            break
        if fabric.rank % (2 * distance) == 0 and fabric.rank + distance < fabric.size:
            incoming = torch.empty_like(wire)
            fabric.recv(incoming, fabric.rank + distance, distance)
            wire = pack(merge(unpack(wire), unpack(incoming), k))
        distance *= 2
    fabric.broadcast(wire, 0)
    return unpack(wire)


@pytest.mark.parametrize("p", range(1, 9))
def test_gtopk_tree(p):
    n, k, network = 300, 20, Network(1e-3, 1e-6)
    gradients = torch.randn(p, n, generator=torch.Generator().manual_seed(p))
    sparse = [top_k(gradient, torch.arange(n, dtype=torch.int32), k) for gradient in gradients]

    def main(fabric):
        values, indices = gtopk_allreduce(fabric, sparse[fabric.rank], k)
        time = fabric.now()
        return values, indices, time, fabric.bytes_sent

    results = run(p, main, network)
    parts, distance = dict(enumerate(sparse)), 1
    while distance < p:  # the same tree without a network
        for rank in range(0, p - distance, 2 * distance):
            parts[rank] = merge(parts[rank], parts[rank + distance], k)
        distance *= 2
    for values, indices, _, _ in results:
        assert torch.equal(values, parts[0][0]) and torch.equal(indices, parts[0][1].to(torch.int32))
    took, rounds = max(time for _, _, time, _ in results), (p - 1).bit_length()
    closed_form = 2 * rounds * (network.alpha + 8 * k * network.beta)
    if p & (p - 1) == 0:
        assert took == pytest.approx(closed_form, rel=1e-12)
    else:  # the root hears and sends one message a round, but a round whose partner was ready early overlaps
        floor = 2 * (network.alpha + rounds * 8 * k * network.beta)
        assert floor * (1 - 1e-12) <= took <= closed_form * (1 + 1e-12)
    assert sum(sent for *_, sent in results) == 2 * (p - 1) * 8 * k


# (d) eager-SGD: a solo partial allreduce that any rank may start


class SoloAllreduce:
    """A listener hears activations and a progress task runs the rounds; whoever comes late gives zeros."""

    def __init__(self, fabric, n):
        self.fabric, self.buffer = fabric, torch.zeros(n)  # gradients that wait for a round, stale ones included
        self.requests, self.results = fabric.queue(), {}
        self.finished: dict[int, object] = {}
        self.executed, self.nulls = [], 0
        self.tasks = [fabric.spawn(self.listen, "listener"), fabric.spawn(self.progress, "progress")]

    def listen(self):
        while True:
            message = torch.empty(2)
            self.fabric.recv(message, ANY_SOURCE, CONTROL_TAG, BACKGROUND)
            self.requests.put((int(message[0]), int(message[1])))

    def progress(self):
        while (request := self.requests.get()) is not None:
            round_, initiator = request
            if round_ in self.results:  # several may have started it: consumable operations run once
                continue
            self.forward(round_, initiator)
            contribution, self.buffer = self.buffer, torch.zeros_like(self.buffer)
            self.nulls += not contribution.any()
            self.fabric.allreduce(contribution, channel=MAIN, algorithm="recursive_doubling")
            self.executed.append(round_)
            self.results[round_] = contribution
            self.event_of(round_).set()

    def forward(self, round_, initiator):
        """This rank's part of the binomial tree whose root is the initiator."""
        p = self.fabric.size
        me = (self.fabric.rank - initiator) % p
        distance = 1
        while distance < p:
            if me < distance and me + distance < p:
                to = (me + distance + initiator) % p
                self.fabric.isend(torch.tensor([float(round_), float(initiator)]), to, CONTROL_TAG, BACKGROUND)
            distance *= 2

    def event_of(self, round_):
        return self.finished.setdefault(round_, self.fabric.event())

    def allreduce(self, round_, gradient):
        self.buffer += gradient
        if round_ not in self.results:
            self.requests.put((round_, self.fabric.rank))  # internal activation
            self.event_of(round_).wait()
        return self.results[round_]

    def close(self):
        self.requests.put(None)
        self.tasks[1].join()
        self.tasks[0].cancel()
        self.tasks[0].join()


@pytest.mark.parametrize("p", [1, 2, 3, 4, 6, 8])
def test_solo_partial_allreduce(p):
    rounds, n, network, late = 5, 10, Network(1e-3, 1e-6), 1 if p > 1 else None

    def main(fabric):
        solo, waits = SoloAllreduce(fabric, n), []
        for round_ in range(rounds):
            with fabric.compute(1.0 if fabric.rank == late else 0.1 + 0.01 * fabric.rank):
                pass
            gradient = torch.full((n,), float(10**round_ * (1 + fabric.rank)))
            before = fabric.now()
            result = solo.allreduce(round_, gradient)
            waits.append(fabric.now() - before)
            assert torch.equal(result, solo.results[round_])
        fabric.barrier(3)  # every rank has asked for every round
        solo.close()
        sums = [solo.results[round_].clone() for round_ in range(rounds)]
        return solo.executed, sums, solo.buffer, waits, solo.nulls

    results = run(p, main, network)
    for executed, sums, *_ in results:
        assert Counter(executed) == {round_: 1 for round_ in range(rounds)} and executed == sorted(executed)
        assert all(torch.equal(a, b) for a, b in zip(sums, results[0][1]))  # the same everywhere
    given = sum(10.0**round_ * (1 + rank) for round_ in range(rounds) for rank in range(p))
    applied = torch.stack(results[0][1]).sum(0) + sum(buffer for _, _, buffer, _, _ in results)
    assert torch.equal(applied, torch.full((n,), given))  # late gradients are kept, none is used twice
    # the tree, and the allreduce with its two extra rounds where p is no power of two
    longest = (2 * (p - 1).bit_length() + 2) * (network.alpha + 40 * network.beta)
    assert max(wait for *_, waits, _ in results for wait in waits) <= longest
    if late is not None:
        assert results[late][3][1:] == [0.0] * (rounds - 1)  # it finds them done and does not wait either
        assert results[late][4] >= 3  # null contributions
