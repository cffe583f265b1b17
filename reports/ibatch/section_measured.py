"""The page's part on what was measured here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from repro.reports import places, tables
from repro.reports.groups import Experiment, Group
from repro.reports.ibatch import figure_gap, frames_measured
from repro.reports.ibatch.experiments import PAPER, PLACES, WHAT
from repro.reports.ibatch.results import Results
from repro.reports.page import Files, Part, Section
from repro.reporting.stats import DASH
from repro.reports.verdicts import Verdict


def measured(found: Results, verdicts: Sequence[Verdict], files: Files) -> Section:
    """Small networks on 2 to 4 real ranks, a part a network and place."""
    text = (
        "Real ranks, real messages, wall clock: small networks on 2 to 4 ranks, each worker and server; every run "
        "measures its profile on the fabric in use, and iBatch decides from it. Claims are judged on the shaped "
        "network at 1 Gbit/s where there is one."
    )
    groups = [(experiment, found.places[experiment.name]) for experiment in PLACES]
    return places.section(PAPER, text, groups, partial(_place, files=files), verdicts, files)


def _place(experiment: Experiment, group: Group, files: Files) -> Part:
    testbed, what = group.first["testbed"], WHAT[experiment.name]
    name, part = places.file_name(experiment, group), places.started(what, group)
    part.text += f" {frames_measured.weights(group)}"
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
