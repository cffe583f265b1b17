"""How ours is computed for PipeDream's claims about Table 1, Figures 1, 12 and 13, and time to accuracy.

A `row` is the experiment of a row of Table 1. Functions over rows take a ProbeGroup of the runs of all rows, those
about time to accuracy one of the accuracy runs and the rows together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from repro.common.known import known
from repro.reporting.stats import TIMES, number, spread
from repro.reports.compute import Outcome, _ratio, final, function
from repro.reports.loading import Summary
from repro.reports.pipelines import (
    ASP,
    BASELINES,
    BSP,
    DATA_PARALLEL,
    GIVEN,
    PIPEDREAM,
    REPLICATED,
    SINGLE,
    STRAIGHT,
    TABLE1,
    Runs,
    against,
    machines,
    noam,
    pipeline,
    several,
    shape,
)
from repro.reports.probes import ProbeGroup

DEVICES = ("k80", "titanx", "v100")  # Figure 1's, in the order of their compute capacity


def _of(group: ProbeGroup, number_of: Callable[[Runs], float | None], wanted: Sequence[tuple[str, str]] = (),
        note: str = "", reason: str = "") -> Outcome:  # fmt: skip
    """number_of(the runs) where there are all that are wanted; several seeds of a timing are one number."""
    runs = Runs.of(group.summaries)
    if lacking := runs.lacking(wanted):
        return Outcome(reason=f"no results for {lacking}")
    value = number_of(runs)
    seed = group.seeds()[0]
    return Outcome({seed: value}, note=note) if value is not None else Outcome(reason=reason or "nothing to compare")


# --- Table 1


@function
def row_speedup(group: ProbeGroup, row: str, setting: str = PIPEDREAM, over: str | Sequence[str] = SINGLE) -> Outcome:
    """Samples a second of a variant over those of another one, or of the strongest of several, in the same row."""
    runs, bases = Runs.of(group.summaries), several(over)
    found = runs.configuration(row, setting)
    ratios = {base: ratio for base in bases if (ratio := runs.speedup(row, setting, base))}
    notes = [f"configuration {found}" if found else "", against(runs.strongest(row, bases), ratios)]
    wanted = [(row, name) for name in (setting, *bases)]
    return _of(group, lambda runs: runs.speedup(row, setting, over), wanted, "; ".join(filter(None, notes)))


@function
def row_reduction(group: ProbeGroup, row: str, setting: str = PIPEDREAM, over: str = BSP) -> Outcome:
    """Share of the bytes of `over` that `setting` does not send."""
    found = Runs.of(group.summaries).configuration(row, setting)
    note = f"configuration {found}" if found else ""
    wanted = [(row, setting), (row, over)]
    return _of(group, lambda runs: runs.reduction(row, setting, over), wanted, note, f"{over} sent nothing")


@function
def row_overhead(group: ProbeGroup, row: str, setting: str = BSP) -> Outcome:
    """Share of a step in which a machine stands still for communication."""
    return _of(group, lambda runs: runs.overhead(row, setting), [(row, setting)])


@function
def row_configuration(group: ProbeGroup, row: str, paper: str, setting: str = PIPEDREAM) -> Outcome:
    """1 where the partitioner found the paper's configuration, 0.5 another one of the same kind, else 0."""

    def agreement(runs: Runs) -> float | None:
        if not (found := runs.configuration(row, setting)):
            return None
        return 1.0 if found == paper else 0.5 if shape(found) == shape(paper) else 0.0

    found = Runs.of(group.summaries).configuration(row, setting)
    note = f"{found}, {shape(found)}" if found else ""
    return _of(group, agreement, [(row, setting)], note, "the summary has no configuration")


@function
def rows_most(group: ProbeGroup, of: str, rows: Sequence[str] = TABLE1) -> Outcome:
    """The most that PipeDream gains over BSP in some rows, all of them run: of "speedup" or of "reduction" of bytes.

    The speed-up is over the faster of BSP's two ways, the bytes are those of the parameter server's.
    """
    runs = Runs.of(group.summaries)
    measures: dict[str, tuple[Callable[..., float | None], str | Sequence[str]]]
    measures = {"speedup": (runs.speedup, BASELINES), "reduction": (runs.reduction, BSP)}
    measure, over = measures[of]
    each = {row: value for row in rows if (value := measure(row, PIPEDREAM, over)) is not None}
    note = f"in {max(each, key=each.__getitem__)}" if each else ""
    wanted = [(row, variant) for row in rows for variant in (PIPEDREAM, *several(over))]
    return _of(group, lambda _: max(each.values()) if each else None, wanted, note)


