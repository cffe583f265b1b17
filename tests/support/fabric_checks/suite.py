"""What every fabric must do: plain functions `check_xxx(fabric)`, run by every rank, each on a fabric of its own.

A check asserts; it raises Skip where the fabric does not declare what the check is about.
`tests/distributed/test_fabrics.py` runs them in real ranks, `tests/conformance/test_fabric_conformance.py` on the
virtual fabric.
"""

from __future__ import annotations

from tests.support.fabric_checks import collectives as fabric_collectives
from tests.support.fabric_checks import limits as fabric_limits
from tests.support.fabric_checks import messages as fabric_messages
from tests.support.fabric_checks import ordered as fabric_ordered
from tests.support.fabric_checks import tasks as fabric_tasks
from tests.support.fabric_checks.common import Skip
from tests.support.waiting import LIMIT_S

PARTS = (fabric_messages, fabric_limits, fabric_collectives, fabric_tasks, fabric_ordered)
CHECKS = {name: check for part in PARTS for name, check in vars(part).items() if name.startswith("check_")}

__all__ = ["CHECKS", "LIMIT_S", "Skip"]
