"""The page's part on scaling: Figures 5, 6 and 7, and what goes beyond the paper."""

from __future__ import annotations

from collections.abc import Sequence

from repro.reports import tables
from repro.reports.batched_pulls import NETWORKS, Scaling
from repro.reports.ibatch import figure_scaling, frames_scaling
from repro.reports.ibatch.experiments import BEYOND, FIG5, FIG6, IMPLIED, LARGEST, OF_FIG6, OF_FIG7, PAPER, SYNC
from repro.reports.ibatch.experiments import files as files_of
from repro.reports.ibatch.frames_measured import synchronisations
from repro.reports.ibatch.published import Published
from repro.reports.ibatch.results import Results
from repro.reports.ibatch.section_case import heading, note, testbeds
from repro.reports.learning import learning, where
from repro.reports.page import Files, Part, Section, not_run
from repro.reports.section_timing import finding
from repro.reporting.stats import DASH, number
from repro.reports.verdicts import Verdict, about

# How claims about Figures 7 and Table 1, and about decisions, begin; those stand elsewhere.
OF_FIGURE7 = ("overlap-", "exposed-", "startup-")
OF_DECISIONS = ("never-below", "greedy-near")
ASKED = "speed-up = nodes x seconds an iteration of a single node over those of the nodes, each with its own minibatch"


def unrun(name: str) -> str:
    """How to get a figure's results."""
    return " ".join(not_run(f"{PAPER}/{file}") for file in files_of(name))


