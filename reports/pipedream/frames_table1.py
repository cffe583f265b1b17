"""Table 1 and Figure 13 as data frames: the paper's numbers, the configuration found, and the one that is printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repro.reports.pipedream.experiments import BY_NAME, CLUSTERS, OF_A_ROW, TABLE, Row
from repro.reports.pipedream.published import OVER_BSP, OVER_ONE, OVERHEAD, REDUCTION, Published
from repro.reports.pipelines import ALLREDUCE, BSP, GIVEN, MODEL, PIPEDREAM, SINGLE, STRAIGHT, Runs, pipeline
from repro.reporting.stats import DASH, TIMES, number

if TYPE_CHECKING:
    import pandas as pd

FOUND, PRINTED = "simulated, configuration found", "simulated, configuration printed"
FIGURE13 = {MODEL: "model parallelism", BSP: "data parallelism (BSP)", STRAIGHT: "straight pipeline",
            PIPEDREAM: "PipeDream"}  # fmt: skip


def times(value: float | None) -> str:
    """`2.35×`, or a dash."""
    return DASH if value is None else number(value) + TIMES


def percent(value: float | None) -> str:
    """`72 %` of 0.72, or a dash."""
    return DASH if value is None else f"{100 * value:.3g} %"


def printed(text: str | None, unit: str = "") -> str:
    return DASH if text is None else text + unit


def table1(runs: Runs | None, paper: Published) -> pd.DataFrame:
    """A line of the paper and one or two of ours for each row of Table 1 and for AlexNet and ResNet-50."""
    import pandas as pd

    lines = []
    for row in TABLE:
        place = {"model": row.model, "machines": str(row.machines), "cluster": row.cluster}
        lines.append(place | {"source": "paper"} | _of_paper(row, paper))
        if runs is None:
            continue
        for source, variant in ((FOUND, PIPEDREAM), (PRINTED, GIVEN)):
            if runs.one(row.name, variant) or (variant == PIPEDREAM and runs.one(row.name, BSP)):
                lines.append(place | {"source": source} | _of_runs(row, runs, variant))
    return pd.DataFrame(lines)


def _of_paper(row: Row, paper: Published) -> dict[str, str]:
    return {
        "configuration": printed(paper.configuration(row)),
        "BSP over 1 machine": printed(paper.row(row, BSP, OVER_ONE), TIMES),
        "PipeDream over 1 machine": printed(paper.row(row, PIPEDREAM, OVER_ONE), TIMES),
        "PipeDream over BSP": printed(paper.row(row, PIPEDREAM, OVER_BSP), TIMES),
        "over BSP by allreduce": DASH,
        "bytes less than BSP": printed(paper.row(row, PIPEDREAM, REDUCTION), " %"),
        "overhead of BSP": printed(paper.row(row, BSP, OVERHEAD), " %"),
    }


def _of_runs(row: Row, runs: Runs, variant: str) -> dict[str, str]:
    return {
        "configuration": runs.configuration(row.name, variant) or DASH,
        "BSP over 1 machine": times(runs.speedup(row.name, BSP, SINGLE)),
        "PipeDream over 1 machine": times(runs.speedup(row.name, variant, SINGLE)),
        "PipeDream over BSP": times(runs.speedup(row.name, variant, BSP)),
        "over BSP by allreduce": times(runs.speedup(row.name, variant, ALLREDUCE)),
        "bytes less than BSP": percent(runs.reduction(row.name, variant, BSP)),
        "overhead of BSP": percent(runs.overhead(row.name)),
    }


def bars(runs: Runs, paper: Published) -> pd.DataFrame:
    """A row a row of the table and variant: speed-up over one machine, and the paper's where it prints one."""
    import pandas as pd

    rows = []
    for row in TABLE:
        for variant in (BSP, PIPEDREAM, GIVEN):
            value = runs.speedup(row.name, variant, SINGLE)
            written = PIPEDREAM if variant == GIVEN else variant
            rows.append(
                {
                    "row": row.label,
                    "machines": row.machines,
                    "setting": variant,
                    "configuration": runs.configuration(row.name, variant),
                    "simulated": value,
                    "paper": paper.number(row, written, OVER_ONE),
                }
            )
    frame = pd.DataFrame(rows).astype({"simulated": float, "paper": float})
    there = frame.groupby("row")["simulated"].transform(lambda some: some.notna().any())
    return frame[there].reset_index(drop=True)


