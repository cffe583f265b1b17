"""Repetition of published runs, to test the simulator against the reference.

A simulated run without arithmetic gives the same bits on every machine with the same data; one with arithmetic only on
the same hardware class and torch. A run is repeated from its record, whatever its experiment's file now says and even
if its key is stale; its numbers are compared.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from typing import Any, NamedTuple

from repro.core.errors import InputError, NotHere
from repro.core.fields import check_fields
from repro.core.registry import home_module
from repro.experiment.needs import resolve_testbed
from repro.experiment.run import Run
from repro.experiment.schema import RunConfig
from repro.launch.runner import run_unfinished
from repro.records import provenance
from repro.records.record import Record, TrainResult
from repro.records.units import METADATA

CHEAP_S = {"none": 1.0, "real": 4.0}  # longest run that is repeated, by its testbed's arithmetic
# configuration that a record lacks because no result depends on it
SETTINGS = {"title": "repeated", "timeout_s": 300, "data": {"root": None, "videos": None}}
# configuration that a probe does not use and its record leaves empty
UNUSED = {"epochs": 1, "eval_every": 1, "checkpoint_every": 1}
NOT_COMPARED = ("memory", "dataset")  # parts of a result: the machine's memory; the data, compared beforehand


class Repeated(NamedTuple):
    """A published run; left_out: the reason why it was not repeated; different: the numbers that differ."""

    record: Record
    left_out: str = ""
    different: Sequence[str] = ()


def sample_runs(records: Iterable[Record]) -> list[Record]:
    """The cheapest simulated run of each paper and strategy, with and without arithmetic, if below `CHEAP_S`."""
    cheapest: dict[tuple[str, ...], Record] = {}
    for record in records:
        seconds, arithmetic = record.wall.get("total_s"), record.identity.testbed.options.get("arithmetic", "none")
        if record.kind != "simulated" or seconds is None or seconds > CHEAP_S[arithmetic]:
            continue
        group = record.identity.paper, record.identity.strategy.name, arithmetic
        if group not in cheapest or seconds < cheapest[group].wall["total_s"]:
            cheapest[group] = record
    return list(cheapest.values())


def rerun_records(records: Sequence[Record]) -> list[Repeated]:
    """Repeat these runs in a temporary results folder."""
    reasons = [why_not(record) for record in records]
    with _temporary_results():
        runs = [None if reason else run_of(record) for record, reason in zip(records, reasons, strict=True)]
        finished, _ = run_unfinished([run for run in runs if run], track=False)
    again = {record.name: record for record in finished}
    results = []
    for record, run, reason in zip(records, runs, reasons, strict=True):
        if run is None:
            results.append(Repeated(record, left_out=reason or ""))
        elif (other := again.get(f"{record.identity.experiment}/{run.name}")) is None:
            results.append(Repeated(record, different=["the repetition failed"]))
        else:
            results.append(Repeated(record, different=record_differences(record, other)))
    return results


def why_not(record: Record) -> str | None:
    """Why a repetition would not give the same numbers here; None if it should."""
    config = config_of(record)
    here = provenance.hardware(config.testbed.network, config.wanted_device)["class"], metadata.version("torch")
    there = record.hardware.class_, (record.provenance.get("versions") or {}).get("torch")
    if here != there and not config.timing_only:
        return f"computed on {there[0]} with torch {there[1]}, here are {here[0]} and {here[1]}"
    if isinstance(record.result, TrainResult):  # even without arithmetic: times depend on lengths of sequences
        try:
            checksum = home_module("dataset").dataset_for(config).checksum
        except NotHere as error:
            return str(error)
        if checksum != (record.result.dataset.model_extra or {}).get("checksum", checksum):
            return f"computed on other data: {record.result.dataset.name}"
    return None


def run_of(record: Record) -> Run:
    """The published run, to be repeated under its own key."""
    identity = record.identity
    hardware = record.hardware.model_dump(by_alias=True)
    return Run(
        f"{identity.paper}/{identity.experiment}",
        identity.variant,
        config_of(record),
        identity.seed,
        record.key,
        hardware,
    )


def config_of(record: Record) -> RunConfig:
    """The configuration of a record; InputError if the current schema does not reproduce its identity."""
    plain = {name: value for name, value in record.identity.plain().items() if value is not None}
    described = {"sources": {"fair": "as the published run has it"}}
    plain["testbed"] = {name: value for name, value in plain["testbed"].items() if name not in METADATA} | described
    config = resolve_testbed(check_fields(RunConfig, SETTINGS | UNUSED | {"probe": None} | plain))
    if changed := list(_different(record.identity.values, config.identity.values)):
        raise InputError(f"{record.name}: its configuration would be another today: {changed[0]}")
    return config


def record_differences(published: Record, repeated: Record) -> list[str]:
    """The numbers of a published run that differ in its repetition, with their paths. Entries that only the repetition
    has are ignored: newer code may record more."""
    before, other = (record.plain()["result"] for record in (published, repeated))
    return list(_different({name: value for name, value in before.items() if name not in NOT_COMPARED}, other))


def _different(first: Any, other: Any, path: str = "") -> Iterator[str]:
    if isinstance(first, Mapping) and isinstance(other, Mapping):
        for name, value in first.items():
            yield from _different(value, other.get(name), f"{path}.{name}" if path else str(name))
    elif isinstance(first, list) and isinstance(other, list) and len(first) == len(other):
        for index, (mine, theirs) in enumerate(zip(first, other, strict=True)):
            yield from _different(mine, theirs, f"{path}[{index}]")
    elif first != other and not isinstance(first, str | None) and first not in ([], {}):  # neither text nor empty
        yield f"{path}: {_short(first)} published, {_short(other)} now"


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
