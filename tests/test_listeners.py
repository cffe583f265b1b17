"""Ranks of one machine are nobody else's business: they take no connections from outside."""

import json

import pytest

from tests import ranks

LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


@pytest.mark.ranks
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("fabric", ["mpi", "torch"])
def test_ranks_listen_on_loopback_alone(tmp_path, fabric, size):
    ranks.launch(fabric, size, "listeners", tmp_path)
    found = [json.loads((tmp_path / f"rank{rank}").read_text()) for rank in range(size)]
    addresses = [address for each in found for where in each.values() for address in where]
    assert set(addresses) <= LOOPBACK, found
    assert bool(addresses) == (fabric == "torch")