def figure5(found: Results, paper: Published, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Speed-up against nodes, four networks, a figure a testbed."""
    text = (
        f"Iterations an hour over those of a single node ({ASKED}). Pushes follow the backward pass in all three "
        "modes. The paper prints the values on 30 nodes, and of VGG19-22K on 72; no point of its curves was read off."
    )
    mine = [v for v in about(verdicts, FIG5, FIG5 + IMPLIED) if not v.claim.id.startswith((*OF_FIGURE7, *OF_DECISIONS))]
    return _scaling("Figure 5", FIG5, text, list(NETWORKS.values()), found, paper, mine, files)


def figure6(found: Results, paper: Published, verdicts: Sequence[Verdict], files: Files) -> Section:
    """The same with gradient dropping."""
    text = (
        "The same with most of each gradient dropped (Aji and Heafield 2017; how much stands among the deviations), so "
        "that pulls are what is left. The paper prints no value."
    )
    networks = [NETWORKS[ending] for ending in OF_FIG6]
    mine = about(verdicts, FIG6, FIG6 + IMPLIED)
    return _scaling("Figure 6", FIG6, text, networks, found, paper, mine, files)


def _scaling(title: str, family: str, text: str, networks: Sequence[str], found: Results, paper: Published,
             verdicts: Sequence[Verdict], files: Files) -> Section:  # fmt: skip
    groups = testbeds(found, family)
    section = Section(title, family, text if groups else f"{text} {unrun(family)}")
    for name, group in groups:
        frame, place = frames_scaling.speedups(group, paper), tables.hardware(group)
        if family == FIG6:
            frame["paper"] = float("nan")  # Figure 5's, without dropping
        missing = frames_scaling.missing(group, family, networks)
        absent = [n for n in networks if n not in Scaling.of(group.summaries).networks]
        runs = dict(zip(networks, files_of(family), strict=True))
        how = " ".join(not_run(f"{PAPER}/{runs[n]}") for n in absent)
        part = Part(heading(name), f"{missing} {how}".strip())
        if len(frame):
            single = frames_scaling.single_s(group)
            caption = f"Speed-up against nodes, **simulated** ({place}); open markers: the **paper**'s printed values."
            if family == FIG6:
                caption = f"Speed-up against nodes with gradient dropping, **simulated** ({place})."
            drawn = figure_scaling.speedups(
                frame, f"{title}, speed-up against nodes {DASH} SIMULATED: {place}{note(name)}"
                f"{'; PAPER' if frame['paper'].notna().any() else ''}", set(frame["network"]) <= set(single),
            )  # fmt: skip
            part.picture = files.picture(drawn, name, title, caption, {"speed-ups": frame})
            told = ", ".join(f"{network} {number(seconds)} s" for network, seconds in single.items())
            table = files.table(frames_scaling.speedup_table(frame), f"speedups-{name}", ["mode"])
            inner = Part(tables=[(f"**simulated** ({place}). A single node's iteration: {told or 'not run'}.", table)])
            part.folded.append(("In numbers", inner))
        section.parts.append(part)
    section.parts.append(finding(verdicts, family, files))
    return section


def figure7(found: Results, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Stacked bars: overlapping time, communication and computation that do not overlap."""
    text = (
        f"Pulls and forward pass of an iteration on {LARGEST} nodes, decomposed by intersecting the recorded intervals "
        "of each worker (medians over the steps, means over the workers): the runs of Figure 5."
    )
    groups = testbeds(found, FIG5)
    some = [file for file in files_of(FIG5) if file.split("-", 1)[1] in ("inception", "vgg19")]
    missing = " ".join(not_run(f"{PAPER}/{file}") for file in some)
    # of Figure 5's runs, but behind Figure 6
    section = Section("Figure 7", FIG6, text if groups else f"{text} {missing}")
    for name, group in groups:
        frame, place = frames_scaling.decomposed(group), tables.hardware(group)
        absent = [network for network in OF_FIG7 if network not in set(frame["network"])]
        part = Part(heading(name), f"No results on {LARGEST} nodes of {' and '.join(absent)}." if absent else "")
        if len(frame):
            title = f"Figure 7, pulls and forward pass on {LARGEST} nodes {DASH} SIMULATED: {place}{note(name)}"
            caption = f"Execution time decomposed, normalised to the default's, **simulated** ({place})."
            drawn = figure_scaling.decomposed(frame, title)
            stem = name.replace(FIG5, "fig7")
            part.picture = files.picture(drawn, stem, "Figure 7", caption, {"times": frame})
            shown = files.table(frames_scaling.decomposed_table(frame), f"decomposed-{stem}", ["mode"])
            part.tables.append((f"**simulated** ({place}):", shown))
        section.parts.append(part)
    mine = [v for v in about(verdicts, FIG5, FIG5 + IMPLIED) if v.claim.id.startswith(OF_FIGURE7)]
    section.parts.append(finding(mine, "fig7", files))
    return section


def beyond(found: Results, files: Files) -> Section:
    """Pushes during the backward pass, the whole step pipelined, BigDL's placement, the exact optimum."""
    text = (
        f"VGG19 on {LARGEST} nodes. *After*: the paper's Figure 5. *Layer by layer*: wait-free backpropagation "
        "(Poseidon) beside each mode of pulls. *In the pulls' batches*: pushes go in the batches of the pulls, and a "
        "pull begins as soon as its parameters are updated, so that the whole step is a pipeline. *Equal parts of the "
        "vector*: BigDL's placement, in which a layer lies on few servers. *Exact*: the least executed time in the "
        "place of Algorithms 1 and 2. The number under the seconds is over the default with pushes after."
    )
    groups = testbeds(found, BEYOND)
    section = Section("Beyond the paper", BEYOND, text if groups else f"{text} {unrun(BEYOND)}")
    for name, group in groups:
        frame, place = frames_scaling.beyond(group), tables.hardware(group)
        title = f"Pushes and placement, VGG19 on {LARGEST} nodes {DASH} SIMULATED: {place}{note(name)}"
        caption = f"Seconds of an iteration, **simulated** ({place})."
        drawn = figure_scaling.beyond(frame, title)
        picture = files.picture(drawn, name, "Beyond the paper", caption, {"iterations": frame})
        shown = files.table(frames_scaling.beyond_table(frame), f"pushes-{name}", ["pushes", "placement", "batches"])
        section.parts.append(Part(heading(name), picture=picture, tables=[(f"**simulated** ({place}):", shown)]))
    return section


def synchronisation(found: Results, files: Files) -> Section:
    """BSP, SSP and ASP."""
    text = (
        "The parameter server's other synchronisations with pulls in batches: real training of a small network in "
        "virtual time, one random worker of each iteration late. *Staleness*: updates between the pull that a gradient "
        "was computed from and the update that it came into."
    )
    section = Section(
        "BSP, SSP and ASP", SYNC.name, text if found.sync else f"{text} {not_run(f'{PAPER}/{SYNC.name}')}"
    )
    for kind, group in found.sync.items():
        part = Part(f"Synchronisations, {kind}", f"{tables.cell(where(group))}.")
        if not group.timing_only:
            part.picture = learning(group, "BSP, SSP and ASP", f"{SYNC.name}-{kind}", files)
        shown = files.table(synchronisations(group), f"{SYNC.name}-{kind}", ["synchronisation"])
        part.tables.append((f"**{kind}**:", shown))
        section.parts.append(part)
    return section
