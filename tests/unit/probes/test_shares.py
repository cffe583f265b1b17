"""Program `shares`: simulated links with a known spread, and too few workers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from repro.core.errors import InputError
from repro.experiment.expand import expand_runs
from repro.fabric.virtual.fabric import Network, run
from repro.probes import shares
from tests.support import probes

FAIR = Network(5e-5, 1e-9, fair=True)


def spreads(network: Network, nbytes: int = 1_000_000) -> float:
    first, *others = run(4, lambda fabric: shares.measure_size(fabric, nbytes, 10), network)
    assert all(other == first for other in others)
    assert first["first_s"] <= first["last_s"]
    assert first["last_s"] >= 3 * nbytes * FAIR.beta  # three messages come over one link
    return first["spread"]


def test_shares_that_are_alike_have_no_spread():
    assert spreads(FAIR) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("spread", [0.003, 0.03])
def test_a_known_spread_is_underestimated_as_the_last_message_has_the_link_to_itself(spread):
    found = spreads(replace(FAIR, spread=spread, seed=1))
    assert 0.3 * spread < found < spread


def test_two_workers_share_nothing():
    config = expand_runs("validation/shares", ["testbed=paper/pipesgd-alexnet"], "quick")[0].config.plain()
    with pytest.raises(InputError, match="workers=2: program shares needs 3 or more"):
        probes.check(probes.planned(config, 2))
