"""The page's part on what does not add up in the paper."""

from __future__ import annotations

from repro.reports.ibatch import frames_contradictions, frames_gap
from repro.reports.ibatch.published import Published
from repro.reports.ibatch.results import Results
from repro.reports.page import Files, Part, Section


def section(paper: Published, found: Results, files: Files) -> Section:
    """Every printed number that follows from others, what an overlap can save at all, and EXETime."""
    text = (
        "Numbers of the paper that follow from other numbers of it, all computed from the table at the end of this "
        "page. *Off*: what follows over what is printed, less 1."
    )
    table, saved = frames_contradictions.table(paper), frames_contradictions.saved(paper)
    told = (
        "An iteration of N nodes takes N / s iterations of a single node, s the speed-up. With pushes after the "
        "backward pass in all modes (section Scalability), an overlap of pulls with the forward pass saves at most "
        "the shorter of the two. *Half of the default's communication*: its pulls, if pulls and pushes take as long. "
        "*Possible*: with both speed-ups rounded in the paper's favour. What a mode saves beyond that must come from "
        "somewhere else: a default that waits for more than its bytes, for instance."
    )
    return Section("What does not add up", text, [
        Part(tables=[("", files.table(table, "arithmetic", list(table.columns)))]),
        Part("What an overlap can save", tables=[(told, files.table(saved, "saved", ["mode", "speed-ups",
                                                                                     "possible by that overlap"]))]),
        Part("EXETime and the time that passes", text=_exetime(found)),
    ])  # fmt: skip


def _exetime(found: Results) -> str:
    text = (
        "Equation (4) adds all pulls and the forward computation of the last batch. That is the time that passes only "
        "where constraint (5) holds for every batch; where a batch computes longer than the next pull takes, EXETime "
        "leaves the rest of it out."
    )
    every = frames_gap.gaps(found.decided)
    return f"{text} {frames_gap.told(every)}" if len(every) else f"{text} No decision of a run is there yet."
