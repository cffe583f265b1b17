"""The fabric conformance suite on the virtual fabric; on real ranks: `tests/distributed/test_fabrics.py`."""

import pytest

from repro.fabric.virtual.fabric import Network, run
from tests.support.fabric_checks import suite as fabric_suite


@pytest.mark.parametrize("check", fabric_suite.CHECKS)
@pytest.mark.parametrize("size", [1, 2, 4, 6])
def test_virtual(size, check):
    try:
        run(size, fabric_suite.CHECKS[check], Network(1e-4, 1e-8), timeout_s=fabric_suite.LIMIT_S)
    except fabric_suite.Skip as reason:
        pytest.skip(str(reason))
