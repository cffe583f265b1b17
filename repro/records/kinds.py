"""The kinds of number that a run gives (docs/design.md, Kinds of number), and which of them a run's record holds.

    measured          real processes, a real network, real computation
    measured, padded  as measured, with steps filled up to a given time by sleeping (`min_compute_s`): never a headline
    emulated          real processes and a real network; the computation was slept, for published or profiled times
    simulated         on the virtual fabric: network and computation are modelled

A testbed alone is `measured` or `simulated`; what the run did there decides between the first three. A probe whose
computation sleeps says so: the `computation` of its options and of its result is `sleep`.

Runs with injected delays, or with a skew with which ranks enter a collective (`partial_collectives`), stay measured.
These are slept too, but they are the paper's own treatment (eager-SGD, sections 6.1 and 6.2: "we manually inject
delays"): they take the place of no computation, and what is timed is real.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

OfTestbed = Literal["measured", "emulated", "simulated"]
Kind = Literal["measured", "measured, padded", "emulated", "simulated"]
KINDS = MEASURED, PADDED, EMULATED, SIMULATED = get_args(Kind)
SLEEP = "sleep"


def kind(testbed: str, computation: str | None = None, min_compute_s: float | None = None) -> str:
    """One of `KINDS`. testbed: the kind of what the ranks ran on, which stays where it is not `measured`; computation:
    how a probe's is done, where it says so."""
    if testbed != MEASURED:
        return testbed
    if computation == SLEEP:
        return EMULATED
    return PADDED if min_compute_s else MEASURED


def of_config(config: Mapping[str, Any]) -> str:
    """Of a run that has no summary yet, by its resolved configuration."""
    computation = (config.get("probe") or {}).get("computation")
    return kind(config["testbed"]["kind"], computation, config.get("min_compute_s"))
