"""Repeat published runs and compare: the reference is the regression test of the simulator.

A simulated run without arithmetic gives the same numbers of the same data everywhere, bit for bit, with arithmetic on
the same hardware class and torch. A run is repeated from its record alone, whatever its experiment's file says today,
and whether or not its key is stale: compared are numbers.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from typing import Any, NamedTuple

from repro.core.errors import InputError, NotHere
from repro.core.fields import checked
from repro.core.registry import home
from repro.experiment.needs import settled
from repro.experiment.run import Run
from repro.experiment.schema import RunConfig
from repro.launch.runner import run_unfinished
from repro.records import provenance
from repro.records.record import Record, TrainResult
from repro.records.units import SAID

CHEAP_S = {"none": 1.0, "real": 4.0}  # real seconds of a run that is repeated, by its testbed's arithmetic
# what a record does not say, for no result depends on it
SETTINGS = {"title": "repeated", "timeout_s": 300, "data": {"root": None, "videos": None}}
# what a probe leaves empty in its record, and does not read
UNUSED = {"epochs": 1, "eval_every": 1, "checkpoint_every": 1}
NOT_NUMBERS = ("memory", "dataset")  # of a result: of the machine; of the data, which are compared first


class Repeated(NamedTuple):
    """A published run. left_out: why it was not repeated; different: where its repetition has other numbers."""

    record: Record
    left_out: str = ""
    different: Sequence[str] = ()


def sample(records: Iterable[Record]) -> list[Record]:
    """Of each paper's simulated runs the cheapest of each strategy, with and without arithmetic, if cheap."""
    cheapest: dict[tuple[str, ...], Record] = {}
    for record in records:
        seconds, arithmetic = record.wall.get("total_s"), record.identity.testbed.options.get("arithmetic", "none")
        if record.kind != "simulated" or seconds is None or seconds > CHEAP_S[arithmetic]:
            continue
        own = record.identity
        which = own.paper, own.strategy.name, arithmetic
        if which not in cheapest or seconds < cheapest[which].wall["total_s"]:
            cheapest[which] = record
    return list(cheapest.values())


def rerun(records: Sequence[Record]) -> list[Repeated]:
    """Repeat these runs in a folder of their own, which is gone afterwards."""
    reasons = [why_not(record) for record in records]
    with _temporary_results():
        runs = [None if reason else run_of(record) for record, reason in zip(records, reasons, strict=True)]
        found, _ = run_unfinished([run for run in runs if run], track=False)
    again = {record.name: record for record in found}
    done = []
    for record, run, reason in zip(records, runs, reasons, strict=True):
        if run is None:
            done.append(Repeated(record, left_out=reason or ""))
        elif (other := again.get(f"{record.identity.experiment}/{run.name}")) is None:
            done.append(Repeated(record, different=["the repetition failed"]))
        else:
            done.append(Repeated(record, different=differences(record, other)))
    return done


def why_not(record: Record) -> str | None:
    """Why a run's numbers would not be the same here; None where they should be."""
    config = config_of(record)
    here = provenance.hardware(config.testbed.network, config.wanted_device)["class"], metadata.version("torch")
    there = record.hardware.class_, (record.provenance.get("versions") or {}).get("torch")
    if here != there and not config.timing_only:
        return f"computed on {there[0]} with torch {there[1]}, here are {here[0]} and {here[1]}"
    if isinstance(record.result, TrainResult):  # also without arithmetic: lengths of sequences make times
        try:
            checksum = home("dataset").of(config).checksum
        except NotHere as error:
            return str(error)
        if checksum != (record.result.dataset.model_extra or {}).get("checksum", checksum):
            return f"computed on other data: {record.result.dataset.name}"
    return None


def run_of(record: Record) -> Run:
    """The published run, to be carried out: under its own key, for that is what it is compared with."""
    own = record.identity
    hardware = record.hardware.model_dump(by_alias=True)
    return Run(f"{own.paper}/{own.experiment}", own.variant, config_of(record), own.seed, record.key, hardware)


def config_of(record: Record) -> RunConfig:
    """The configuration that a record's identity stands for; InputError where today's schema does not know it."""
    plain = {name: value for name, value in record.identity.plain().items() if value is not None}
    plain["testbed"] = {name: value for name, value in plain["testbed"].items() if name not in SAID}
    config = settled(checked(RunConfig, SETTINGS | UNUSED | {"probe": None} | plain))
    if changed := list(_different(record.identity.values, config.identity.values)):
        raise InputError(f"{record.name}: its configuration would be another today: {changed[0]}")
    return config


def differences(published: Record, repeated: Record) -> list[str]:
    """The numbers of a published run that its repetition has otherwise, each with its path; what only newer code
    records is none."""
    one, other = (record.plain()["result"] for record in (published, repeated))
    return list(_different({name: value for name, value in one.items() if name not in NOT_NUMBERS}, other))


def _different(one: Any, other: Any, path: str = "") -> Iterator[str]:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name, value in one.items():
            yield from _different(value, other.get(name), f"{path}.{name}" if path else str(name))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            yield from _different(mine, theirs, f"{path}[{index}]")
    elif one != other and not isinstance(one, str | None) and one not in ([], {}):  # words, and what came later
        yield f"{path}: {_short(one)} published, {_short(other)} now"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@contextmanager
def _temporary_results() -> Iterator[None]:
    before = os.environ.get("REPRO_RESULTS")
    with tempfile.TemporaryDirectory(prefix="repro-rerun-") as folder:
        os.environ["REPRO_RESULTS"] = folder
        try:
            yield
        finally:
            del os.environ["REPRO_RESULTS"]
            if before is not None:
                os.environ["REPRO_RESULTS"] = before
