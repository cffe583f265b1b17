"""Which results the PipeDream page shows, and which speak to a claim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from repro.experiment.papers import entries
from repro.reports import probes
from repro.reports.gathering import AnyGroup, Gathered, read
from repro.reports.groups import Experiment, Group, choose, planned, strangers
from repro.reports.loading import KINDS, Summary
from repro.reports.pipedream import derived, derived_schedules, derived_training  # noqa: F401  they register
from repro.reports.pipedream.stages import PIPEDREAM
from repro.reports.probes import ProbeGroup
from repro.reports.sweeps import choose_places, sweep, widened

PAPER = "pipedream"
# a row of Table 1, or a throughput that section 5.2 gives in the text alone, is an experiment of its own
_MODELS = ("table1-", "throughput-")
EVERY_ROW = tuple(entry.experiment for entry in entries(PAPER) if entry.experiment.startswith(_MODELS))
ROWS = tuple(name for name in EVERY_ROW if not name.endswith("-inputs"))  # those are at the ends of assumed inputs
TABLE_1, FIG1, AT_ENDS, ACCURACY = "table1", "fig1", "inputs", "accuracy-vgg16"
SWEEPS = {TABLE_1: ROWS, FIG1: (FIG1,)}
# In what variants of one experiment may differ: one machine alone, other numbers of machines with their batches, and
# data as long as they need.
SCALES = ("workers", "batch", "train", "test", "checksum", "epochs", "eval_every", "device")
TRAINED = (*SCALES, "optimizer")
FIG8 = Experiment(PAPER, "fig8", {PIPEDREAM: ("pipedream", {})}, varies=SCALES)  # two files, each with its cuts
WITH = {"fig8-measured": FIG8.name}  # results of an experiment that stand with another's
TRAINING = (
    planned(PAPER, "timelines", kinds=("simulated",), varies=SCALES),
    FIG8,
    *(planned(PAPER, name, varies=TRAINED) for name in (ACCURACY, "semantics", "semantics-alexnet")),
    Experiment(PAPER, "memory", {}, varies=(*TRAINED, "model", "parameters")),
)
MEASURED = tuple(planned(PAPER, f"measured-{name}", kinds=("measured",), varies=TRAINED) for name in ("vgg", "alexnet"))
PROBES = {"fig5": "layer_sizes", "configurations": "configurations", "what-if": "configurations"}  # -> its program


@dataclass(frozen=True)
class Results:
    """(experiment, kind) -> what the page shows of it; row of Table 1 -> its runs; all other groups."""

    shown: dict[tuple[str, str], AnyGroup]
    rows: dict[str, ProbeGroup] = field(default_factory=dict)
    accuracy: ProbeGroup | None = None  # epochs of the accuracy runs and times of epochs of Table 1's
    others: list[AnyGroup] = field(default_factory=list)

    @property
    def used(self) -> list[AnyGroup]:
        """Every group in a figure or table."""
        return list(self.shown.values())


def gather(
    summaries: Sequence[Summary], measurements: Sequence[Summary], at_ends: Sequence[Summary] = ()
) -> Results:  # fmt: skip
    """The groups that the page shows, and all others; at_ends: the runs of rows at the ends of assumed inputs."""
    summaries = [run | {"experiment": WITH.get(run["experiment"], run["experiment"])} for run in summaries]
    shown: dict[tuple[str, str], AnyGroup] = {}
    others: list[AnyGroup] = []
    for name, experiments in SWEEPS.items():
        found, rest = sweep([run for run in summaries if run["experiment"] in experiments])
        shown |= {(name, "simulated"): found} if found else {}
        others += rest
    if at_ends:
        shown[AT_ENDS, "simulated"] = ProbeGroup((), tuple(at_ends))
    plain = [run for run in summaries if run["experiment"] not in (*EVERY_ROW, FIG1)]
    known = [widened(experiment, plain) for experiment in (*TRAINING, *MEASURED)]
    for experiment in known:
        of_kinds, rest = _chosen(plain, experiment)
        shown |= {(experiment.name, kind): of_kinds[kind] for kind in KINDS if kind in of_kinds}
        others += rest
    others += strangers(plain, known)
    for name, program in PROBES.items():
        mine = [run for run in measurements if (run["experiment"], run["program"]) == (name, program)]
        of_probe, left = probes.choose(mine, name)
        shown |= {(name, kind): group for kind, group in of_probe.items()}
        others += left
    others += probes.groups([run for run in measurements if PROBES.get(run["experiment"]) != run["program"]])
    table1, trained = shown.get((TABLE_1, "simulated")), shown.get((ACCURACY, "simulated"))
    runs = table1.used() if table1 else []
    rows = {row: tuple(run for run in runs if run["experiment"] == row) for row in ROWS}
    both = ProbeGroup((), (*trained.used(), *runs)) if trained and runs else None
    return Results(shown, {row: ProbeGroup((), of) for row, of in rows.items() if of}, both, others)


def _chosen(summaries: Sequence[Summary], experiment: Experiment) -> tuple[dict[str, Group], list[Group]]:
    """(kind -> the group that is shown, the others); of what was measured in several places, the preferred one's."""
    if experiment.name not in {measured.name for measured in MEASURED}:
        return choose(summaries, experiment)
    places, rest = choose_places(summaries, experiment)
    further = [group for groups in places.values() for group in groups[1:]]
    return {kind: groups[0] for kind, groups in places.items()}, [*further, *rest]


def finder(found: Results) -> Callable[[str, str], AnyGroup | None]:
    """Which results speak to a claim: those that the page shows, of a row its own runs."""

    def find(experiment: str, kind: str) -> AnyGroup | None:
        if kind == "simulated" and experiment in found.rows:
            return found.rows[experiment]
        if kind == "simulated" and experiment == ACCURACY and found.accuracy:
            return found.accuracy
        return found.shown.get((experiment, kind))

    return find


def gathered(results: Path | None) -> Gathered:
    """The results of the page, from a folder alone or from workspace and reference."""
    summaries, measurements, ends = read(PAPER, results)
    found = gather(summaries, measurements, [run for runs in ends.values() for run in runs])
    return Gathered(found, finder(found), ends)
