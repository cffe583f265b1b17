"""`repro bench collective`: one collective's seconds on a fabric, beside its closed form."""

from __future__ import annotations

import statistics
from typing import Any

from repro.algorithms.timing import collective_forms
from repro.bench import sparse_calls
from repro.bench.sparse_calls import Sparsity
from repro.core.errors import InputError, unknown
from repro.experiment import limits
from repro.fabric.costs import Costs
from repro.records.kinds import MEASURED, SIMULATED

# The virtual network where none is given: round numbers, about 8 Gbit/s.
ALPHA, BETA, GAMMA = 1e-4, 1e-9, 1e-10
FABRICS = ("virtual", "mpi", "torch")
DEVICES = ("cpu", "cuda")


def bench_collective(
    name: str,
    ranks: int,
    nbytes: int,
    fabric: str,
    codec: str = "none",
    repeat: int = 5,
    alpha: float | None = None,
    beta: float | None = None,
    gamma: float | None = None,
    pieces: int | None = None,
    density: float | None = None,
    allgather: str | None = None,
    device: str = "cpu",
) -> dict[str, Any]:
    """{name, ranks, bytes, fabric, device, kind, codec, pieces, density, allgather, alpha, beta, gamma,
    seconds {median, min, max, all}, closed_form, note}

    bytes: of the float32 vector on each rank. alpha, beta, gamma: seconds, seconds a byte, seconds a byte summed; what
    is not given is a round number on the virtual fabric, and None on real ones, whose closed_form is then None too.
    pieces: of a block in the collective "ring_pipelined" (None elsewhere, or for its default). density, allgather: of
    "topk" and "gtopk" (`sparse_calls`). device: of the vectors, cpu or cuda (by NCCL over torch).
    Codecs are timed whole (compress, reduce, decompress); the virtual fabric charges them no time of their own here.
    InputError for what cannot be run; FaultError where the collective's result is wrong.
    """
    _check(name, ranks, nbytes, fabric, codec, repeat, alpha, beta, gamma, pieces)
    _check_device(name, ranks, fabric, device)
    sparsity = sparse_calls.sparsity(name, nbytes // 4, density, allgather, codec)
    cut = pieces or collective_forms.PIECES  # only the pipelined ring looks at it
    if fabric == "virtual":
        alpha, beta, gamma = (d if v is None else v for v, d in ((alpha, ALPHA), (beta, BETA), (gamma, GAMMA)))
        times = [_simulate(name, ranks, nbytes // 4, codec, alpha, beta, gamma, cut, sparsity)]
    else:
        from repro.bench.ranks import run_jobs

        job: dict[str, Any] = {
            "name": name,
            "bytes": nbytes,
            "codec": codec,
            "repeat": repeat,
            "pieces": cut,
            "device": device,
        }
        job["sparsity"] = vars(sparsity)
        [times] = run_jobs(fabric, ranks, [job], device=device)
    form: float | None = None
    note: str | None = "closed form needs --alpha and --beta"
    if alpha is not None and beta is not None:
        form, note = _closed_form(name, ranks, nbytes, codec, alpha, beta, gamma or 0.0, fabric, cut, sparsity)
    return {
        "name": name,
        "ranks": ranks,
        "bytes": nbytes,
        "fabric": fabric,
        "device": device,
        "kind": SIMULATED if fabric == "virtual" else MEASURED,
        "codec": codec,
        "pieces": cut if name == "ring_pipelined" else None,
        "density": sparsity.density if name in sparse_calls.SPARSE else None,
        "allgather": sparsity.allgather if name == "topk" else None,
        "seconds": {"median": statistics.median(times), "min": min(times), "max": max(times), "all": times},
        "alpha": alpha,
        "beta": beta,
        "gamma": gamma,
        "closed_form": form,
        "note": note,
    }


def table(result: dict[str, Any]) -> str:
    """The result for people: seconds (median, min, max) beside the closed form."""
    seconds, form = result["seconds"], result["closed_form"]
    codec = f", codec {result['codec']}" if result["codec"] != "none" else ""
    pieces = f", {result['pieces']} pieces a block" if result["pieces"] else ""
    density = f", density {result['density']:g}" if result["density"] else ""
    if result["allgather"]:
        density += f", allgather {result['allgather']}"
    times = "1 run, exact" if result["fabric"] == "virtual" else f"{len(seconds['all'])} runs"
    on = " on GPUs" if result["device"] == "cuda" else ""
    lines = [
        f"{result['name']}, {result['ranks']} ranks, {result['bytes']} bytes, fabric {result['fabric']}{on} "
        f"({result['kind']}, {times}){codec}{pieces}{density}"
    ]
    network = [f"{key} {result[key]:g}" for key in ("alpha", "beta", "gamma") if result[key] is not None]
    if network:
        lines.append("  " + "  ".join(network) + "   (seconds; seconds a byte)")
    lines += [f"  {key:12}{seconds[key]:>14.6g} s" for key in ("median", "min", "max")]
    if form is not None:
        ratio = f"   measured / closed form {seconds['median'] / form:.6g}" if form else ""
        lines.append(f"  {'closed form':12}{form:>14.6g} s{ratio.replace('measured', result['kind'])}")
    if result["note"]:
        lines.append(f"  {result['note']}")
    return "\n".join(lines)


def _check(
    name: str,
    ranks: int,
    nbytes: int,
    fabric: str,
    codec: str,
    repeat: int,
    alpha: float | None,
    beta: float | None,
    gamma: float | None,
    pieces: int | None,
) -> None:
    from repro.bench.calls import NAMES, RINGS
    from repro.fabric.codecs import codec as find_codec

    if name not in NAMES:
        raise unknown("collective", name, NAMES)
    if fabric not in FABRICS:
        raise unknown("fabric", fabric, FABRICS)
    find_codec(codec)
    if codec != "none" and name not in (*RINGS, *sparse_calls.SPARSE):
        allowed = " or ".join(f"'{other}'" for other in (*RINGS, *sparse_calls.SPARSE))
        raise InputError(f"--codec {codec} needs the collective {allowed}, not '{name}', which compresses no hop")
    if pieces is not None and name != "ring_pipelined":
        raise InputError(f"--pieces {pieces}: only the collective 'ring_pipelined' has pieces, not '{name}'")
    if pieces is not None and pieces < 1:
        raise InputError(f"--pieces {pieces}: must be at least 1")
    limits.check("--pieces", pieces or 1, limits.PIECES)
    if ranks < 1 or (name == "server" and ranks < 2):
        least = "2: a server and a client" if name == "server" else "1"
        raise InputError(f"--ranks {ranks}: must be at least {least}")
    limits.check("--ranks", ranks, limits.RANKS)
    if nbytes < 4 or nbytes % 4:
        raise InputError(f"--bytes {nbytes}: must be a multiple of 4 (float32), and at least 4")
    if repeat < 1:
        raise InputError(f"--repeat {repeat}: must be at least 1")
    for option, value in (("alpha", alpha), ("beta", beta), ("gamma", gamma)):
        if value is not None and not 0 <= value < float("inf"):
            raise InputError(f"--{option} {value}: must be seconds, 0 or more")


def _check_device(name: str, ranks: int, fabric: str, device: str) -> None:
    if device not in DEVICES:
        raise unknown("device", device, DEVICES)
    if device == "cpu":
        return
    if fabric == "virtual":
        raise InputError("--device cuda: ranks of the fabric virtual have no GPU; must be --fabric torch or mpi")
    if name in sparse_calls.SPARSE:
        raise InputError(f"--device cuda: '{name}' is timed in host memory alone; leave it out")
    from repro.fabric.real.gpus import visible_gpus

    if not (gpus := visible_gpus(device)):
        raise InputError("--device cuda: torch sees no working GPU here; leave it out")
    if fabric == "torch" and ranks > len(gpus):
        raise InputError(
            f"--ranks {ranks}: NCCL needs a GPU for each, and there are {len(gpus)}; at most that, or --fabric mpi"
        )


def _costs(gamma: float) -> Costs:
    return Costs(True, {"reduce": gamma}, {"sync": 0.0})


def _simulate(
    name: str,
    ranks: int,
    elements: int,
    codec: str,
    alpha: float,
    beta: float,
    gamma: float,
    pieces: int,
    sparsity: Sparsity,
) -> float:
    """Virtual seconds until the last rank is done, without arithmetic; the result is checked on a short vector."""
    import torch

    from repro.bench.calls import call, checker, pattern
    from repro.fabric.virtual import fabric as virtual

    network, costs = virtual.Network(alpha, beta), _costs(gamma)
    short = min(elements, 4 * ranks + 1)

    def verify(fabric: virtual.VirtualFabric) -> None:
        result = call(name, fabric, short, codec, pieces, sparsity)(pattern(fabric.rank, short))
        checker(name, fabric, short, codec, sparsity)(result)

    def timed(fabric: virtual.VirtualFabric) -> float:
        call(name, fabric, elements, codec, pieces, sparsity)(torch.empty(elements, device="meta"))
        return fabric.now()

    virtual.run(ranks, verify, network, costs)
    return max(virtual.run(ranks, timed, network, costs))


def _closed_form(
    name: str,
    ranks: int,
    nbytes: int,
    codec: str,
    alpha: float,
    beta: float,
    gamma: float,
    fabric: str,
    pieces: int,
    sparsity: Sparsity,
) -> tuple[float, str | None]:
    """(seconds, a word of caution or None)."""
    if name in sparse_calls.NAMES:
        return sparse_calls.closed_form(name, ranks, nbytes, codec, alpha, beta, gamma, sparsity)
    if codec != "none":
        from repro.fabric.codecs import codec as find_codec

        known = (ranks, nbytes, alpha, beta, _costs(gamma), find_codec(codec))
        if name == "ring_pipelined":
            seconds = collective_forms.ring_pipelined_encoded(*known, pieces)
        else:
            seconds = collective_forms.ring_encoded(*known)
        return seconds, f"compressing is free in the closed form; {codec} shows in its bytes only"
    if name == "ring_pipelined":
        return collective_forms.ring_pipelined(ranks, nbytes, alpha, beta, gamma, pieces=pieces), None
    seconds = collective_forms.collective(name, ranks, nbytes, alpha, beta, gamma)
    if name in ("native", "auto") and fabric != "virtual":
        what = f"what {fabric} does natively depends on size and version"
        return seconds, f"the closed form is that of a ring; {what}"
    if name == "recursive_doubling" and ranks & (ranks - 1) and not alpha and not gamma:
        return seconds, "without alpha and gamma messages come in at the same moment: the closed form is a lower bound"
    if name == "sharded_server" and nbytes < 4 * ranks:
        return seconds, "fewer elements than ranks: the closed form is a bound from above"
    return seconds, None
