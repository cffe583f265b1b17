"""A modelled testbed's costs and network."""

from __future__ import annotations

from repro.experiment.testbeds import NAMED_WORK, WORK, Modelled
from repro.fabric.costs import Costs
from repro.fabric.virtual.network import Network


def virtual_costs(testbed: Modelled) -> Costs:
    """The costs of host work on a modelled testbed."""
    per_byte = {kind: getattr(testbed, entry) for kind, entry in WORK.items()}
    # sparse gradients: selection and exchange are charged by the bytes of the whole gradient, merging and summation by
    # the bytes of all messages
    per_byte["sum"] = per_byte["merge"] if testbed.sum_s_per_byte is None else testbed.sum_s_per_byte
    for kind in NAMED_WORK:
        per_byte |= {f"{kind}/{name}": cost for name, cost in getattr(testbed, f"{kind}_s_per_byte").items()}
    # startup of a pull of parameters: finding the servers, opening connections (iBatch's T_s)
    return Costs(True, per_byte, {"sync": testbed.sync_s, "startup": testbed.startup_s}, testbed.pull_threads)


def virtual_network(testbed: Modelled, seed: int = 0) -> Network:
    """The network of a modelled testbed; seed: the run's, from which shares of links are drawn."""
    return Network(
        testbed.alpha_s,
        testbed.beta_s_per_byte,
        fair=testbed.fair,
        spread=testbed.share_spread,
        seed=seed,
        short=testbed.short_bytes or 0,
        hosts=testbed.hosts,
        switch_hosts=testbed.switch_hosts,
        shuffled=testbed.shuffled,
        local_alpha=testbed.local_alpha_s,
        local_beta=testbed.local_beta_s_per_byte,
        congestion=tuple(sorted(testbed.congestion.items())),
        lost=testbed.lost_messages,
        resend=testbed.resend_s if testbed.lost_messages else 0.0,
    )
