"""The page's part on what was measured here."""

from __future__ import annotations

from collections.abc import Sequence

from reports import tables
from reports.groups import Experiment, Group
from reports.ibatch import figure_gap, frames_measured
from reports.ibatch.experiments import PAPER, PLACES, WHAT
from reports.ibatch.results import Results
from reports.learning import where
from reports.page import Files, Part, Section, not_run, slug
from reports.section_timing import finding
from reports.stats import DASH
from reports.sweeps import PREFERRED
from reports.verdicts import Verdict, about


def measured(found: Results, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Small networks on 2 to 4 real ranks, a part a network and place."""
    text = (
        "Real ranks, real messages, wall clock: small networks on 2 to 4 ranks, each worker and server; every run "
        "measures its profile on the fabric in use, and iBatch decides from it. Claims are judged on the shaped "
        "network at 1 Gbit/s where there is one."
    )
    missing = [not_run(f"{PAPER}/{e.name}", "measured") for e in PLACES if not found.places[e.name].get("measured")]
    section = Section("Measured here", " ".join([text, *missing]))
    for experiment in PLACES:
        for groups in found.places[experiment.name].values():
            section.parts += [_place(experiment, group, files) for group in groups]
    section.parts.append(finding(about(verdicts, *(e.name for e in PLACES)), "measured", files))
    return section


def _place(experiment: Experiment, group: Group, files: Files) -> Part:
    testbed, what = group.first["testbed"], WHAT[experiment.name]
    name = f"{experiment.name}-{slug(testbed)}-{slug(str(group.first['hardware']['class']))}"
    judged = ", by which claims are judged" if testbed.startswith(PREFERRED) else ""
    part = Part(f"{what}, {group.kind}, {testbed}", f"{tables.cell(where(group))}; testbed {testbed}{judged}. "
                f"{frames_measured.weights(group)}")  # fmt: skip
    frame = frames_measured.iterations(group)
    if len(frame):
        title = f"{what}, time of an iteration {DASH} {group.kind.upper()}: {tables.hardware(group)}, {testbed}"
        caption = f"Milliseconds of an iteration, **{group.kind}** ({tables.hardware(group)}, testbed {testbed})."
        drawn = figure_gap.measured({f"{what} on {testbed}": frame}, title)
        part.picture = files.picture(drawn, name, f"{what}, iterations", caption, {"iterations": frame})
    shown = files.table(frames_measured.runs(group), f"runs-{name}", ["mode", "batches"])
    told = (
        f"**{group.kind}**. *Predicted*: by the pipeline model from the run's own profile. Pulls, forward pass and "
        "overlap are medians over the steps, means over the workers."
    )
    part.tables.append((told, shown))
    phases = files.table(tables.breakdown(group), f"breakdown-{name}", ["setting"])
    part.folded.append((f"{what} on {testbed}: breakdown of an iteration in milliseconds",
                        Part(text="Means over the ranks.", tables=[("", phases)])))  # fmt: skip
    return part
