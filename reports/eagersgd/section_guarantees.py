"""The page's part on what the rounds held (Lemma 5.1), the quorum spectrum, and what goes beyond the paper."""

from __future__ import annotations

from collections.abc import Sequence

from repro.reports import tables
from repro.reports.eagersgd import figure_guarantees, frames_guarantees
from repro.reports.eagersgd.experiments import BEYOND, PAPER, QUORUM, SHOWN
from repro.reports.eagersgd.results import Results
from repro.reports.eagersgd.section_imbalance import about
from repro.reports.eagersgd.section_training import eager_runs, part, where
from repro.reports.page import Files, Part, Section, not_run
from repro.reports.section_timing import finding
from repro.reporting.stats import DASH
from repro.reports.verdicts import Verdict

GUARANTEES = ("conservation", "active_ranks", "staleness_explained", "missed_results")
TEXT = (
    "What the counters of every eager run say of Lemma 5.1. A local gradient is *accepted* into a round, still "
    "*pending* in the send buffer at the end, or *dropped* (only with `late=drop`); the three must add up to all of "
    "them (*accounted for* 1). *NAP*: ranks that contribute to a round in time. A rank that is late by two rounds "
    "finds the latest result only: the one between was *missed*, and the latest is *repeated* at its next step; its "
    "weights drift until the next model synchronisation. Staleness counts the rounds between a gradient's step and the "
    "round that accepted it; *one delay explains*: the longest injected delay over the mean computation of a step, and "
    "one (delays of one rank in a row add up)."
)


def rounds(found: Results, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Counters, and staleness by rank, of all eager runs."""
    there = eager_runs(found.training)
    section = Section("What the rounds held", QUORUM.name, TEXT if there else f"{TEXT} No eager run has results yet.")
    for name, group in there:
        label = f"{SHOWN[name]}, {group.kind}"
        made = Part(label)
        table = frames_guarantees.counters(group)
        shown = files.table(table, f"rounds-{name}-{group.kind}", ["setting"])
        made.tables.append((f"**{group.kind}**, {tables.cell(where(group, False))}:", shown))
        ages = frames_guarantees.staleness(group)
        if len(ages):
            title = f"Staleness by rank, {label} {DASH} {group.kind.upper()}: {tables.hardware(group)}"
            caption = f"How stale the accepted gradients of each rank were, {SHOWN[name]}, **{group.kind}**, all seeds."
            drawn = figure_guarantees.staleness(ages, title)
            stem = f"staleness-{name}-{group.kind}"
            inner = Part(picture=files.picture(drawn, stem, f"Staleness, {label}", caption, {"staleness": ages}))
            made.folded.append((f"{label}: staleness by rank", inner))
        section.parts.append(made)
    mine = [verdict for verdict in verdicts if verdict.claim.compute in GUARANTEES]
    section.parts.append(finding(mine, "rounds", files))
    return section


def quorum(found: Results, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Latency and accuracy against q."""
    text = (
        "Section 8 leaves other quorum sizes as future work: a round starts when q ranks have come to it. q = 1 is "
        "solo, q = P waits for all as a synchronous allreduce does; majority stands at the middle, where it is in "
        "expectation. No claim of the paper."
    )
    groups = found.training[QUORUM.name]
    section = Section("Quorum spectrum", QUORUM.name, text if groups else f"{text} {not_run(f'{PAPER}/{QUORUM.name}')}")
    for kind, group in groups.items():
        table = frames_guarantees.quorum(group)
        title = f"Quorum spectrum {DASH} {kind.upper()}: {where(group, False)}"
        caption = f"Time of a step, active processes, staleness and accuracy against q, **{kind}**, every seed."
        drawn = figure_guarantees.quorum(table, group.metric, title)
        picture = files.picture(drawn, f"quorum-{kind}", f"Quorum spectrum, {kind}", caption, {"quorum": table})
        shown = files.table(frames_guarantees.quorum_table(table, group.metric), f"quorum-{kind}", ["setting"])
        note = f"In numbers, **{kind}**, {tables.cell(where(group, False))}:"
        section.parts.append(Part(kind.capitalize(), picture=picture, tables=[(note, shown)]))
    section.parts.append(finding(about(verdicts, QUORUM.name), QUORUM.name, files))
    return section


def beyond(found: Results, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Eager with codecs, with top-k, with late gradients dropped."""
    text = (
        "Eager-SGD with quantised contributions, with top-k, and with late gradients dropped as in the released code. "
        "No claim of the paper."
    )
    groups = found.training[BEYOND.name]
    section = Section(
        "Beyond the paper", BEYOND.name, text if groups else f"{text} {not_run(f'{PAPER}/{BEYOND.name}')}"
    )
    section.parts += [part(section.title, BEYOND, "beyond the paper", group, files) for group in groups.values()]
    section.parts.append(finding(about(verdicts, BEYOND.name), BEYOND.name, files))
    return section
