"""Schemas of probe results, one `parts.Result` per program, importable without PyTorch.

A probe of another package declares its schema as `Result` beside its `Options`; it is checked when a record is written,
or read from an archive.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from repro.core.fields import line
from repro.core.registry import PROBES
from repro.records.probe_results import communication as communication
from repro.records.probe_results import training as training
from repro.records.probe_results import workloads as workloads
from repro.records.probe_results.parts import RESULTS


def check(program: str, found: Mapping[str, Any]) -> None:
    """ValueError for a result that does not match its program's schema."""
    _check(RESULTS.get(program), found)


def check_declared(program: str, found: Mapping[str, Any]) -> None:
    """Like `check`, also for programs of other packages, which are imported."""
    _check(RESULTS.get(program) or getattr(PROBES.load(program), "Result", None), found)


def _check(schema: type[BaseModel] | None, found: Mapping[str, Any]) -> None:
    try:
        if schema:
            schema.model_validate(found)
    except ValidationError as error:
        raise ValueError(f"result.found.{line(error)}") from None
