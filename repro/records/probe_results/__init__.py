"""What probes find, a model of `parts.Result` each: imported where records are shown, and so without PyTorch.

A probe of another package declares its own as `Result` beside its `Options`; that is checked where its record is
written, and where one comes from elsewhere.
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
    """ValueError for a result that is not of its program's form."""
    _check(RESULTS.get(program), found)


def check_declared(program: str, found: Mapping[str, Any]) -> None:
    """The same, of a program of another package too, which is imported."""
    _check(RESULTS.get(program) or getattr(PROBES.load(program), "Result", None), found)


def _check(form: type[BaseModel] | None, found: Mapping[str, Any]) -> None:
    try:
        if form:
            form.model_validate(found)
    except ValidationError as error:
        raise ValueError(f"result.found.{line(error)}") from None
