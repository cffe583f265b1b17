"""The conformance tests that every strategy passes, and tests of this one."""

import torch

from repro.testing import StrategyConformance, small


class TestCAMEL(StrategyConformance):
    strategy = "NAME"


def test_a_shorter_format_sends_half_and_learns_almost_the_same():
    whole, half = (small.run("NAME", {"wire": wire}, workers=3) for wire in ("float32", "bfloat16"))
    assert [2 * sent for sent in half.bytes_sent] == whole.bytes_sent
    torch.testing.assert_close(half.weights[0], whole.weights[0], atol=0.01, rtol=0.05)
