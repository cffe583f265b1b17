"""The entries of `testbed`: where a run's ranks are, and what their work and messages cost where both are modelled."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    field_validator,
)

from repro.core.errors import InputError, unknown
from repro.core.fields import Count, Entries, Model, NonNegative, Positive, Text, checked
from repro.experiment import limits
from repro.experiment.inputs import Inputs

Seconds = dict[str, NonNegative]  # a byte, by codec or way to select
# a kind of work (`repro.fabric.costs`) -> the entry that says what it takes a byte
WORK = {
    "reduce": "gamma_s_per_byte",
    "update": "update_s_per_byte",
    "merge": "merge_s_per_byte",
    "sum": "sum_s_per_byte",
    "exchange": "exchange_s_per_byte",
}
NAMED_WORK = ("encode", "decode", "select")  # KIND/NAME, whatever the name: `KIND_s_per_byte.NAME`


def entry_of(kind: str) -> str | None:
    """The entry of a testbed for a kind of work: `encode_s_per_byte.powersgd_r2`; None: there is none."""
    first, _, name = kind.partition("/")
    return f"{first}_s_per_byte.{name}" if name and first in NAMED_WORK else WORK.get(kind)


def _numbers(value: Any) -> Any:
    """Keys that are whole numbers in text, as in a record, as numbers."""
    return (
        {int(key) if str(key).isdecimal() else key: of for key, of in value.items()}
        if isinstance(value, dict)
        else value
    )


Congestion = Annotated[dict[Annotated[int, Field(ge=2)], Annotated[float, Field(ge=1)]], BeforeValidator(_numbers)]


class Computing(Model):
    """What computes; entries of the other way to say how fast stay in its record, and do not count."""

    model_config = ConfigDict(extra="allow")
    part = "testbed.device"

    name: Text = "device"
    recurrent_slowdown: Positive = 1.0  # how many times as long a FLOP of a recurrent layer takes as any other


class Rate(Computing):
    """By its rate of operations."""

    peak_flops: Positive
    utilisation: Positive
    launch_s: NonNegative  # of each block's passes


class Published(Computing):
    """By the published seconds of an iteration of so many samples, which count where a rate stands beside them."""

    iteration_s: Positive
    batch: Positive


def _by(value: Any) -> Rate | Published:
    """Which of them: InputError for an entry of neither, and for one that lacks."""
    if isinstance(value, Rate | Published):
        return value
    if not isinstance(value, dict):
        raise InputError(f"testbed.device={value}: must be entries, as testbed.device.NAME=value sets one")
    known = Rate.model_fields | Published.model_fields
    if wrong := [name for name in value if name not in known]:
        raise unknown("entry of testbed.device", str(wrong[0]), known)
    kind: type[Rate | Published] = Published if {"iteration_s", "batch"} & value.keys() else Rate
    if missing := [name for name, field in kind.model_fields.items() if field.is_required() and name not in value]:
        raise InputError(
            f"testbed.device lacks {' and '.join(missing)}: must have peak_flops, utilisation and launch_s, or "
            "iteration_s and batch"
        )
    return checked(kind, value, "testbed.device")


AS_GIVEN = PlainSerializer(lambda part: part.model_dump(exclude_unset=True))  # a record is no longer than its file
Device = Annotated[Rate | Published, PlainValidator(_by), AS_GIVEN]


class Ranks(Model):
    """Where the ranks of a run are, real or virtual; `sources` says where the numbers come from.

    `kind`: of its numbers, where the run neither sleeps its computation nor is padded (`repro.records.kinds`).
    """

    part = "testbed"
    example: ClassVar[str]  # a testbed of this kind

    name: Text
    launcher: Text
    ranks: Annotated[int, Field(ge=1, le=limits.RANKS)] | None = None  # null: as many as the strategy needs
    threads_per_rank: Annotated[int, Field(ge=1, le=limits.THREADS)] = 1
    backend: Text = "auto"  # of torch.distributed
    sources: Entries = Field(default_factory=dict)

    @property
    def time_factor(self) -> float:
        """Seconds on the wall of one on the clock of real ranks."""
        return 1.0

    @property
    def limited(self) -> bool:
        """Whether the ranks are in a network of namespaces with limited links."""
        return False


class Measured(Ranks):
    """Real ranks, on this machine or a cluster; with `rate_gbit` in a network of namespaces with limited links."""

    example = "here"

    kind: Literal["measured"]
    network: Text
    fabric: Text | None = None  # that srun starts; auto: `Launcher.settled` has put another in its place
    # ranks 0 .. gpu_ranks - 1 compute on a GPU where the run does, those behind them on the CPU; null: all on a GPU
    gpu_ranks: Annotated[int, Field(ge=0, le=limits.RANKS)] | None = None
    rate_gbit: Positive | None = None
    hosts: Count | None = None  # with rate_gbit; null: one a rank

    @property
    def limited(self) -> bool:
        return self.rate_gbit is not None


class Modelled(Ranks):
    """Ranks whose computation is known in seconds, on a network that is known by its constants."""

    alpha_s: NonNegative
    beta_s_per_byte: NonNegative
    gamma_s_per_byte: NonNegative
    update_s_per_byte: NonNegative
    sync_s: NonNegative
    inputs: Inputs = Field(default_factory=dict)  # what is assumed of it, as distributions
    encode_s_per_byte: Seconds
    decode_s_per_byte: Seconds
    device: Device
    network: Text = "modelled"
    arithmetic: Literal["real", "none"] = "real"  # none: timing alone, on meta tensors
    hosts: Count | None = None  # on which the ranks are in turn; null: one a rank
    local_alpha_s: NonNegative = 0.0  # between ranks of one host
    local_beta_s_per_byte: NonNegative = 0.0
    fair: bool = False  # messages under way share a link; else one goes after the other
    # standard deviation of the logarithm of what a connection gets of a full link, beside others; drawn from the seed
    share_spread: NonNegative = 0.0
    short_bytes: Count | None = None  # messages of at most so many need no share of it
    startup_s: NonNegative = 0.0  # of a pull of parameters, before its messages (iBatch's T_s)
    # null: a pull has one startup; else one of each server, and so many threads which ask them
    pull_threads: Count | None = None
    select_s_per_byte: Seconds = Field(default_factory=dict)
    merge_s_per_byte: NonNegative = 0.0  # of both messages, of which the largest are kept (gTop-k)
    sum_s_per_byte: NonNegative | None = None  # of all messages that are added up (Top-k); null: as merging
    exchange_s_per_byte: NonNegative = 0.0  # of a gradient whose largest are exchanged, besides selection and messages
    # messages under way at once -> how many times as long a byte takes then; of links that are not fair
    congestion: Congestion = Field(default_factory=dict)

    @field_validator("congestion")
    @classmethod
    def _of_links(cls, congestion: dict[int, float], others: ValidationInfo) -> dict[int, float]:
        if congestion and others.data.get("fair"):
            raise ValueError("needs testbed.fair=false, whose links are shared instead")
        return congestion

    @field_validator("share_spread")
    @classmethod
    def _of_shares(cls, spread: float, others: ValidationInfo) -> float:
        if spread and not others.data.get("fair"):
            raise ValueError("needs testbed.fair=true, without which nothing is shared")
        return spread


class Simulated(Modelled):
    """Virtual ranks in one process."""

    example = "virtual"

    kind: Literal["simulated"]


class Emulated(Modelled):
    """Real ranks and real messages on a shaped network, with everything slowed down; computation is slept.

    slow_down  the links' rate is divided by it
    shrink     messages are so many times shorter, and time is slowed down by as much less
    send_buffer  bytes that a connection keeps of what is not on the link yet; null: as many as the kernel finds good
    """

    example = "emulated/pipesgd-alexnet"

    kind: Literal["emulated"]
    arithmetic: Literal["none"] = "none"
    fair: bool = Field(default=False, exclude=True)  # as the simulated twin has it; real connections share as they do
    share_spread: NonNegative = Field(default=0.0, exclude=True)
    slow_down: Annotated[float, Field(ge=1)]
    shrink: Annotated[float, Field(ge=1)] = 1.0
    send_buffer: Annotated[int, Field(ge=4096)] | None = None
    congestion: Congestion = Field(default_factory=dict, max_length=0)  # real links have none

    @property
    def limited(self) -> bool:
        return True

    @property
    def time_factor(self) -> float:
        return self.slow_down / self.shrink


AnyTestbed = Measured | Emulated | Simulated
KINDS = {get_args(each.model_fields["kind"].annotation)[0]: each for each in get_args(AnyTestbed)}


def testbed_of(value: Any) -> AnyTestbed:
    """A testbed from plain data; InputError for the first entry that cannot be."""
    if isinstance(value, AnyTestbed):
        return value
    if not isinstance(value, dict):
        raise InputError(f"testbed={value}: must be entries, as testbed.NAME=value sets one")
    if (kind := str(value.get("kind"))) not in KINDS:
        raise unknown("testbed.kind", kind, KINDS)
    made: AnyTestbed = checked(KINDS[kind], value, "testbed")
    return made


Testbed = Annotated[AnyTestbed, PlainValidator(testbed_of), AS_GIVEN]
