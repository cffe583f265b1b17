"""The page's part on load imbalance: Table 1, Figures 2, 3 and 4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from repro.reports import histograms, tables
from repro.reports.compute_imbalance import made_up
from repro.reports.eagersgd import frames_imbalance as frames
from repro.reports.eagersgd.experiments import FIG2, FIG2_LENGTHS, FIG3, FIG4, PAPER, PROBE_KINDS
from repro.reports.eagersgd.published import Published
from repro.reports.eagersgd.results import Results
from repro.reports.histograms import Distribution
from repro.reports.page import Files, Part, Section, not_run
from repro.reports.probes import ProbeGroup
from repro.reports.section_timing import finding
from repro.reporting.stats import DASH, number
from repro.reports.verdicts import Verdict

Groups = Mapping[str, ProbeGroup]  # kind -> group


def about(verdicts: Sequence[Verdict], *experiments: str) -> list[Verdict]:
    return [verdict for verdict in verdicts if verdict.claim.experiment in experiments]


def unrun(experiment: str, groups: Groups) -> str:
    """What to run for what is not there; nothing where all is."""
    if not groups:
        return not_run(f"{PAPER}/{experiment}")
    kinds = PROBE_KINDS.get(experiment, ("measured",))
    return " ".join(not_run(f"{PAPER}/{experiment}", kind) for kind in kinds if kind not in groups)


def table1(paper: Published, found: Results, files: Files) -> Section:
    """Table 1 with the parameters of the models that ran."""
    text = (
        "The networks and data of the evaluation. Parameters are counted in the models that ran, at whatever scale "
        "(*at full size*: one of them has the paper's); that the models have the paper's numbers is a test too."
    )
    table = frames.table1(paper, found)
    left = ["task", "model", "parameters of the models that ran", "equal"]
    return Section("Table 1", "", text, [Part(tables=[("", files.table(table, "table1", left))])])


def figure2(found: Results, paper: Published, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Lengths of UCF101's videos, runtimes of the LSTM's batches."""
    lengths, runtimes = found.probes[FIG2_LENGTHS], found.probes[FIG2]
    missing = [line for name in (FIG2_LENGTHS, FIG2) if (line := unrun(name, found.probes[name]))]
    text = (
        "Load imbalance of video classification: (a) how many frames the videos of UCF101 have, (b) how long a batch "
        "of the LSTM takes. Machines differ, so runtimes are drawn over their mean."
    )
    section = Section("Figure 2", FIG2_LENGTHS, " ".join([text, *missing]))
    section.parts += [_lengths(group, paper, files) for group in lengths.values()]
    if lengths:
        table = files.table(frames.length_table(lengths, paper), "lengths", ["kind", "split", "data"])
        section.parts.append(Part(tables=[("Lengths in frames; the standard deviation is of the whole split.", table)]))
    section.parts += [_runtimes(FIG2, group, paper, files) for group in runtimes.values()]
    section.parts.append(finding(about(verdicts, FIG2_LENGTHS, FIG2), "figure2", files))
    return section


def _lengths(group: ProbeGroup, paper: Published, files: Files) -> Part:
    import pandas as pd

    kind, data = group.kind, group.first["dataset"]
    standin = " (STAND-IN: drawn from the paper's distribution)" if made_up(group) else ""
    printed, splits = paper.statistics("Figure 2", "lengths"), frames.lengths(group)
    panels = [
        Distribution(f"{name}: {split['n']:,} videos", "frames", frames.length_bars(split), printed, split)
        for name, split in splits.items()
    ]
    title = f"Figure 2 (a), lengths of the videos of {data['name']}{standin} {DASH} {kind.upper()} and PAPER"
    caption = (
        f"How many frames the videos have, counted in {data['name']}{standin}, **{kind}**, beside the **paper**'s "
        "range, median and standard deviation (of its training data)."
    )
    every = pd.concat([panel.bars.assign(split=name) for name, panel in zip(splits, panels, strict=True)])
    drawn = histograms.draw(panels, title)
    return Part(picture=files.picture(drawn, f"fig2-lengths-{kind}", "Figure 2 (a)", caption, {"lengths": every}))


def runtimes(
    title: str, experiment: str, text: str, found: Results, paper: Published, verdicts: Sequence[Verdict], files: Files
) -> Section:
    """Figure 3 or 4."""
    groups = found.probes[experiment]
    section = Section(title, experiment, f"{text} {unrun(experiment, groups)}".strip())
    section.parts += [_runtimes(experiment, group, paper, files) for group in groups.values()]
    section.parts.append(finding(about(verdicts, experiment), experiment, files))
    return section


def _runtimes(experiment: str, group: ProbeGroup, paper: Published, files: Files) -> Part:
    kind, (_, title, what) = group.kind, frames.RUNTIMES[experiment]
    result = group.first["result"]
    statistics, bars = result["statistics"], frames.over_mean(group)
    ours = {name: statistics[name] / statistics["mean"] for name in ("min", "max", "mean", "sd")}
    panel = Distribution(result["what"], "runtime of a batch over the mean", bars,
                         frames.printed_over_mean(paper, experiment), ours)  # fmt: skip
    above = f"{title}, runtimes of batches {DASH} {kind.upper()}: {tables.hardware(group)}; PAPER"
    caption = (
        f"Runtimes of {statistics['n']:,} batches over their mean of {number(1e3 * statistics['mean'])} ms, "
        f"**{kind}** ({tables.hardware(group)}), beside the **paper**'s statistics of {what} over its mean."
    )
    drawn = histograms.draw([panel], above)
    picture = files.picture(drawn, f"{experiment}-{kind}", title, caption, {"runtimes": bars})
    return Part(text=tables.cell(result.get("unit_note") or ""), picture=picture)


def figure34(found: Results, paper: Published, verdicts: Sequence[Verdict], files: Files) -> list[Section]:
    """Figures 3 and 4, and all runtimes in one table."""
    three = (
        "Runtimes of a Transformer's batches (section 2.2). The paper's are of WMT16; what ran here, and with which "
        "lengths of sentences, stands above the picture."
    )
    four = (
        "Runtimes in the cloud (section 2.3): every batch has the same size, so the imbalance is the system's. The "
        "injector `cloud` draws from these four statistics."
    )
    last = runtimes("Figure 4", FIG4, four, found, paper, verdicts, files)
    table = frames.runtime_table({name: found.probes[name] for name in frames.RUNTIMES}, paper)
    note = "Figures 2 (b), 3 and 4 in numbers: milliseconds on different machines, and the same over their mean."
    last.parts.append(Part(tables=[(note, files.table(table, "runtimes", ["figure", "kind", "what"]))]))
    return [runtimes("Figure 3", FIG3, three, found, paper, verdicts, files), last]
