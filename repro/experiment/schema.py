"""The typed configuration of a run, checked once after Hydra's composition and before anything starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from repro.core.errors import InputError
from repro.core.fields import Count, Entries, Model, Positive, Text, Whole
from repro.core.paths import RESERVED
from repro.core.registry import PROBES, TRAIN
from repro.experiment import limits, plugins
from repro.experiment.inputs import Inputs
from repro.experiment.optimizer import Optimizer
from repro.experiment.testbeds import KINDS, Modelled, Testbed
from repro.records.configured import NO_RESULT, Configured, Name
from repro.records.identity import Identity


def _not_reserved(name: str) -> str:
    if name.lower() in RESERVED:
        raise ValueError(f"must be another name: {', '.join(RESERVED)} are reserved in the results folder")
    return name


def _by_name(value: Any) -> Any:
    """name -> overrides of testbeds; a list has names alone, null means `here`."""
    if isinstance(value, dict):
        return {name: [] if changes is None else changes for name, changes in value.items()}
    if not isinstance(value, list | None):
        raise ValueError("must be names, each with a list of overrides, as {fast: ['epochs=1']}")
    return {name: [] for name in value or ["here"]}


Seed = Annotated[int, Field(ge=0, le=limits.SEEDS)]
PaperName = Annotated[Name, AfterValidator(_not_reserved)]


class Data(Model):
    """The first folder searched for data sets (null: $REPRO_DATA, then the user's cache), and a folder of videos."""

    part = "data"

    root: str | None = None
    videos: str | None = None


class Numerics(Model):
    """Precision and kernels of forward and backward passes (`repro.training.numerics`)."""

    part = "numerics"

    precision: Literal["fp32", "tf32", "bf16"] = "fp32"
    channels_last: bool = False
    cudnn_benchmark: bool = False
    compile: bool = False
    deterministic: bool = False

    @model_validator(mode="after")
    def _fits(self) -> Numerics:
        if self.deterministic and self.cudnn_benchmark:
            raise InputError(
                "numerics.cudnn_benchmark=true: chooses kernels by their time, which contradicts deterministic=true; "
                "set one of them to false"
            )
        return self

    @property
    def chosen(self) -> list[str]:
        """The entries that are not at their defaults, as `numerics.NAME=value`."""
        values = self.model_dump(exclude_defaults=True).items()
        return [f"numerics.{name}={str(value).lower()}" for name, value in values]

    @property
    def gpus_alone(self) -> str | None:
        """The first chosen entry that only GPUs have; None if there is none."""
        ours = ("numerics.precision=tf32", "numerics.cudnn_benchmark=true")
        return next((path for path in self.chosen if path in ours), None)


class RunConfig(Configured):
    """A run as configured. `paper_configs/config.yaml` describes the entries and sets what an experiment does not.

    An entry of a record is here again only where its form or range is another one, for the reason beside it.
    """

    # an experiment's grid, scales, and named values for interpolation are ignored
    model_config = ConfigDict(extra="ignore", arbitrary_types_allowed=True)

    paper: PaperName  # a folder of new results; a record may be of a paper whose name is reserved since
    # typed here, and plain in a record, which may be of a plugin or version that is not installed
    strategy: plugins.Strategy
    model: plugins.Model
    dataset: plugins.Dataset
    testbed: Testbed
    imbalance: plugins.Imbalance
    optimizer: Optimizer
    numerics: Numerics = Field(default_factory=Numerics)
    # what can be run is less than what can be read
    workers: Annotated[int, Field(ge=1, le=limits.RANKS)]
    seed: Seed
    # always there and above 0, which they are not for probes of older records; floats, so that 1 and 1.0 have one key
    epochs: Annotated[float, Field(gt=0, le=limits.EPOCHS, allow_inf_nan=False)]
    eval_every: Positive
    checkpoint_every: Positive
    # of a run to be made alone
    title: Annotated[Text, NO_RESULT]
    inputs: Annotated[Inputs, NO_RESULT] = Field(default_factory=dict)  # besides the testbed's; count in a sweep alone
    draws: Annotated[Whole, NO_RESULT] = 0  # of all inputs; 0: a single run of the configured values
    profile_steps: Annotated[Whole, NO_RESULT] = 0  # adds another run
    timeout_s: Annotated[Positive, NO_RESULT]
    data: Annotated[Data, NO_RESULT]
    # filled in when the run starts
    key: Annotated[str, NO_RESULT] = ""
    hardware: Annotated[Entries, NO_RESULT] = Field(default_factory=dict)
    provenance: Annotated[Entries, NO_RESULT] = Field(default_factory=dict)

    @field_validator("probe", mode="plain")
    @classmethod
    def _parameters(cls, value: Any, info: ValidationInfo) -> Any:
        if info.context is plugins.CHECKED:
            return value
        program = info.data.get("program")
        return None if program in (None, TRAIN) else PROBES.parse(program, value, "probe")

    @field_validator("optimizer")
    @classmethod
    def _ends(cls, value: Optimizer, info: ValidationInfo) -> Optimizer:
        return value.within(info.data["epochs"]) if "epochs" in info.data else value

    @model_validator(mode="after")
    def _divides(self) -> RunConfig:
        batch, workers = self.batch, self.workers
        if batch % workers:
            near = batch - batch % workers or workers
            raise InputError(
                f"batch={batch} (global) does not divide among workers={workers}; nearest that do: "
                f"{near}, {near + workers}"
            )
        if (local := batch // workers) % self.accumulate:
            allowed = ", ".join(str(n) for n in range(1, local + 1) if local % n == 0)
            raise InputError(
                f"accumulate={self.accumulate}: a worker's minibatch of {local} must be cut into equal parts: {allowed}"
            )
        return self

    @model_validator(mode="after")
    def _computes(self) -> RunConfig:
        where = f"testbed {self.testbed.name}"
        if self.numerics.chosen and self.timing_only:
            raise InputError(f"{self.numerics.chosen[0]}: {where} has no arithmetic; set testbed=here, or leave it out")
        if self.numerics.compile and self.simulated:
            raise InputError(f"numerics.compile=true: computation on {where} takes modelled time; set testbed=here")
        return self

    @property
    def simulated(self) -> bool:
        return self.testbed.kind == "simulated"

    @property
    def wanted_device(self) -> str:
        """auto, cpu or cuda. `auto` is cpu for simulated ranks; without arithmetic every device is cpu."""
        return "cpu" if self.timing_only or (self.simulated and self.device == "auto") else self.device

    def device_of(self, rank: int) -> str:
        """`wanted_device` of one rank: cpu for ranks from `testbed.gpu_ranks` on."""
        with_gpu = self.testbed.gpu_ranks if self.testbed.kind == "measured" else None
        return "cpu" if with_gpu is not None and rank >= with_gpu else self.wanted_device

    @property
    def timing_only(self) -> bool:
        """Whether the testbed is modelled and without arithmetic, so that no data are needed."""
        return isinstance(self.testbed, Modelled) and self.testbed.arithmetic == "none"

    @property
    def portable(self) -> bool:
        """Whether the result depends neither on torch nor on hardware: it needs neither arithmetic nor the wall
        clock."""
        return self.simulated and self.timing_only

    @property
    def local_batch(self) -> int:
        """Samples in a worker's minibatch."""
        return self.batch // self.workers

    def iterations(self, per_epoch: int) -> int:
        """Iterations of a training; per_epoch: those of an epoch. A breakdown run may end earlier."""
        whole = max(1, round(self.epochs * per_epoch))
        return min(whole, self.breakdown_steps) if self.breakdown and self.breakdown_steps else whole

    @cached_property
    def identity(self) -> Identity:
        """The identity in the run's record."""
        plain = self.plain()
        values = {name: plain[name] for name in Identity.model_fields if name in plain}
        testbed = self.testbed.model_dump(mode="json", exclude_unset=True)
        always = {name: getattr(self.testbed, name) for name in ("name", "kind", "launcher", "threads_per_rank")}
        if self.timing_only:
            values["numerics"] = {}
        return Identity.model_validate(values | {"testbed": testbed | always})

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> RunConfig:
        """A copy with its own identity, which pydantic would copy with the fields: that of another seed."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("identity", None)
        return copied

    def plain(self) -> dict[str, Any]:
        """Plain data, as in a configuration file."""
        return self.model_dump(mode="json")

    @classmethod
    def of_plain(cls, value: dict[str, Any]) -> RunConfig:
        """The configuration of `plain`, which was checked before: plugins are not imported, and their options stay
        plain data."""
        return cls.model_validate(value, context=plugins.CHECKED)


def default_of_part(path: str) -> Any:
    """The default of an entry of a part (`optimizer.alpha`) where a class first declares it; None without one."""
    part, _, name = path.partition(".")
    forms: dict[str, Iterable[type[Model]]] = {"optimizer": [Optimizer], "numerics": [Numerics]}
    for form in (forms | {"testbed": KINDS.values()}).get(part, ()):
        for kind in reversed(form.__mro__):
            field = kind.model_fields.get(name) if issubclass(kind, Model) else None
            if field and not field.is_required():
                return field.get_default(call_default_factory=True)
    return None


class Named(Model):
    """A part with a name."""

    model_config = ConfigDict(extra="ignore")

    name: Text


class Axes(Model):
    """Seeds and testbeds of an experiment; `repro.experiment.grid` has its factors."""

    model_config = ConfigDict(extra="ignore")

    seed: Seed = 0
    seeds: Count = 1
    testbeds: Annotated[dict[Text, list[str]], BeforeValidator(_by_name)]
    testbed: Named
    strategy: Named
