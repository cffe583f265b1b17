"""The record of a finished run: its identity (`repro.records.identity`), result, hardware and provenance.

This is the schema of `summary.json`, and the source of the committed tables, of MLflow's values and of `repro results`.
Times are in seconds, per iteration unless the name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError, field_validator, model_validator

from repro.core.fields import error_line
from repro.core.phases import PHASES
from repro.core.registry import PROBES, TRAIN
from repro.records import kinds, variants
from repro.records.configured import Amount, Folder, Number, Parts, Whole
from repro.records.identity import Identity, Part
from repro.records.units import check_units

SCHEMA = 2

Numbers = dict[str, Number | None]


@dataclass(frozen=True)
class Content:
    """What an entry of a result holds.

    drawn     a draw of a sweep stores it; other entries are equal in all draws, or do not concern times
    table     of the reference, in which its entries are rows (`repro.records.tables`)
    """

    drawn: bool = True
    table: str = ""


NOT_DRAWN = Content(drawn=False)


class Data(Part):
    """The data that the run used."""

    model_config = ConfigDict(extra="allow")  # checksum, sizes, classes, augmentation

    name: str
    standin: bool
    like_real: bool = True  # a stand-in has the real data's sizes; records until November 2026 do not say it

    @property
    def more(self) -> dict[str, Any]:
        """All other entries."""
        return dict(self.model_extra or {})


class Memory(Part):
    """Peak memory of each rank over all attempts."""

    of: str  # gpu: allocated by torch; otherwise resident memory
    peak_bytes: Annotated[list[Amount], Field(min_length=1)]

    @property
    def peak_mb(self) -> float:
        """The largest peak of a rank, 10^6 bytes."""
        return 1e-6 * max(self.peak_bytes)


class Reached(Part):
    """The first evaluation that reaches a target."""

    train_s: Amount
    epoch: Amount | None = None
    iteration: Whole | None = None


class Step(Part):
    """Times of iterations on rank 0; mean_s: training time divided by the number of iterations."""

    mean_s: Amount
    median_s: Amount | None = None
    min_s: Amount | None = None
    max_s: Amount | None = None

    def rate(self, amount: float = 1) -> float | None:
        """An amount of each iteration per second; None where no time passed."""
        return amount / self.mean_s if self.mean_s else None


class Communication(Part):
    """Time of all communication; exposed: on the main thread; overlapped: hidden behind computation."""

    total_s: Amount
    exposed_s: Amount
    overlapped_s: Amount


class TrainResult(Part):
    """The result of training."""

    iterations: Whole
    iterations_per_epoch: Whole | None = None
    dataset: Annotated[Data, NOT_DRAWN]
    parameters: Whole | None = None  # of the model
    memory: Annotated[Memory | None, NOT_DRAWN] = None
    # per evaluation: iteration, epoch, train_s, loss, test_loss, scores
    curve: Annotated[list[dict[str, Number | None]], Content(drawn=False, table="points")]
    final: Numbers  # train_s, test_loss, the metric and other scores
    targets: Annotated[dict[str, Reached | None], NOT_DRAWN]
    step: Step
    phases: dict[str, Amount]  # on the main thread, means over worker ranks; their sum is the step
    server_phases: dict[str, Amount] | None = None
    communication: Communication
    bytes_sent: Amount | None  # per rank and iteration
    # per rank: delay in updates -> number of gradients
    staleness: Annotated[list[dict[str, Whole]], NOT_DRAWN] = Field(default_factory=list)
    counters: Numbers = Field(default_factory=dict)  # counts by the strategy
    free_arithmetic: bool = False  # simulated: the strategy compresses, which is modelled to take no time
    pipeline: dict[str, Any] | None = None  # stages, cuts, schedule
    per_rank: list[dict[str, Any]] = Field(default_factory=list)
    allreduce: Annotated[dict[str, Any] | None, NOT_DRAWN] = None  # the choice of `auto`, with reasons
    observed: Annotated[list[dict[str, Any]], NOT_DRAWN] = Field(default_factory=list)
    weights_sha256: Annotated[str | None, NOT_DRAWN] = None
    warnings: Annotated[list[str], NOT_DRAWN] = Field(default_factory=list)  # why its numbers may be wrong
    # intervals of a few iterations
    trace: Annotated[list[dict[str, Any]], Content(drawn=False, table="intervals")] = Field(default_factory=list)

    @field_validator("phases")
    @classmethod
    def _whole(cls, phases: dict[str, Number]) -> dict[str, Number]:
        if lacking := [name for name in PHASES if name not in phases]:
            raise ValueError(f"must have {', '.join(lacking)}")
        return phases

    @field_validator("curve")
    @classmethod
    def _clocks(cls, curve: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if any((row.get(clock) or 0) < 0 for row in curve for clock in ("iteration", "epoch", "train_s")):
            raise ValueError("must begin at 0 or later")
        return curve

    @field_validator("trace")
    @classmethod
    def _times(cls, trace: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if not {type(row.get(end)) for row in trace for end in ("start", "end")} <= {int, float}:
            raise ValueError("must be intervals with start and end")
        return trace


class ProbeResult(Part):
    """The result of a probe; `found` has the schema that the probe declares (`Record.check_probe_result`)."""

    found: dict[str, Any]
    metrics: Numbers = Field(default_factory=dict)  # for MLflow
    line: str = ""  # for display
    dataset: Annotated[Data | None, NOT_DRAWN] = None
    model: dict[str, Any] = Field(default_factory=dict)  # name and parameters, if a model is measured

    @model_validator(mode="after")
    def _numbers(self) -> ProbeResult:
        check_units(self.found)
        return self


def _contents() -> dict[str, Content]:
    contents: dict[str, Content] = {}
    for form in (TrainResult, ProbeResult):
        for name, field in form.model_fields.items():
            contents[name] = next((part for part in field.metadata if isinstance(part, Content)), Content())
    return contents


CONTENTS = _contents()  # entry of a result -> what it holds
TABLE_OF = {name: content.table for name, content in CONTENTS.items() if content.table}


class Hardware(Part):
    """The machine, or a node of the cluster."""

    model_config = ConfigDict(extra="allow")  # cpu, memory_gb, gpu, network, links

    class_: str = Field(alias="class")
    cores: Parts | None = None

    @property
    def more(self) -> dict[str, Any]:
        """All other entries."""
        return dict(self.model_extra or {})


class CpuTaken(Part):
    """CPU seconds that other processes and the hypervisor took from the cores that the ranks may use, and all CPU
    seconds of these cores (`repro.rank.meters`). They may be a little below 0: the kernel counts in steps of 10 ms.
    """

    processes_s: Number
    hypervisor_s: Number
    available_s: Number

    @property
    def share(self) -> float | None:
        """What both took, as a share from 0 to 1; None where no time passed."""
        taken_s = self.processes_s + self.hypervisor_s
        return min(1.0, max(0.0, taken_s / self.available_s)) if self.available_s > 0 else None


class HasRecord:
    """What holds a record has its parts."""

    record: Record

    @property
    def identity(self) -> Identity:
        return self.record.identity

    @property
    def provenance(self) -> dict[str, Any]:
        return self.record.provenance

    @property
    def kind(self) -> str:
        """Of number."""
        return self.record.kind

    @property
    def training(self) -> TrainResult:
        """The result of a training; TypeError for a probe."""
        if not isinstance(self.record.result, TrainResult):
            raise TypeError(f"{self.record.name}: {self.identity.program} trains nothing")
        return self.record.result

    @property
    def probe(self) -> ProbeResult:
        """The result of a probe; TypeError for a training."""
        if not isinstance(self.record.result, ProbeResult):
            raise TypeError(f"{self.record.name}: is no probe")
        return self.record.result

    @property
    def dataset(self) -> Data | None:
        """The data that the run used."""
        return self.record.result.dataset

    @property
    def model_name(self) -> str | None:
        """Of the model that was trained or measured."""
        if isinstance(self.record.result, ProbeResult):
            return self.record.result.model.get("name")
        return self.identity.model.name if self.identity.model else None

    @property
    def parameters(self) -> int | None:
        """The number of the model's parameters."""
        if isinstance(self.record.result, ProbeResult):
            return self.record.result.model.get("parameters")
        return self.record.result.parameters


