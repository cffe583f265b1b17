"""Results of the probes of messages and collectives."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from repro.records.probe_results.parts import Result, ResultPart, Spread


class OneWay(ResultPart):
    """One-way time (s), half of the round trip: mean and deviation over the runs, and the fitted line's."""

    bytes: int
    mean_s: float
    deviation_s: float
    runs: int
    fitted_s: float


class Line(ResultPart):
    alpha_s: float
    beta_s_per_byte: float
    relative_error: float


class P2p(Result, program="p2p"):
    points: list[OneWay]
    fit: Line


class SizeRates(ResultPart):
    """spread: standard deviation of the logarithms of the mean rates of messages to one rank, relative to the mean of
    that rank and run. first_s, last_s: arrival of the first and of the last of all messages, medians over the runs."""

    bytes: int
    runs: int
    spread: float
    first_s: float
    last_s: float


class Shares(Result, program="shares"):
    points: list[SizeRates]


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


class Collective(Result, program="collective"):
    rows: list[CollectiveTime]


class Interval(ResultPart):
    """An activity of a rank (s, from the first interval's start)."""

    rank: int
    line: str
    name: str
    start: float
    end: float


class VariantTurn(ResultPart):
    """The median turn of a variant (s), means over ranks; seconds: of the slowest rank; moving_alone_s: its messages
    without any work."""

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


class Overhead(ResultPart):
    """A codec's work in an allreduce (s), the communication alone with and without compression, and the ratios."""

    benchmark: str
    bytes: int
    codec: str
    work_s: float
    communication_uncompressed_s: float
    communication_compressed_s: float
    per_uncompressed: float
    per_compressed: float


class Ring(Result, program="ring"):
    variants: list[VariantTurn]
    overheads: list[Overhead]


class Network(ResultPart):
    """Parameters of the formulas: a testbed's own, or fitted to a ping-pong."""

    alpha_s: float
    beta_s_per_byte: float
    relative_error: float | None = None
    points: list[OneWay] = Field(default_factory=list)


class SparseExchange(ResultPart):
    """An algorithm's exchange; bytes: of the gradient; k: elements selected by a rank; wire_bytes: of a message;
    sent_bytes: per rank, the mean."""

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
    rows: list[SparseExchange]


class Latency(ResultPart):
    """Statistics over calls of the mean over ranks (s)."""

    mean: float
    min: float
    max: float


class CollectiveCall(ResultPart):
    """nap: mean number of active processes of a call; waiting_form_s, nap_form: closed forms from the skew alone."""

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


class Ratio(ResultPart):
    """Latency of the fabric's own allreduce divided by that of a collective; statistics over the sizes."""

    ranks: int
    collective: str
    mean: float
    min: float
    max: float


class PartialCollectives(Result, program="partial_collectives"):
    rows: list[CollectiveCall]
    ratios: list[Ratio]


class ExchangeVariant(ResultPart):
    """One side of the comparison: times of the slowest rank, but CPU time of all ranks together.

    bound_s: Table I's 2 alpha log2 P + 16 k beta log2 P, if beta is known.
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
    """alpha_s: half the round trip of a short message."""

    alpha_s: float
    rows: list[ExchangeVariant]
