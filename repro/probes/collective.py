"""Program `collective`: seconds of collectives on the fabric in use, in turns, beside their closed forms."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field

from repro import probes
from repro.algorithms.timing.collective_forms import FLOAT32
from repro.core.errors import InputError, unknown
from repro.core.fields import Count, Model, NonNegative, Share, Text
from repro.experiment import limits
from repro.experiment.schema import RunConfig
from repro.experiment.testbeds import Modelled
from repro.fabric.base import Fabric
from repro.fabric.codecs import codec as find_codec
from repro.fabric.collectives.compressed import RINGS
from repro.fabric.costs import Costs
from repro.fabric.real.gpus import pick_device
from repro.fabric.sparse.gradients import CODECS
from repro.probes.shared import collectives
from repro.probes.shared.collectives import BLOCKING, NAMES, SPARSE, Call
from repro.probes.shared.options import Bytes
from repro.probes.shared.stopwatch import meet, spread, synchronize

DENSITY = 0.001


class Options(Model):
    """Each collective on a float32 vector of each size a rank; a codec is timed whole: compress, reduce, decompress."""

    names: Annotated[list[Text], Field(min_length=1)]
    bytes: Annotated[list[Bytes], Field(min_length=1)]
    codec: Text = "none"  # inside each hop of a ring; of the values of topk and gtopk
    pieces: Annotated[int, Field(ge=1, le=limits.PIECES)] | None = None  # of a block, in ring_pipelined
    density: Share | None = None  # of the elements that topk and gtopk select; null: 0.001
    repeat: Count = 5  # of each in turns, more of short ones; in virtual time all are equal
    # of the closed form, in the place of a modelled testbed's; null on a real network: no closed form
    alpha_s: NonNegative | None = None
    beta_s_per_byte: NonNegative | None = None
    gamma_s_per_byte: NonNegative = 0.0


def check(config: RunConfig) -> None:
    """InputError for a collective that is not there or does not go with the other options."""
    probe, where = config.probe, config.testbed.launcher
    find_codec(probe.codec)
    for name in probe.names:
        if name not in NAMES:
            raise unknown("collective in probe.names", name, NAMES)
        if probe.codec != "none" and name not in (*RINGS, *(SPARSE if probe.codec in CODECS else ())):
            allowed = ", ".join([*RINGS, *SPARSE])
            raise InputError(f"probe.codec={probe.codec}: '{name}' cannot use it; must be none, or the names {allowed}")
        if probe.pieces is not None and name != "ring_pipelined":
            raise InputError(f"probe.pieces={probe.pieces}: only ring_pipelined has pieces, not '{name}'")
        if probe.density is not None and name not in SPARSE:
            raise InputError(f"probe.density={probe.density:g}: only {', '.join(SPARSE)} have one, not '{name}'")
        if name == "server" and config.workers < 2:
            raise InputError("workers=1: collective 'server' needs 2 or more: a server and a client")
        if name == BLOCKING and where not in ("mpirun", "virtual"):
            raise InputError(f"probe.names: '{name}' is a call of MPI's; testbed.launcher={where} must be mpirun")
        if name in SPARSE and config.device == "cuda":
            raise InputError(f"device=cuda: '{name}' is timed in host memory alone; device=cpu")
    for nbytes in probe.bytes:
        if nbytes % FLOAT32:
            raise InputError(f"probe.bytes={nbytes}: must be a multiple of {FLOAT32} (float32)")
        if {*SPARSE} & {*probe.names} and (selected := (probe.density or DENSITY) * nbytes / FLOAT32) < 0.5:
            raise InputError(
                f"probe.density={probe.density or DENSITY:g}: selects {selected:.2g} of {nbytes} bytes' elements, not 1"
            )


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    """One rank's part."""
    probe = config.probe
    sparse = {*SPARSE} & {*probe.names}
    device = torch.device("cpu") if sparse else pick_device(config.device, fabric.rank)
    if config.simulated:
        device = torch.device("meta")
    probes.start(fabric, len(probe.bytes))
    rows: list[dict[str, Any]] = []
    for done, nbytes in enumerate(probe.bytes, 1):
        calls = [called(probe, name, nbytes // FLOAT32) for name in probe.names]
        if config.simulated:  # a message is its size there: results are checked on short vectors
            for call in calls:
                small = call._replace(elements=min(call.elements, 4 * fabric.size + 1))
                list(timed(fabric, [small], torch.device("cpu"), 1))
        times = list(timed(fabric, calls, device, turns(config, nbytes)))
        rows += [row(fabric, config, call, device, spread(column)) for call, column in zip(calls, zip(*times))]
        probes.progress(fabric, done)
    metrics = {f"seconds/{row['name']}/{row['bytes']}": row["seconds"]["median"] for row in rows}
    return probes.Finding({"rows": rows}, metrics, line(rows))


def called(probe: Options, name: str, elements: int) -> Call:
    given = {} if probe.pieces is None else {"pieces": probe.pieces}
    return Call(name, elements, probe.codec, density=probe.density or DENSITY, **given)


def turns(config: RunConfig, nbytes: int) -> int:
    """More of short ones, which a busy machine disturbs most."""
    return 1 if config.simulated else max(config.probe.repeat, min(4 * config.probe.repeat, 40_000_000 // nbytes))


def timed(fabric: Fabric, calls: list[Call], device: torch.device, count: int) -> Iterator[list[float]]:
    """The slowest rank's seconds of each call, of so many turns after one that does not count; results are checked."""
    bound = [collectives.bind(fabric, call) for call in calls]
    meta = device.type == "meta"
    checks = [None if meta else collectives.checker(fabric, call) for call in calls]
    mine = [
        torch.empty(call.elements, device=device)
        if meta
        else collectives.pattern(fabric.rank, call.elements).to(device)
        for call in calls
    ]
    vectors = [torch.empty_like(vector) for vector in mine]
    for turn in range(count + 1):
        taken = [0.0] * len(calls)
        for index in sorted(range(len(calls)), reverse=bool(turn % 2)):
            vectors[index].copy_(mine[index])
            meet(fabric)
            synchronize(device)  # NCCL's barrier has only been begun when it returns
            began = fabric.now()
            result = bound[index](vectors[index])
            synchronize(device)
            taken[index] = max(fabric.exchange(fabric.now() - began))
            if (check := checks[index]) is not None:
                check(result)
        if turn:
            yield taken


def row(
    fabric: Fabric, config: RunConfig, call: Call, device: torch.device, seconds: dict[str, float]
) -> dict[str, Any]:
    probe, testbed, costs = config.probe, config.testbed, fabric.costs
    alpha, beta = probe.alpha_s, probe.beta_s_per_byte
    if isinstance(testbed, Modelled):
        alpha, beta = testbed.alpha_s, testbed.beta_s_per_byte
    if not costs.known:
        costs = Costs(True, {"reduce": probe.gamma_s_per_byte}, {})
    form: float | None = None
    note: str | None = "a closed form needs probe.alpha_s and probe.beta_s_per_byte"
    if alpha is not None and beta is not None:
        form, note = collectives.closed_form(call, fabric.size, alpha, beta, costs, fabric.name)
    return {
        "name": call.name,
        "ranks": fabric.size,
        "bytes": FLOAT32 * call.elements,
        "device": "cuda" if device.type == "cuda" else "cpu",
        "codec": call.codec,
        "pieces": call.pieces if call.name == "ring_pipelined" else None,
        "density": call.density if call.name in SPARSE else None,
        "seconds": seconds,
        "closed_form_s": form,
        "note": note,
    }


def line(rows: list[dict[str, Any]]) -> str:
    shown = []
    for one in rows:
        form = one["closed_form_s"]
        over = f" ({one['seconds']['median'] / form:.6g} x the closed form)" if form else ""
        shown.append(f"{one['name']}, {one['bytes']} bytes: {one['seconds']['median']:.6g} s{over}")
    return "; ".join(shown)
