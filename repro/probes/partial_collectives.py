"""Program `partial_collectives`: latency and active processes of solo and majority allreduce (eager-SGD, Figure 9)."""

from __future__ import annotations

import statistics
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field

from repro import probes
from repro.core.errors import InputError
from repro.core.fields import Count, Model, NonNegative, Text
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.fabric.real.gpus import pick_device
from repro.probes.shared import skewed
from repro.probes.shared.options import Bytes, Worlds, facts, needs_worlds


class Options(Model):
    """Each collective on vectors of each size, in each world; the paper does not say how far apart ranks come."""

    # allreduce (the fabric's own), recursive_doubling, solo, majority, "quorum Q"
    collectives: Annotated[list[Text], Field(min_length=1)]
    ranks: Worlds  # each of the first so many workers; the others wait
    bytes: Annotated[list[Bytes], Field(min_length=1)]
    step_s: NonNegative  # rank i comes i x step_s after the first
    calls: Count  # of each, after one that does not count


def check(config: RunConfig) -> None:
    """InputError for worlds that the workers do not make, and for a rank so late that others would give it up."""
    probe = config.probe
    needs_worlds(config)
    for name in probe.collectives:
        skewed.initiator(name, max(probe.ranks))
    if probe.step_s * (latest := max(probe.ranks) - 1) > config.timeout_s:
        raise InputError(
            f"probe.step_s={probe.step_s:g}: the last of {latest + 1} ranks would come {probe.step_s * latest:g} s "
            f"late, after timeout_s={config.timeout_s:g}; must be at most {config.timeout_s / latest:.3g}"
        )


def run(fabric: Fabric, config: RunConfig, folder: Path) -> None:
    """One rank's part. Where it has none it waits in `exchange`, which leaves its core to the others."""
    probe = config.probe
    device = torch.device("meta") if config.timing_only else pick_device(config.device, fabric.rank)
    worlds = {p: fabric if p == fabric.size else fabric.subgroup(range(p)) for p in sorted(set(probe.ranks))}
    places = [
        (p, nbytes, name)
        for p, nbytes, name in product(worlds, probe.bytes, probe.collectives)
        if (skewed.initiator(name, max(worlds))[1] or 1) <= p  # the world has as many ranks as the quorum
    ]
    probes.start(fabric, len(places))
    rows = []
    for done, (p, nbytes, name) in enumerate(places, 1):
        if group := worlds[p]:
            how = probe.step_s, probe.calls, device, config.seed
            rows.append(skewed.measure(group, name, nbytes, *how))
        fabric.exchange(None)
        probes.progress(fabric, done)
    for p, group in worlds.items():
        if group and p != fabric.size:
            group.close()
    found = {"rows": rows, "ratios": ratios(rows)}
    metrics = {f"latency_s/{row['collective']}/{row['ranks']}/{row['bytes']}": row["latency_s"]["mean"] for row in rows}
    metrics |= {f"nap/{row['collective']}/{row['ranks']}/{row['bytes']}": row["nap"] for row in rows}
    probes.finish(fabric, config, folder, facts(fabric, None, 0, None), found, metrics, line(found["ratios"]))


def ratios(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each world and partial collective: latency of the fabric's own allreduce over its own, mean over the sizes."""
    latency = {(row["ranks"], row["bytes"], row["collective"]): row["latency_s"]["mean"] for row in rows}
    found: dict[tuple[int, str], list[float]] = {}
    for (p, nbytes, name), seconds in latency.items():
        if name != skewed.ALLREDUCE and (p, nbytes, skewed.ALLREDUCE) in latency:
            found.setdefault((p, name), []).append(latency[p, nbytes, skewed.ALLREDUCE] / seconds)
    return [
        {"ranks": p, "collective": name, "mean": statistics.fmean(all_), "min": min(all_), "max": max(all_)}
        for (p, name), all_ in found.items()
    ]


def line(found: list[dict[str, Any]]) -> str:
    most = max((row["ranks"] for row in found), default=0)
    parts = [f"{row['collective']} {row['mean']:.3g} x" for row in found if row["ranks"] == most]
    return f"{most} ranks, latency of allreduce over: {', '.join(parts)}" if parts else ""
