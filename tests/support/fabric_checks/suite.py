"""The fabric conformance suite: functions `check_xxx(fabric)`, each run by every rank on a new fabric.

A check raises Skip if the fabric lacks a capability that it needs. `tests/distributed/test_fabrics.py` runs them on
real ranks, `tests/conformance/test_fabric_conformance.py` on the virtual fabric.
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
