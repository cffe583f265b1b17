"""Ranks of one machine and their launcher accept no connections from other machines."""

import json

import pytest

from repro.launch.namespaces import network
from tests.support import ranks

LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


@pytest.mark.ranks
@pytest.mark.parametrize("fabric", ["mpi", "torch"])
def test_ranks_listen_on_loopback_alone(tmp_path, fabric):
    size = 3
    ranks.launch(fabric, size, "listeners", tmp_path)
    found = [json.loads((tmp_path / f"rank{rank}").read_text()) for rank in range(size)]
    addresses = {address for each in found for where in each["listens"].values() for address in where}
    if fabric == "torch":
        assert addresses and addresses <= LOOPBACK, found
    elif missing := network.why_not():
        pytest.skip(f"mpirun's daemon listens on all interfaces here: {missing}")
    else:  # in a network without any other
        assert all(each["apart"] for each in found)
