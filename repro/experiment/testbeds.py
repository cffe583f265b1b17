"""The configuration's part `testbed`: launcher and network of a run's ranks, and the costs of modelled ones."""

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
    model_validator,
)

from repro.core.errors import InputError, unknown_name
from repro.core.fields import Count, Entries, Model, NonNegative, Positive, Share, Text, check_fields
from repro.experiment import limits
from repro.experiment.inputs import Inputs

Seconds = dict[str, NonNegative]  # seconds a byte, by codec or selection
# kind of work (`repro.fabric.costs`) -> the entry with its seconds a byte
WORK = {
    "reduce": "gamma_s_per_byte",
    "update": "update_s_per_byte",
    "merge": "merge_s_per_byte",
    "sum": "sum_s_per_byte",
    "exchange": "exchange_s_per_byte",
}
NAMED_WORK = ("encode", "decode", "select")  # kinds KIND/NAME with the entry `KIND_s_per_byte.NAME`


def entry_of(kind: str) -> str | None:
    """The entry of a testbed for a kind of work, as `encode_s_per_byte.powersgd_r2`; None if it has none."""
    first, _, name = kind.partition("/")
    return f"{first}_s_per_byte.{name}" if name and first in NAMED_WORK else WORK.get(kind)


def _numbers(value: Any) -> Any:
    """A mapping with its keys as integers; in a JSON record they are texts."""
    if not isinstance(value, dict):
        return value
    return {int(key) if str(key).isdecimal() else key: factor for key, factor in value.items()}


Congestion = Annotated[dict[Annotated[int, Field(ge=2)], Annotated[float, Field(ge=1)]], BeforeValidator(_numbers)]


class Computing(Model):
    """A device. Entries of the other kind of device stay in its record, and do not count."""

    model_config = ConfigDict(extra="allow")
    part = "testbed.device"

    name: Text = "device"
    recurrent_slowdown: Positive = 1.0  # how many times as long a FLOP of a recurrent layer takes as any other


class Rate(Computing):
    """A device of a given rate of operations."""

    peak_flops: Positive
    utilisation: Share
    launch_s: NonNegative  # of each block's passes


class Published(Computing):
    """A device with a published time of an iteration of `batch` samples; it has priority over a rate."""

    iteration_s: Positive
    batch: Positive


def _by(value: Any) -> Rate | Published:
    """A device from plain data; InputError for an unknown or missing entry."""
    if isinstance(value, Rate | Published):
        return value
    if not isinstance(value, dict):
        raise InputError(f"testbed.device={value}: must be entries, as testbed.device.NAME=value sets one")
    known = Rate.model_fields | Published.model_fields
    if wrong := [name for name in value if name not in known]:
        raise unknown_name("entry of testbed.device", str(wrong[0]), known)
    kind: type[Rate | Published] = Published if {"iteration_s", "batch"} & value.keys() else Rate
    if missing := [name for name, field in kind.model_fields.items() if field.is_required() and name not in value]:
        must = "must have peak_flops, utilisation and launch_s, or iteration_s and batch"
        raise InputError(f"testbed.device lacks {' and '.join(missing)}: {must}")
    return check_fields(kind, value, "testbed.device")


AS_CONFIGURED = PlainSerializer(lambda part: part.model_dump(exclude_unset=True))  # without defaults, as in the file
Device = Annotated[Rate | Published, PlainValidator(_by), AS_CONFIGURED]


class Ranks(Model):
    """A testbed of real or virtual ranks. sources: entry -> origin of its number.

    kind: kind of its numbers, unless the run sleeps its computation or is padded (`repro.records.kinds`).
    """

    part = "testbed"
    example: ClassVar[str]  # name of a testbed of this kind

    name: Text
    launcher: Text
    ranks: Annotated[int, Field(ge=1, le=limits.RANKS)] | None = None  # null: as many as the strategy needs
    threads_per_rank: Annotated[int, Field(ge=1, le=limits.THREADS)] = 1
    backend: Text = "auto"  # of torch.distributed
    sources: Entries = Field(default_factory=dict)

    @property
    def limited(self) -> bool:
        """Whether the ranks run in network namespaces with limited links."""
        return False


class Measured(Ranks):
    """Real ranks on this machine or a cluster; with `rate_gbit` in network namespaces with limited links."""

    example = "here"

    kind: Literal["measured"]
    network: Text
    fabric: Text | None = None  # under srun; `Launcher.resolved` replaces auto
    # of a run on GPUs, ranks from gpu_ranks on compute on the CPU; null: all ranks compute on a GPU
    gpu_ranks: Annotated[int, Field(ge=0, le=limits.RANKS)] | None = None
    rate_gbit: Positive | None = None
    hosts: Count | None = None  # with rate_gbit; null: one for each rank

    @property
    def limited(self) -> bool:
        return self.rate_gbit is not None


