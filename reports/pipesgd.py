"""The Pipe-SGD page: Figure 4's MNIST row, its claims and tables, once from measured and once from simulated runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports import figure4, frames, provenance, tables, timeline
from reports.claims import read_claims
from reports.groups import KINDS, Experiment, Group, Summary, choose, experiment_group, length, load
from reports.render import template, write_page
from reports.stats import DASH
from reports.style import save, write_csv, write_text
from reports.verdicts import NOT_ATTEMPTED, VERDICTS, Verdict, judge_all
from repro.errors import InputError
from repro.paths import CONFIGS

if TYPE_CHECKING:
    import pandas as pd

PAPER = "pipesgd"
_PIPE = {"K": 2, "algorithm": "ring", "warmup_epochs": 0}
FIG4 = Experiment(PAPER, "fig4-mnist", {
    "PS-Sync": ("ps_sync", {}),
    "D-Sync": ("dsync", {"codec": "none", "algorithm": "ring"}),
    "D-Sync + T": ("dsync", {"codec": "truncate16", "algorithm": "ring"}),
    "D-Sync + Q": ("dsync", {"codec": "quantize8", "algorithm": "ring"}),
    "Pipe-SGD": ("pipe_sgd", {"codec": "none", **_PIPE}),
    "Pipe-SGD + T": ("pipe_sgd", {"codec": "truncate16", **_PIPE}),
    "Pipe-SGD + Q": ("pipe_sgd", {"codec": "quantize8", **_PIPE}),
})  # fmt: skip
# Section 4, "Datasets" and "Metrics and Setup"; the parameters are those of 784-500-500-10 with biases.
STATED = {
    "dataset": "MNIST",
    "train": 60_000,
    "test": 10_000,
    "workers": 4,
    "batch": 100,
    "parameters": 648_010,
    "hardware": "four nodes, each a Titan XP and a Xeon E5-2640, one more as server, 10 Gbit/s Ethernet",
}
TIMELINE = ["D-Sync", "Pipe-SGD"]


def build(results: Path | None, out: Path) -> tuple[list[Path], list[Path], dict[str, Any]]:
    """(pages, other files, what the overview says): everything about Pipe-SGD under `out`."""
    summaries = load(PAPER, results)
    chosen, others = choose(summaries, FIG4)
    content = read_claims(PAPER)
    verdicts = judge_all(content.claims, _finder(summaries, chosen))
    spoken, rest = tables.split(verdicts, FIG4.name)
    quoted = reference()
    metric = _quoted_metric(quoted)

    files: list[Path] = []
    kinds = [_kind(group, metric, out, files) for group in chosen.values()]
    header = provenance.header(chosen) if chosen else None
    made = {"claims": tables.claims(spoken), "claims-not-attempted": tables.unattempted(rest), "reference": quoted}
    if header is not None:
        made["provenance"] = header
    for name, table in made.items():
        files.append(write_text(_tex(out, name), tables.latex(table)))

    standins = sorted({g.first["dataset"]["name"] for g in chosen.values() if g.standin})
    text = template(
        "pipesgd.md.j2",
        experiment=f"{PAPER}/{FIG4.name}",
        kinds=kinds,
        glance=_glance(spoken, rest, chosen),
        standin=f"{' and '.join(standins)} is not {STATED['dataset']}." if standins else "",
        provenance=tables.markdown(header, left=list(chosen)) if header is not None else "",
        claims=tables.markdown(made["claims"], left=list(made["claims"].columns)),
        unattempted=tables.markdown(made["claims-not-attempted"], left=list(made["claims-not-attempted"].columns)),
        reference=tables.markdown(quoted, left=[c for c in quoted.columns if c != "value"]),
        deviations=content.deviations,
        contradictions=content.contradictions,
        others=tables.markdown(tables.others(others), left=list(tables.others(others).columns)) if others else "",
    )
    pages = write_page(text, PAPER, out)
    return (
        pages,
        files,
        {
            "verdicts": verdicts,
            "kinds": list(chosen),
            "standins": standins,
            "settings": {kind: len(group.covered()) for kind, group in chosen.items()},
        },
    )


def _finder(summaries: list[Summary], chosen: dict[str, Group]):
    def find(experiment: str, kind: str) -> Group | None:
        return chosen.get(kind) if experiment == FIG4.name else experiment_group(summaries, experiment, kind)

    return find


def reference(path: Path | None = None) -> pd.DataFrame:
    """The paper's numbers, as text, each with its source."""
    import pandas as pd

    path = path or CONFIGS / "reference" / f"{PAPER}.csv"
    try:
        return pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable table ({error})") from None


def _quoted_metric(quoted: pd.DataFrame) -> dict[str, str]:
    row = (quoted["place"] == "Figure 4") & (quoted["row"] == "MNIST-MLP")
    rows = quoted[row & (quoted["quantity"] == "final top-1")]
    return dict(zip(rows["setting"], rows["value"], strict=True))


