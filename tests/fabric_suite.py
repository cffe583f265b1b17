"""What every fabric must do: plain functions `check_xxx(fabric)`, run by every rank, each on a fabric of its own.

A check asserts; it raises Skip where the fabric does not declare what the check is about. `tests/ranks.py` runs them in
real ranks, `tests/test_fabric_conformance.py` on the virtual fabric.
"""

from __future__ import annotations

from tests import fabric_collectives, fabric_limits, fabric_messages, fabric_tasks
from tests.fabric_common import Skip
from tests.waiting import LIMIT_S

PARTS = (fabric_messages, fabric_limits, fabric_collectives, fabric_tasks)
CHECKS = {name: check for part in PARTS for name, check in vars(part).items() if name.startswith("check_")}

__all__ = ["CHECKS", "LIMIT_S", "Skip"]
