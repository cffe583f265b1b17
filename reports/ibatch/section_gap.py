"""The page's part on decisions: greedy against exact, and predicted against executed time."""

from __future__ import annotations

from collections.abc import Sequence

from repro.reports.ibatch import figure_gap, frames_gap
from repro.reports.ibatch.experiments import FIG5, IMPLIED, PAPER, PLACES, RANDOM
from repro.reports.ibatch.experiments import files as files_of
from repro.reports.ibatch.results import Results
from repro.reports.ibatch.section_scaling import OF_DECISIONS
from repro.reports.page import Files, Part, Section, not_run
from repro.reports.section_timing import finding
from repro.reporting.stats import DASH
from repro.reports.verdicts import Verdict, about


def greedy(found: Results, verdicts: Sequence[Verdict], files: Files) -> Section:
    """The gap a network and cluster size, and for random profiles."""
    text = (
        "*Executed time*: when the forward pass ends if pulls follow each other and a batch computes as soon as its "
        "pull and the batch before it are done. *Least possible*: its minimum over all batches, by dynamic "
        "programming. *Gap*: executed time of the greedy batches (the better of Algorithms 1 and 2 by the paper's "
        "EXETime) over the least possible, less 1; both from the same profile."
    )
    section = Section("Greedy and exact", RANDOM, text)
    section.parts += [_clusters(found, files), _random(found, files)]
    mine = [v for v in about(verdicts, FIG5, FIG5 + IMPLIED) if v.claim.id.startswith(OF_DECISIONS)]
    section.parts.append(finding([*mine, *about(verdicts, RANDOM)], "gap", files))
    return section


def _clusters(found: Results, files: Files) -> Part:
    part = Part("Networks and cluster sizes")
    every = frames_gap.gaps(found.decided)
    scaling = every[every["experiment"].str.startswith(f"{FIG5}-")]
    if not len(every):
        part.text = "No run has a decision yet. " + " ".join(not_run(f"{PAPER}/{file}") for file in files_of(FIG5))
        return part
    if len(scaling):
        places = ", ".join(dict.fromkeys(scaling["testbed"]))
        title = f"Gap of the greedy decision to the least executed time {DASH} SIMULATED: modelled: {places}"
        caption = f"Executed time of the greedy batches over the least possible, less 1, **simulated** ({places})."
        drawn = figure_gap.clusters(scaling, title)
        part.picture = files.picture(drawn, "gap", "Greedy and exact", caption, {"gaps": scaling})
    table = frames_gap.gap_table(every)
    inner = Part(tables=[("", files.table(table, "gap", ["kind", "testbed", "experiment", "network", "batches"]))])
    part.folded.append(("Every decision", inner))
    part.text = frames_gap.told(every)
    return part


def _random(found: Results, files: Files) -> Part:
    groups = found.probes[RANDOM]
    if not groups:
        return Part("Random profiles", not_run(f"{PAPER}/{RANDOM}"))
    group = next(iter(groups.values()))
    frame = frames_gap.random(group)
    title = f"Greedy decisions on random profiles {DASH} {group.kind.upper()}: computed, nothing is timed"
    caption = (
        "How often greedy's batches execute in the least possible time, and the 95th percentile of the gap, by family "
        f"of profiles, layers and startup time (**{group.kind}**: computed)."
    )
    part = Part("Random profiles")
    part.picture = files.picture(figure_gap.random(frame, title), "gap-random", "Random profiles", caption,
                                 {"profiles": frame})  # fmt: skip
    total = files.table(frames_gap.random_total(group), "gap-random-total", ["batches of"])
    told = "All profiles. *constrained*: the optimum of (4) under (5) with two or more batches, where there is one."
    part.tables.append((told, total))
    shown = files.table(frames_gap.random_table(group), "gap-random", ["family"])
    told = (
        "*No pair*: none meets (5) at line 3. *EXETime takes the longer*: of both algorithms' batches it takes those "
        "that execute in more time."
    )
    part.folded.append(("By family, layers and startup time", Part(tables=[(told, shown)])))
    return part


def predicted(found: Results, files: Files) -> Section:
    """The pipeline model against what passed."""
    text = (
        "Across: the executed time that the pipeline model predicts for a run's batches, from the profile that the "
        "same run measured before training; up: from the first pull asked to the end of the forward pass, as "
        "recorded. Runs with pushes after the backward pass, whose pulls wait for nothing but themselves."
    )
    frame = frames_gap.predictions(found.decided)
    section = Section(
        "Predicted against executed time", PLACES[0].name, text if len(frame) else f"{text} No run has both yet."
    )
    if len(frame):
        kinds = list(dict.fromkeys(frame["kind"]))
        places = ", ".join(dict.fromkeys(frame["testbed"]))
        title = f"Predicted against executed time {DASH} {' and '.join(kind.upper() for kind in kinds)}: {places}"
        told = " and ".join(f"**{kind}**" for kind in kinds)
        caption = f"Every run with a profile, {told} ({places}): filled simulated, open measured."
        drawn = figure_gap.predictions(frame, title)
        picture = files.picture(drawn, "predicted", "Predicted against executed", caption, {"runs": frame})
        shown = files.table(frames_gap.errors(frame), "predicted", ["testbed", "mode"])
        note = "Observed over predicted, less 1:"
        section.parts.append(Part(picture=picture, tables=[(note, shown)]))
    return section
