"""The kinds of numbers (docs/design.md, Kinds of number), and the kind of a run.

    measured          real processes, a real network, real computation
    measured, padded  as measured, with steps extended to a minimum by sleeping (`min_compute_s`): never a headline
    emulated          real processes and a real network; computation is replaced by sleeping published or profiled times
    simulated         virtual fabric; network and computation are modelled

The first three can occur on a measured testbed. A probe whose computation sleeps has `computation: sleep` in its
options and its result.

Runs with injected delays, or with a skew with which ranks enter a collective (`partial_collectives`), are measured:
these sleeps are the paper's own method (eager-SGD, sections 6.1 and 6.2: "we manually inject delays") and replace no
computation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

OfTestbed = Literal["measured", "emulated", "simulated"]
Kind = Literal["measured", "measured, padded", "emulated", "simulated"]
KINDS = MEASURED, PADDED, EMULATED, SIMULATED = get_args(Kind)
# the order in which a claim's verdicts are asked for a decided one (`repro.answers.claims.decisive`)
DECIDING = (MEASURED, EMULATED, SIMULATED, PADDED)
SLEEP = "sleep"


def kind(testbed: str, computation: str | None = None, min_compute_s: float | None = None) -> str:
    """One of `KINDS`. testbed: its kind, which is the result unless it is `measured`; computation: of a probe."""
    if testbed != MEASURED:
        return testbed
    if computation == SLEEP:
        return EMULATED
    return PADDED if min_compute_s else MEASURED


def of_config(config: Mapping[str, Any]) -> str:
    """The kind of a run, from its resolved configuration."""
    computation = (config.get("probe") or {}).get("computation")
    return kind(config["testbed"]["kind"], computation, config.get("min_compute_s"))