def _kind(group: Group, metric: dict[str, str], out: Path, files: list[Path]) -> dict[str, Any]:
    """Draw and write all that belongs to one kind; what the template needs of it."""
    kind = group.kind
    figures = out / "figures" / PAPER
    points = frames.curves(group)
    median, bars = frames.bands(points), frames.breakdown(group)
    goals = [float(goal) for goal in frames.targets(group)]
    where = f"{group.first['dataset']['name']}, {length(group)}, {tables.hardware(group)}, {_band(group)}"

    row, paired, lines = f"fig4-mnist-{kind}", f"convergence-{kind}", f"timeline-{kind}"
    files += save(
        figure4.row(points, median, bars, goals, f"Figure 4, MNIST-MLP — {kind.upper()}: {where}"), figures / row
    )
    files += [
        write_csv(points, figures / f"{row}-curves.csv"),
        write_csv(median, figures / f"{row}-bands.csv"),
        write_csv(bars, figures / f"{row}-breakdown.csv"),
    ]
    files += save(
        figure4.convergence(points, median, goals, f"Convergence, MNIST-MLP — {kind.upper()}: {where}"),
        figures / paired,
    )
    files.append(write_csv(median, figures / f"{paired}.csv"))

    intervals = frames.trace(group, TIMELINE)
    chrome = []
    if len(intervals):
        files += save(timeline.draw(intervals, f"Timeline — {kind.upper()}: {tables.hardware(group)}"), figures / lines)
        files.append(write_csv(intervals, figures / f"{lines}.csv"))
        for name, own in intervals.groupby("setting", sort=False):
            path = figures / f"trace-{kind}-{name.lower().replace(' + ', '-')}.json"
            files.append(write_text(path, timeline.chrome(own)))
            chrome.append((name, f"figures/{PAPER}/{path.name}"))

    settings, breakdown = tables.settings(group, metric), tables.breakdown(group)
    files += [
        write_text(_tex(out, f"settings-{kind}"), tables.latex(settings)),
        write_text(_tex(out, f"breakdown-{kind}"), tables.latex(breakdown)),
    ]
    testbed = tables.testbed_parameters(group) if kind == "simulated" else ()
    if len(testbed):
        files.append(write_text(_tex(out, "testbed"), tables.latex(testbed)))
    return {
        "name": kind, "figure": f"figures/{PAPER}/{row}", "convergence": f"figures/{PAPER}/{paired}",
        "timeline": f"figures/{PAPER}/{lines}" if len(intervals) else "", "chrome": chrome,
        "where": f"{kind.capitalize()}: {tables.cell(where)}; {len(group.covered())} of {len(group.settings)} "
                 "settings.",
        "band": _band(group),
        "phases": "from separate breakdown cells" if bars["breakdown_cells"].any() else "from the same cells",
        "settings": tables.markdown(settings, left=["setting"]),
        "breakdown": tables.markdown(breakdown, left=["setting"]),
        "testbed": tables.markdown(testbed, left=["source"]) if len(testbed) else "",
        "deviations": [tables.cell(line) for line in provenance.deviations(group, STATED)],
    }  # fmt: skip


def _band(group: Group) -> str:
    counts = {len(group.runs(name)) for name in group.covered()}
    if counts == {1}:
        return "one seed, no band"
    if min(counts) >= 5:
        return "bootstrap 95 % band"
    return f"min{DASH}max band" + ("" if max(counts) < 5 else " (bootstrap 95 % from five seeds)")


def _glance(spoken: list[Verdict], rest: list[Verdict], chosen: dict[str, Group]) -> str:
    """Counts of verdicts by kind, then the two headline speed-ups."""
    import pandas as pd

    rows = []
    for kind in KINDS:
        counts = Counter(v.label for v in spoken if v.kind == kind)
        provisional = sum("provisional" in v.text for v in spoken if v.kind == kind and v.label != NOT_ATTEMPTED)
        rows.append(
            {
                "kind": kind,
                **{name: counts[name] for name in VERDICTS},
                "of these provisional": provisional,
                **{
                    _headline(v): v.ours_text
                    for v in spoken
                    if v.kind == kind and v.claim.id in ("speedup-vs-dsync", "speedup-vs-ps")
                },
            }
        )
    text = tables.markdown(pd.DataFrame(rows).astype(str), left=())
    ours, every = ({v.claim.id for v in some} for some in (spoken, (*spoken, *rest)))
    return (
        f"{text}\n\nOf {len(every)} claims, {len(ours)} are ones that"
        f" {PAPER}/{FIG4.name} can speak to{'' if chosen else ', once it has run'}."
    )


def _headline(verdict: Verdict) -> str:
    base = "D-Sync" if verdict.claim.id == "speedup-vs-dsync" else "PS-Sync"
    return f"Pipe-SGD + T/Q vs {base} (paper {verdict.claim.shown})"


def _tex(out: Path, name: str) -> Path:
    return out / "tables" / PAPER / f"{name}.tex"