def figure13(runs: Runs, paper: Published) -> pd.DataFrame:
    """A row an approach and number of machines: VGG16 on cluster A, speed-up over one machine, ours and the paper's."""
    import pandas as pd

    rows = []
    for name in ("table1-vgg16-4a", "table1-vgg16-8a"):
        row = BY_NAME[name]
        for variant, what in FIGURE13.items():
            rows.append(
                {
                    "machines": row.machines,
                    "setting": variant,
                    "approach": what,
                    "configuration": runs.configuration(name, variant),
                    "simulated": runs.speedup(name, variant, SINGLE),
                    "paper": paper.number(row, variant, OVER_ONE),
                }
            )
    return pd.DataFrame(rows).astype({"simulated": float, "paper": float})


def figure13_table(found: pd.DataFrame) -> pd.DataFrame:
    """The same as text."""
    import pandas as pd

    def text(value: float) -> str:
        return times(None if value != value else value)

    return pd.DataFrame(
        {
            "machines": found["machines"].astype(str),
            "approach": found["approach"],
            "configuration": found["configuration"].replace("", DASH),
            "over 1 machine, paper": found["paper"].map(text),
            "simulated": found["simulated"].map(text),
        }
    )


def details(runs: Runs) -> pd.DataFrame:
    """A row a row of the table and variant that ran: time of an iteration, throughput, speed-ups, bytes, stages."""
    import pandas as pd

    rows = []
    for row in TABLE:
        known = [variant for name, variant in runs.summaries if name == row.name]
        for variant in sorted(known, key=lambda s: (OF_A_ROW.index(s) if s in OF_A_ROW else len(OF_A_ROW), s)):
            run, config = runs.one(row.name, variant), runs.configuration(row.name, variant)
            rows.append(
                {
                    "row": row.label,
                    "setting": variant,
                    "configuration": config or DASH,
                    "cut before block": cuts(pipeline(run)),
                    "NOAM": str(pipeline(run).get("noam", DASH)),
                    "batch": str(run["batch"]),
                    "iteration (ms)": number(1e3 * run["step"]["mean_s"], 4),
                    "samples/s": number(runs.rate(row.name, variant), 4),
                    "over 1 machine": times(runs.speedup(row.name, variant, SINGLE)),
                    "over BSP": times(runs.speedup(row.name, variant, BSP)),
                    "over BSP by allreduce": times(runs.speedup(row.name, variant, ALLREDUCE)),
                    "sent an iteration (MB)": number(1e-6 * run["bytes_sent"] * run.get("ranks", run["workers"]), 4),
                    "overhead": percent(runs.overhead(row.name, variant)),
                }
            )
    return pd.DataFrame(rows)


def cuts(stages: dict) -> str:
    """The first blocks of all stages but the first: `fc6, fc8`; their indices where the names are not known."""
    named = [stage["blocks"][0] for stage in (stages.get("stages") or [])[1:] if stage.get("blocks")]
    shown = named or list(map(str, stages.get("cuts") or []))
    return ", ".join(shown[:4]) + (f" and {len(shown) - 4} more" if len(shown) > 4 else "") or DASH


def missing(runs: Runs | None) -> list[str]:
    """Rows without any result, as experiments."""
    return [row.name for row in TABLE if runs is None or not any(name == row.name for name, _ in runs.summaries)]


def clusters() -> str:
    return "; ".join(f"{name}: {what}" for name, what in CLUSTERS.items())
