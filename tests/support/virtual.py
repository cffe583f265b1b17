"""Helpers of the virtual fabric's tests: a network of round numbers, messages, comparison of times."""

import pytest
import torch

from repro.fabric.virtual.fabric import Network

ALPHA, BETA = 1e-3, 1e-6
NETWORK = Network(ALPHA, BETA)
KB = 1000


def message(nbytes, value=0):
    return torch.full((nbytes,), value, dtype=torch.uint8)


def close(value):
    return pytest.approx(value, rel=1e-12, abs=1e-15)
