"""The page's part on what does not add up in the paper."""

from __future__ import annotations

from collections.abc import Mapping

from repro.reports.compute_imbalance import made_up
from repro.reports.eagersgd import frames_contradictions
from repro.reports.eagersgd.frames_imbalance import lengths
from repro.reports.eagersgd.published import Published
from repro.reports.page import Files, Part, Section
from repro.reports.probes import ProbeGroup


def section(paper: Published, groups: Mapping[str, ProbeGroup], files: Files) -> Section:
    """Every printed number that follows from others, and what Figure 10's and 11's speed-ups imply.

    groups: of Figure 2 (a)'s lengths; generated ones are not used.
    """
    real = [group for group in groups.values() if not made_up(group)]
    splits = lengths(real[0]) if real else {}
    training = next((split for name, split in splits.items() if name.startswith("train")), None)
    table = frames_contradictions.table(paper, training)
    wide = files.table(table, "arithmetic", list(table.columns))
    implied = frames_contradictions.implied_computation(paper)
    computed = files.table(implied, "implied")
    text = (
        "Numbers of the paper that follow from other numbers of it, all computed from the table at the end of this "
        "page. *Off*: what follows over what is printed, less 1."
    )
    note = (
        "The speed-ups of Figures 10 and 11 if the injected delay is all that Synch-SGD loses: the computation that "
        "each implies (*alone*: solo loses nothing; *with its share*: a rank of solo is itself delayed now and then), "
        "and the throughput that solo then has."
    )
    return Section("What does not add up", text, [
        Part(tables=[("", wide)]),
        Part("What the speed-ups imply", tables=[(note, computed)]),
    ])  # fmt: skip