@function
def across(
    group: ProbeGroup, row: str, setting: str, other_row: str, other_setting: str | Sequence[str],
    per: str | Sequence[str] | None = None,
) -> Outcome:  # fmt: skip
    """Samples a second in one row over those in another; per: each first divided by that variant's of its own row.

    Of several other variants, or to divide by, the strongest in their row counts.
    """
    runs, others, bases = Runs.of(group.summaries), several(other_setting), several(per or [])

    def ratio(of_other: str) -> float | None:
        places = [(row, setting), (other_row, of_other)]
        one, other = (runs.speedup(*place, per) if per else runs.rate(*place) for place in places)
        return one / other if one and other else None

    strongest = runs.strongest(other_row, others)
    note = against(strongest, {name: value for name in others if (value := ratio(name))})
    if len(bases) > 1:
        note = f"over {runs.strongest(row, bases)} and {runs.strongest(other_row, bases)}, the stronger in their rows"
    wanted = [(row, setting), *((other_row, name) for name in others)]
    wanted += [(place, base) for base in bases for place in (row, other_row)]
    return _of(group, lambda _: ratio(strongest), wanted, note)


@function
def mixed_rows(group: ProbeGroup, rows: Sequence[str] = TABLE1) -> Outcome:
    """In how many rows the configuration found combines pipelining and replication of a stage."""
    runs = Runs.of(group.summaries)
    found = {row: runs.configuration(row) for row in rows}
    note = ", ".join(f"{row.removeprefix('table1-')} {config}" for row, config in found.items() if config)
    if any(not config for config in found.values()):
        return Outcome(reason=f"no configuration of {', '.join(row for row, config in found.items() if not config)}")
    return _of(group, lambda _: float(sum(shape(c) == REPLICATED for c in found.values())), note=note)


@function
def noam_formula(group: ProbeGroup) -> Outcome:
    """Share of the pipelines whose NOAM is machines over machines in the input stage, rounded up."""
    pipelined = [run for run in group.summaries if run["setting"] in (PIPEDREAM, GIVEN, STRAIGHT)]
    found = [p for run in pipelined if (p := pipeline(run)) and shape(p["config"]) != DATA_PARALLEL]
    right = [p for p in found if p.get("noam") == noam(p["config"])]
    note = f"{len(right)} of {len(found)} runs"
    return _of(group, lambda _: len(right) / len(found) if found else None, note=note, reason="no run had stages")


@function
def gain_follows_overhead(group: ProbeGroup, rows: Sequence[str] = TABLE1) -> Outcome:
    """Spearman's correlation, over the rows, of BSP's communication overhead and PipeDream's speed-up over BSP."""
    runs = Runs.of(group.summaries)
    pairs = [(runs.overhead(row), runs.speedup(row, PIPEDREAM, BSP)) for row in rows]
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    if len(known) < 4:
        return Outcome(reason="fewer than four rows to compare")
    return _of(group, lambda _: spearman(known), note=f"{len(known)} rows")