class Record(Part):
    """A finished run. cpu_taken: None where it was not measured: other kinds of testbeds, and older records."""

    schema_: Literal[2] = Field(default=2, alias="schema")
    run: Folder  # the name of its folder
    key: str
    kind: kinds.Kind
    identity: Identity
    fabric: str
    ranks: Parts | None = None
    hardware: Hardware
    result: TrainResult | ProbeResult
    provenance: dict[str, Any]
    cpu_taken: CpuTaken | None = None
    wall: dict[str, Amount] = Field(default_factory=dict)  # wall-clock seconds of rank 0 by activity

    @model_validator(mode="before")
    @classmethod
    def _typed_result(cls, values: Any) -> Any:
        """Validate the result as the type of its program, so that errors refer to that type alone."""
        if isinstance(values, Mapping) and isinstance(result := values.get("result"), Mapping):
            identity = values.get("identity")
            plain = identity.get("program", TRAIN) if isinstance(identity, Mapping) else TRAIN
            program = identity.program if isinstance(identity, Identity) else plain
            kind: type[Part] = TrainResult if program == TRAIN else ProbeResult
            try:
                return {**values, "result": kind.model_validate(result)}
            except ValidationError as error:
                raise ValueError(f"result.{error_line(error)}") from None
        return values

    @model_validator(mode="after")
    def _whole(self) -> Record:
        if isinstance(self.result, TrainResult) and self.identity.metric not in self.result.final:
            raise ValueError(f"result.final: must have {self.identity.metric}")
        return self

    def check_probe_result(self) -> None:
        """ValueError for a result that does not match the `Result` of its probe, which is imported (it may import
        PyTorch): when a record is written, and when it comes from somebody else. Readers see plain data."""
        if isinstance(self.result, ProbeResult):
            schema = getattr(PROBES.load(self.identity.program), "Result", None)
            try:
                if schema:
                    schema.model_validate(self.result.found)
            except ValidationError as error:
                raise ValueError(f"result.found.{error_line(error)}") from None

    @property
    def name(self) -> str:
        """`<experiment>/<run>`"""
        return f"{self.identity.experiment}/{self.run}"

    @property
    def cpu_taken_share(self) -> float | None:
        """The share of the ranks' cores that others took; None: unknown."""
        return self.cpu_taken.share if self.cpu_taken else None

    @property
    def warning_text(self) -> str | None:
        """Why the run's numbers may be wrong, by what it noticed itself; None without a warning."""
        return "; ".join(self.result.warnings) or None if isinstance(self.result, TrainResult) else None

    @property
    def trained(self) -> bool:
        return self.identity.trains

    def _repr_html_(self) -> str:
        """What a notebook shows: a table of the run and its results."""
        known = {"run": self.name, "variant": self.identity.variant, "kind": self.kind, "seed": self.identity.seed}
        results = {name: value for name, value in self.result if isinstance(value, int | float | str)}
        rows = (known | results | {"warnings": self.warning_text or "-"}).items()
        cells = (f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in rows)
        return f"<table>{''.join(cells)}</table>"

    def plain(self) -> dict[str, Any]:
        """As plain data, as in a file."""
        return {**self.model_dump(mode="json", by_alias=True), "identity": self.identity.plain()}

    @classmethod
    def of(cls, plain: Any) -> Record:
        """A record from plain data; ValueError with one line that names the invalid entry."""
        if not isinstance(plain, dict):
            raise ValueError("not an object")
        if (schema := plain.get("schema")) != SCHEMA:
            raise ValueError(f"schema {str(schema)[:40]}, this version reads {SCHEMA}")
        try:
            return cls.model_validate(plain)
        except ValidationError as error:
            raise ValueError(error_line(error)) from None


@dataclass(frozen=True)
class Found(HasRecord):
    """A finished run, and its origin: `repro.records.variants.REFERENCE` or WORKSPACE."""

    origin: str
    record: Record

    @cached_property
    def label(self) -> str:
        """`Pipe-SGD + T, 3 epochs` (`repro.records.variants.label`)."""
        return variants.label(self.identity)

    def changed(self, result: TrainResult | ProbeResult | None = None, **identity: Any) -> Found:
        """The run with other entries of its identity, and another result; none of them is validated."""
        entries: dict[str, Any] = {"result": result} if result else {}
        if identity:
            entries["identity"] = self.identity.model_copy(update=identity)
        return replace(self, record=self.record.model_copy(update=entries))
