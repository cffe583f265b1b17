"""Program `sparse_collectives`: Table I of gTop-k, each formula against the collective run (section IV-C, Figure 9).

Every collective is timed from the gradient's selected elements (dense: from the gradient) to the last rank's result;
selecting is not in it, merging is.

    probe.algorithms  of dense (a ring), topk (allgather by doubling), topk_ring, gtopk (tree and broadcast)
    probe.ranks       worlds, each of the first so many of the cell's workers; the others wait
    probe.bytes       of the gradients (m), float32
    probe.density     rho: k = round(rho x parameters) elements leave each rank
    probe.repeat      repetitions of each, after one that does not count (virtual: 1, all are equal)
    probe.sizes, probe.runs   of the ping-pong that tells a measured network's alpha and beta
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import torch

from repro import probes
from repro.common.errors import InputError, unknown
from repro.fabric.base import Fabric
from repro.fabric.device import pick_device
from repro.fabric.selection import select
from repro.fabric.sparse import Wire
from repro.fabric.sparse_collectives import gtopk_allreduce, topk_allgather
from repro.probes import _ping_pong
from repro.probes._common import facts, number, sizes, slowest, whole
from repro.timing.closed_forms import FLOAT32, sparse_collective
from repro.timing.sparse_forms import NAMES


def ranks(config: dict[str, Any]) -> int:
    return config["workers"]


def check(config: dict[str, Any]) -> None:
    """InputError for parameters that cannot be used."""
    probe, workers = config["probe"], config["workers"]
    given = probe.get("algorithms")
    if not isinstance(given, list) or not given:
        raise InputError(f"probe.algorithms={given}: must be a list of {', '.join(NAMES)}")
    for name in given:
        if name not in NAMES:
            raise unknown("collective in probe.algorithms", str(name), NAMES)
    worlds = probe.get("ranks")
    right = isinstance(worlds, list) and worlds and all(isinstance(p, int) and 2 <= p <= workers for p in worlds)
    if not right:
        raise InputError(f"probe.ranks={worlds}: must be a list of numbers from 2 to workers={workers}")
    for name in ("repeat", "runs"):
        whole(probe, name)
    sizes(probe, "sizes", least=2)
    number(probe, "density")
    for n in sizes(probe, "bytes"):
        selected(n, probe["density"])


def selected(nbytes: int, density: float) -> int:
    """k for a gradient of so many bytes; InputError where it is 0 or more than there is."""
    elements = nbytes // FLOAT32
    k = round(density * elements)
    if not 1 <= k <= elements:
        raise InputError(
            f"probe.density={density}: selects {k} of {elements} gradients ({nbytes} bytes); must be at most 1 and "
            f"select at least one, {1 / elements:.3g} or more"
        )
    return k


def run(fabric: Fabric, config: dict[str, Any], folder: Path) -> None:
    """One rank's part. Where it has none it waits in `exchange`, which leaves its core to the others."""
    probe, simulated = config["probe"], config["testbed"]["kind"] == "simulated"
    device = torch.device("meta") if simulated else pick_device(config, fabric.rank)
    worlds = {p: fabric if p == fabric.size else fabric.subgroup(range(p)) for p in sorted(set(probe["ranks"]))}
    places = list(product(worlds, probe["bytes"]))
    probes.start(fabric, len(places))
    network = measured_network(fabric, config)
    rows = []
    for done, (p, nbytes) in enumerate(places, 1):
        if group := worlds[p]:
            rows += measure(group, probe, nbytes, device, network)
        fabric.exchange(None)
        probes.progress(fabric, done)
    result = {"network": network, "rows": rows}
    metrics = {f"seconds/{row['algorithm']}/{row['ranks']}/{row['bytes']}": row["seconds"]["median"] for row in rows}
    probes.finish(fabric, config, folder, facts(fabric, None, 0, None), result, metrics, line(rows))


def measured_network(fabric: Fabric, config: dict[str, Any]) -> dict[str, Any]:
    """alpha and beta for the formulas: the virtual testbed's own, else fitted to a ping-pong between ranks 0 and 1."""
    testbed, probe = config["testbed"], config["probe"]
    if testbed["kind"] == "simulated":
        return {name: testbed[name] for name in ("alpha_s", "beta_s_per_byte")}
    points = _ping_pong.measure(fabric, probe["sizes"], probe["runs"])
    return _ping_pong.fit(points) | {"points": points}


def measure(
    group: Fabric, probe: dict[str, Any], nbytes: int, device: torch.device, network: dict[str, Any]
) -> list[dict[str, Any]]:
    """A row for each algorithm; every rank of `group` calls it and gets the same."""
    k, p = selected(nbytes, probe["density"]), group.size
    works = dict(collectives(group, probe["algorithms"], nbytes // FLOAT32, k, device))
    simulated = device.type == "meta"
    taken: dict[str, list[float]] = {name: [] for name in works}
    sent: dict[str, int] = {}

    def counted(name: str) -> None:
        before = group.bytes_sent
        works[name]()
        sent[name] = group.bytes_sent - before

    for turn in range(1 if simulated else probe["repeat"] + 1):
        for name in works:
            seconds = slowest(group, lambda name=name: counted(name))
            if turn or simulated:  # the first touches fresh pages
                taken[name].append(seconds)
    means = {name: statistics.fmean(group.exchange(count)) for name, count in sent.items()}
    return [
        {
            "algorithm": name,
            "ranks": p,
            "bytes": nbytes,
            "density": probe["density"],
            "k": k,
            "seconds": {"median": statistics.median(times), "min": min(times), "max": max(times)},
            "closed_form_s": sparse_collective(
                name, p, nbytes, k, network["alpha_s"], network["beta_s_per_byte"]
            ),
            "wire_bytes": nbytes if name == "dense" else Wire(k).bytes,
            "sent_bytes": means[name],
        }
        for name, times in taken.items()
    ]  # fmt: skip


def collectives(
    group: Fabric, names: list[str], elements: int, k: int, device: torch.device
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """(name, call) of each; the gradients are normal draws, another of each rank."""
    vector = torch.zeros(elements, device=device)
    if device.type != "meta":
        vector.normal_(generator=torch.Generator(device).manual_seed(1 + group.rank))
    mine, wire = select(vector, k), Wire(k)
    known: dict[str, Callable[[], Any]] = {
        "dense": lambda: group.allreduce(vector, algorithm="ring"),
        "topk": lambda: topk_allgather(group, wire.pack(mine), wire),
        "topk_ring": lambda: topk_allgather(group, wire.pack(mine), wire, algorithm="ring"),
        "gtopk": lambda: gtopk_allreduce(group, mine, wire),
    }
    for name in names:
        yield name, known[name]


def line(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    ratios = sorted(row["seconds"]["median"] / row["closed_form_s"] for row in rows)
    return f"{len(rows)} collectives, {ratios[0]:.3g} to {ratios[-1]:.3g} times Table I's formulas"