def spearman(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Spearman's rank correlation, ties sharing their ranks; None where one side does not vary."""
    import pandas as pd

    ranks = pd.DataFrame(pairs).rank()
    if ranks.nunique().min() < 2:
        return None
    return float(ranks[0].corr(ranks[1]))


@function
def model_megabytes(group: ProbeGroup, row: str, setting: str = BSP) -> Outcome:
    """Size of the model that ran, 4 bytes a parameter, in MB of 10^6 bytes."""

    def size(runs: Runs) -> float | None:
        count = known(runs.one(row, setting))["model"].get("parameters")
        return 4e-6 * count if count else None

    run = Runs.of(group.summaries).one(row, setting)
    note = f"{run['model']['name']}: {run['model'].get('parameters') or 0:,} parameters" if run else ""
    return _of(group, size, [(row, setting)], note, "the summary has no count")


@function
def row_final(group: ProbeGroup, row: str, setting: str = PIPEDREAM) -> Outcome:
    """The metric at the end of training at full size."""
    found = [run for run in group.summaries if (run["experiment"], run["setting"]) == (row, setting)]
    if not found:
        return Outcome(reason=f"no results for {setting} of {row}")
    values = {run["seed"]: final(run) for run in found}
    known = {seed: value for seed, value in values.items() if value == value}
    return Outcome(known) if known else Outcome(reason="timing only: no accuracy is computed")


# --- Figures 10 to 12: time to accuracy = epochs (statistical efficiency) x seconds of an epoch (hardware efficiency)


def goal(runs: Sequence[Summary], share: float = 1.0) -> float | None:
    """The accuracy in the place of the paper's advertised one: the highest target that all runs have, times `share`."""
    every = [set(run["targets"]) for run in runs]
    common = set.intersection(*every) if every else set()
    return share * max(map(float, common)) if common else None


def epochs_to(run: Summary, target: float) -> float:
    """Epochs to the first evaluation at or above the target; infinity where there is none."""
    reached = [point["epoch"] for point in run["curve"] if (point.get(run["metric"]) or 0.0) >= target]
    return min(reached, default=float("inf"))


def row_rate(runs: Runs, row: str, variant: str) -> tuple[float | None, str]:
    """(samples a second of a variant in a row, a note): BSP is the faster of its two ways; ASP without a run is one
    machine's rate times the machines."""
    rate = runs.rate(row, runs.strongest(row, BASELINES) if variant == BSP else variant)
    if rate is not None or variant != ASP or (alone := runs.rate(row, SINGLE)) is None:
        return rate, ""
    return machines(row) * alone, "ASP without any communication time"


@function
def epochs_ratio(group, setting: str, over: str, share: float = 1.0) -> Outcome:
    """Epochs that `over` needs for the target / those of `setting`; share: of the highest target."""
    return _reached(group, setting, over, share, 1.0, "")


@function
def time_to_accuracy(
    group: ProbeGroup, row: str, setting: str, over: str, over_row: str | None = None, share: float = 1.0
) -> Outcome:
    """Time to the target of `over` / that of `setting`: epochs of the accuracy runs, epoch times of the rows.

    The accuracy run of a variant has the row's number of machines behind its name.
    """
    runs, other = Runs.of(group.summaries), over_row or row
    one, base = row_rate(runs, row, setting), row_rate(runs, other, over)
    for name, where, rate in ((setting, row, one[0]), (over, other, base[0])):
        if rate is None:
            return Outcome(reason=f"no results for {name} of {where}")
    names = f"{setting}-{machines(row)}", f"{over}-{machines(other)}"
    stronger = f"epoch times over {runs.strongest(other, BASELINES)}, the stronger" if over == BSP else ""
    notes = [one[1], base[1], stronger]
    return _reached(group, *names, share, known(one[0]) / known(base[0]), "; ".join(filter(None, notes)))


def _reached(group, variant: str, over: str, share: float, rates: float, note: str) -> Outcome:
    """(epochs of `over` / epochs of `variant`) x rates, seed by seed."""
    of = [{c["seed"]: c for c in group.summaries if c["setting"] == name and not c["breakdown"]}
          for name in (variant, over)]  # fmt: skip
    if missing := [name for name, found in zip((variant, over), of, strict=True) if not found]:
        return Outcome(reason=f"no results for {', '.join(missing)}")
    if (target := goal([run for found in of for run in found.values()], share)) is None:
        return Outcome(reason="the runs have no target in common")
    seeds = sorted(set(of[0]) & set(of[1]))
    each = {seed: tuple(epochs_to(found[seed], target) for found in of) for seed in seeds}
    values = {seed: rates * _ratio(base, one) for seed, (one, base) in each.items()}
    known = {seed: value for seed, value in values.items() if value == value}
    if not known:
        return Outcome(reason=f"{number(target)} not reached by {variant} nor {over}")
    shown = [number(spread(pair[i] for pair in each.values()).median) for i in (0, 1)]
    notes = [f"to {number(target)}: {shown[0]} epochs against {shown[1]}", note]
    if rates != 1.0:
        notes.insert(1, f"{number(rates)}{TIMES} the samples a second")
    return Outcome(known, note="; ".join(text for text in notes if text))
