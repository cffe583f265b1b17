"""What is assumed about a cluster: the entries of `cluster.yaml`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from repro.core import user_files
from repro.experiment.testbeds import Simulated, testbed_of

FILE = Path(__file__).with_name("cluster.yaml")


@cache
def cluster_entries() -> dict[str, Any]:
    """The entries of `cluster.yaml`, checked as a testbed's."""
    entries = user_files.read_entries(FILE)
    assert isinstance(testbed_of(entries), Simulated)
    return entries
