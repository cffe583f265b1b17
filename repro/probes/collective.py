"""Program `collective`: seconds of collectives on the fabric, in turns, beside their closed forms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field

from repro import probes
from repro.algorithms.timing.collective_forms import FLOAT32
from repro.core.errors import InputError, unknown_name
from repro.core.fields import Count, Model, NonNegative, Share, Text
from repro.experiment import limits
from repro.experiment.schema import RunConfig
from repro.experiment.testbeds import Modelled
from repro.fabric.base import Fabric
from repro.fabric.codecs import make_codec as find_codec
from repro.fabric.collectives.compressed import RINGS
from repro.fabric.costs import Costs
from repro.fabric.real.gpus import pick_device
from repro.fabric.sparse.gradients import CODECS
from repro.probes import ResultPart
from repro.probes.shared import collectives
from repro.probes.shared.collectives import BLOCKING, NAMES, SPARSE, Call
from repro.probes.shared.driver import run_in_turns
from repro.probes.shared.options import Bytes
from repro.probes.shared.stopwatch import Spread, start_together, synchronize_device, time_spread

DENSITY = 0.001


class Options(Model):
    """Collectives on float32 vectors; a call with a codec is timed from compression to decompression."""

    names: Annotated[list[Text], Field(min_length=1)]
    bytes: Annotated[list[Bytes], Field(min_length=1)]  # of a rank's vector
    codec: Text = "none"  # in each hop of a ring; for the values of topk and gtopk
    pieces: Annotated[int, Field(ge=1, le=limits.PIECES)] | None = None  # of a block, in ring_pipelined
    density: Share | None = None  # of the elements that topk and gtopk select; null: 0.001
    repeat: Count = 5  # turns, more for short vectors; virtual time takes one
    # of the closed form, if the testbed is not modelled; null: no closed form
    alpha_s: NonNegative | None = None
    beta_s_per_byte: NonNegative | None = None
    gamma_s_per_byte: NonNegative = 0.0


class CollectiveTime(ResultPart):
    """seconds: of the slowest rank; closed_form_s: None if the network is unknown; note: about the closed form."""

    name: str
    ranks: int
    bytes: int
    device: Literal["cpu", "cuda"]
    codec: str
    pieces: int | None
    density: float | None
    seconds: Spread
    closed_form_s: float | None
    note: str | None


class Result(ResultPart):
    rows: list[CollectiveTime]


def check(config: RunConfig) -> None:
    probe, launcher = config.probe, config.testbed.launcher
    find_codec(probe.codec)
    for name in probe.names:
        if name not in NAMES:
            raise unknown_name("collective in probe.names", name, NAMES)
        if probe.codec != "none" and name not in (*RINGS, *(SPARSE if probe.codec in CODECS else ())):
            allowed = ", ".join([*RINGS, *SPARSE])
            raise InputError(f"probe.codec={probe.codec}: '{name}' cannot use it; must be none, or the names {allowed}")
        if probe.pieces is not None and name != "ring_pipelined":
            raise InputError(f"probe.pieces={probe.pieces}: only ring_pipelined has pieces, not '{name}'")
        if probe.density is not None and name not in SPARSE:
            raise InputError(f"probe.density={probe.density:g}: only {', '.join(SPARSE)} have one, not '{name}'")
        if name == "server" and config.workers < 2:
            raise InputError("workers=1: collective 'server' needs 2 or more: a server and a client")
        if name == BLOCKING and launcher not in ("mpirun", "virtual"):
            raise InputError(f"probe.names: '{name}' is an MPI call; testbed.launcher={launcher} must be mpirun")
        if name in SPARSE and config.device == "cuda":
            raise InputError(f"device=cuda: '{name}' is timed in host memory only; device=cpu")
    for nbytes in probe.bytes:
        if nbytes % FLOAT32:
            raise InputError(f"probe.bytes={nbytes}: must be a multiple of {FLOAT32} (float32)")
        density = probe.density or DENSITY
        if {*SPARSE} & {*probe.names} and (selected := density * nbytes / FLOAT32) < 0.5:
            raise InputError(
                f"probe.density={density:g}: selects {selected:.2g} elements of {nbytes} bytes; must select 1 or more"
            )


def run(fabric: Fabric, config: RunConfig, folder: Path) -> probes.Finding:
    probe = config.probe
    sparse = {*SPARSE} & {*probe.names}
    device = torch.device("cpu") if sparse else pick_device(config.device, fabric.rank)
    if config.simulated:
        device = torch.device("meta")
    pieces = {} if probe.pieces is None else {"pieces": probe.pieces}
    probes.announce_iterations(len(probe.bytes), fabric.rank)
    rows: list[dict[str, Any]] = []
    for done, nbytes in enumerate(probe.bytes, 1):
        calls = [
            Call(name, nbytes // FLOAT32, probe.codec, density=probe.density or DENSITY, **pieces)
            for name in probe.names
        ]
        if config.simulated:  # messages have no contents: check results on short vectors
            for call in calls:
                short = call._replace(elements=min(call.elements, 4 * fabric.size + 1))
                time_calls(fabric, [short], torch.device("cpu"), 1)
        # more turns for short vectors, which other load disturbs most
        turns = 1 if config.simulated else max(probe.repeat, min(4 * probe.repeat, 40_000_000 // nbytes))
        times = time_calls(fabric, calls, device, turns)
        rows += [
            collective_row(fabric, config, call, device, time_spread(seconds)) for call, seconds in zip(calls, times)
        ]
        probes.report_progress(done, fabric.rank)
    metrics = {f"seconds/{row['name']}/{row['bytes']}": row["seconds"]["median"] for row in rows}
    return probes.Finding({"rows": rows}, metrics, summary_line(rows))


def time_calls(fabric: Fabric, calls: list[Call], device: torch.device, turns: int) -> list[list[float]]:
    """The slowest rank's seconds of each call in each turn; every result is checked."""

    def timed(call: Call) -> Callable[[], float]:
        function = collectives.bind_collective(fabric, call)
        check: Any = lambda result: None  # noqa: E731
        if device.type == "meta":
            inputs = torch.empty(call.elements, device=device)
        else:
            check = collectives.make_checker(fabric, call)
            inputs = collectives.rank_pattern(fabric.rank, call.elements).to(device)
        vector = torch.empty_like(inputs)

        def turn() -> float:
            vector.copy_(inputs)
            start_together(fabric)
            synchronize_device(device)  # NCCL's barrier returns before it is complete
            start = fabric.now()
            result = function(vector)
            synchronize_device(device)
            seconds = max(fabric.exchange(fabric.now() - start))
            check(result)
            return seconds

        return turn

    return list(run_in_turns(dict(enumerate(map(timed, calls))), turns, alternate=True).values())


def collective_row(
    fabric: Fabric, config: RunConfig, call: Call, device: torch.device, seconds: dict[str, float]
) -> dict[str, Any]:
    probe, testbed, costs = config.probe, config.testbed, fabric.costs
    network = testbed if isinstance(testbed, Modelled) else probe
    alpha, beta = network.alpha_s, network.beta_s_per_byte
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


def summary_line(rows: list[dict[str, Any]]) -> str:
    parts = []
    for row in rows:
        form, median = row["closed_form_s"], row["seconds"]["median"]
        ratio = f" ({median / form:.6g} x the closed form)" if form else ""
        parts.append(f"{row['name']}, {row['bytes']} bytes: {median:.6g} s{ratio}")
    return "; ".join(parts)
