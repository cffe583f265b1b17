"""1F1B with flushes: PipeDream's order inside a flush, drained before the weights are updated (beyond the paper).

Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training" (ICML 2021), PipeDream-Flush, section 3.2.
"""

from __future__ import annotations

from repro.strategies.gpipe import GPipe


class OneFOneBFlush(GPipe):
    """GPipe's updates, bit for bit, with as few minibatches in flight as in PipeDream."""

    name = "one_f_one_b_flush"
    schedule = "1f1b-flush"