class Modelled(Ranks):
    """Ranks with modelled computation times, on a network with modelled constants."""

    alpha_s: NonNegative
    beta_s_per_byte: NonNegative
    gamma_s_per_byte: NonNegative
    update_s_per_byte: NonNegative
    sync_s: NonNegative
    inputs: Inputs = Field(default_factory=dict)  # distributions of assumed entries
    encode_s_per_byte: Seconds
    decode_s_per_byte: Seconds
    device: Device
    network: Text = "modelled"
    arithmetic: Literal["real", "none"] = "real"  # none: timing only, on meta tensors
    hosts: Count | None = None  # ranks are distributed round robin; null: one host for each rank
    # hosts of each switch of a chain that is joined by links of a host's rate; null: one switch; for fair links
    switch_hosts: Count | None = None
    shuffled: bool = False  # hosts are along the chain in an order drawn from the seed, not in rank order
    local_alpha_s: NonNegative = 0.0  # between ranks of one host
    local_beta_s_per_byte: NonNegative = 0.0
    # concurrent messages share a link; else they are sent one after the other, and sources.fair says why
    fair: bool = False
    # standard deviation of the logarithm of a connection's share of a full link; drawn from the seed
    share_spread: NonNegative = 0.0
    short_bytes: Count | None = None  # messages of at most this size need no share of a link
    startup_s: NonNegative = 0.0  # of a pull of parameters, before its messages (iBatch's T_s)
    # null: a pull has one startup; else one for each server, by this number of threads
    pull_threads: Count | None = None
    select_s_per_byte: Seconds = Field(default_factory=dict)
    merge_s_per_byte: NonNegative = 0.0  # of two merged messages, whose largest values are kept (gTop-k)
    sum_s_per_byte: NonNegative | None = None  # of all summed messages (Top-k); null: as merge_s_per_byte
    exchange_s_per_byte: NonNegative = 0.0  # of a sparsified gradient, besides selection and messages
    # number of concurrent messages -> factor on the time of a byte; for links that are not fair
    congestion: Congestion = Field(default_factory=dict)
    # share of messages whose last packet is lost, drawn from the seed; they arrive resend_s later
    lost_messages: Annotated[float, Field(ge=0, lt=1)] = 0.0
    resend_s: NonNegative = 0.2  # the least time-out of Linux's TCP

    @field_validator("congestion")
    @classmethod
    def _of_links(cls, congestion: dict[int, float], others: ValidationInfo) -> dict[int, float]:
        if congestion and others.data.get("fair"):
            raise ValueError("needs testbed.fair=false: messages share fair links instead")
        return congestion

    @model_validator(mode="after")
    def _of_switches(self) -> Modelled:
        if self.switch_hosts and not self.fair:
            raise ValueError("switch_hosts needs testbed.fair=true: other links have no trunks")
        if self.shuffled and not self.switch_hosts:
            raise ValueError("shuffled needs testbed.switch_hosts: on one switch the order does not matter")
        return self

    @field_validator("share_spread")
    @classmethod
    def _of_shares(cls, spread: float, others: ValidationInfo) -> float:
        if spread and not others.data.get("fair"):
            raise ValueError("needs testbed.fair=true: messages do not share other links")
        return spread


class Simulated(Modelled):
    """Virtual ranks in one process."""

    example = "virtual"

    kind: Literal["simulated"]
    fair: bool = Field(default=False, validate_default=True)  # records rely on the default, so it stays

    @field_validator("fair")
    @classmethod
    def _says_why(cls, fair: bool, others: ValidationInfo) -> bool:
        """Links that serve one message after another need a reason: on them all-to-all pulls form convoys."""
        if not fair and "fair" not in others.data.get("sources", {}):
            raise ValueError("needs testbed.sources.fair, why messages do not share links; or testbed.fair=true")
        return fair


class Emulated(Modelled):
    """Real ranks and messages on a shaped network; computation is slept, and time is slowed down.

    slow_down    divisor of the links' rate
    shrink       divisor of the messages' size; time is slowed down by slow_down / shrink
    send_buffer  bytes of a connection's send buffer; null: the kernel's choice
    """

    example = "emulated/pipesgd-alexnet"

    kind: Literal["emulated"]
    arithmetic: Literal["none"] = "none"
    fair: bool = Field(default=False, exclude=True)  # only for the simulated twin, as the next three
    share_spread: NonNegative = Field(default=0.0, exclude=True)
    switch_hosts: Count | None = Field(default=None, exclude=True)
    shuffled: bool = Field(default=False, exclude=True)
    lost_messages: Annotated[float, Field(ge=0, lt=1)] = Field(default=0.0, exclude=True)
    resend_s: NonNegative = Field(default=0.2, exclude=True)
    slow_down: Annotated[float, Field(ge=1)]
    shrink: Annotated[float, Field(ge=1)] = 1.0
    send_buffer: Annotated[int, Field(ge=4096)] | None = None
    congestion: Congestion = Field(default_factory=dict, max_length=0)  # real links have none

    @property
    def limited(self) -> bool:
        return True


AnyTestbed = Measured | Emulated | Simulated
KINDS = {get_args(each.model_fields["kind"].annotation)[0]: each for each in get_args(AnyTestbed)}


def testbed_of(value: Any) -> AnyTestbed:
    """A testbed from plain data; InputError for the first invalid entry."""
    if isinstance(value, AnyTestbed):
        return value
    made: AnyTestbed = check_fields(kind_of(value), value, "testbed")
    return made


def kind_of(value: Any) -> type[AnyTestbed]:
    """The class of a testbed in plain data; InputError for an unknown kind."""
    if not isinstance(value, dict):
        raise InputError(f"testbed={value}: must be entries, as testbed.NAME=value sets one")
    if (kind := str(value.get("kind"))) not in KINDS:
        raise unknown_name("testbed.kind", kind, KINDS)
    return KINDS[kind]


Testbed = Annotated[AnyTestbed, PlainValidator(testbed_of), AS_CONFIGURED]
