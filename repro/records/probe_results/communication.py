"""What the probes of messages and collectives find."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from repro.records.probe_results.parts import Found, Result, Spread


class OneWay(Found):
    """Seconds of one way, half of the round trip: mean and deviation over the runs, and of the fitted line."""

    bytes: int
    mean_s: float
    deviation_s: float
    runs: int
    fitted_s: float


class Line(Found):
    alpha_s: float
    beta_s_per_byte: float
    relative_error: float


class P2p(Result, program="p2p"):
    points: list[OneWay]
    fit: Line


class Size(Found):
    """spread: standard deviation of the logarithms of the mean rates of the messages that come to one rank, around
    those of that rank and run. first_s, last_s: medians over the runs of when the first and the last of all messages
    is in."""

    bytes: int
    runs: int
    spread: float
    first_s: float
    last_s: float


class Shares(Result, program="shares"):
    points: list[Size]


class Timed(Found):
    """seconds: the slowest rank's; closed_form_s: None where the network is not known; note: on the closed form."""

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


class Collective(Result, program="collective"):
    rows: list[Timed]


class Interval(Found):
    """What a rank did (s, from the first interval's start)."""

    rank: int
    line: str
    name: str
    start: float
    end: float


class Turn(Found):
    """A variant's median turn (s): means over ranks, but `seconds` the slowest's. moving_alone_s: of its messages."""

    name: str
    algorithm: str
    codec: str
    bytes: int
    pieces: int
    seconds: Spread
    communication_s: float
    work_s: float
    overlapped_s: float
    moving_alone_s: float
    compress_s: float
    decompress_s: float
    closed_form_s: float | None
    trace: list[Interval]


class Overhead(Found):
    """A codec's work in an allreduce (s) against the communication alone, compressed or not, and over them."""

    benchmark: str
    bytes: int
    codec: str
    work_s: float
    communication_uncompressed_s: float
    communication_compressed_s: float
    per_uncompressed: float
    per_compressed: float


class Ring(Result, program="ring"):
    variants: list[Turn]
    overheads: list[Overhead]


class Network(Found):
    """What the formulas take: a testbed's own, or fitted to a ping-pong."""

    alpha_s: float
    beta_s_per_byte: float
    relative_error: float | None = None
    points: list[OneWay] = Field(default_factory=list)


class Exchanged(Found):
    """An algorithm: bytes of the gradient, k elements of a rank's selection; wire_bytes: of a message; sent_bytes: of
    a rank, the mean."""

    algorithm: str
    ranks: int
    bytes: int
    density: float
    k: int
    seconds: Spread
    closed_form_s: float
    wire_bytes: int
    sent_bytes: float


class SparseCollectives(Result, program="sparse_collectives"):
    network: Network
    rows: list[Exchanged]


class Latency(Found):
    """Seconds, the mean over the ranks; of the calls."""

    mean: float
    min: float
    max: float


class Called(Found):
    """nap: active processes of a call, the mean; waiting_form_s, nap_form: what follows from the skew alone."""

    collective: str
    ranks: int
    bytes: int
    step_s: float
    skew_s: float
    calls: int
    latency_s: Latency
    nap: float
    waiting_form_s: float
    nap_form: float


class Ratio(Found):
    """Latency of the fabric's own allreduce over that of a collective, over the sizes."""

    ranks: int
    collective: str
    mean: float
    min: float
    max: float


class PartialCollectives(Result, program="partial_collectives"):
    rows: list[Called]
    ratios: list[Ratio]


class Side(Found):
    """A side: seconds of the slowest rank, but CPU seconds of all ranks together.

    bound_s: Table I's, 2 alpha log2 P + 16 k beta log2 P, where beta is known.
    """

    side: str
    elements: int
    k: int
    select_s: Spread
    allreduce_s: Spread
    apply_s: Spread
    whole_s: Spread
    cpu_s: Spread
    bound_s: float | None


class GtopkExchange(Result, program="gtopk_exchange"):
    """alpha_s: of a short message, half a round trip."""

    alpha_s: float
    rows: list[Side]
