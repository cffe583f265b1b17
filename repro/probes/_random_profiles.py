"""Random profiles of networks for iBatch's decision: a family each for what the paper says layers look like."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from repro.batching.profile import PullProfile

# family: (decades by which a layer's transfer time rises from the first layer to the last, decades by which its forward
# time falls, all forward time over all transfer time)
FAMILIES = {
    "convolutional": (2.0, 1.0, 1.0),  # computation first, parameters last ("Case Study", second reason)
    "uniform": (0.0, 0.0, 1.0),
    "communication": (0.0, 0.0, 0.25),  # communication-bound: as uniform, with 4 times as much transfer
    "computation": (0.0, 0.0, 4.0),
}
MEAN_TRANSFER_S = 1e-3  # only ratios matter


def draw(family: str, layers: int, startup: float, count: int, seed: int) -> Iterator[PullProfile]:
    """So many profiles, the same ones for the same arguments; startup: T_s over the mean T_t.

    Each time is uniform in (0, 1], times its layer's share of the decades; then all are scaled to the family's ratio.
    """
    rises, falls, ratio = FAMILIES[family]
    where = seed, list(FAMILIES).index(family), layers, round(1e6 * startup)
    random = np.random.default_rng(where)
    depth = np.linspace(0, 1, layers)
    for _ in range(count):
        transfers = (1 - random.random(layers)) * 10 ** (rises * depth)
        forwards = (1 - random.random(layers)) * 10 ** (-falls * depth)
        transfers *= layers * MEAN_TRANSFER_S / transfers.sum()
        forwards *= ratio * layers * MEAN_TRANSFER_S / forwards.sum()
        yield PullProfile(startup * MEAN_TRANSFER_S, tuple(transfers.tolist()), tuple(forwards.tolist()))
