"""How ours is computed for claims about Table 1 as a whole, and about Figures 1 and 5, where no verb reaches.

Functions over rows take a ProbeGroup of the runs of all rows, or of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from repro.reporting.evaluate import Outcome
from repro.reports import factors
from repro.reports.compute import function, probe_function
from repro.reports.loading import Summary
from repro.reports.pipedream.stages import (
    BASELINES,
    BSP,
    MIXED,
    PIPEDREAM,
    Rates,
    configuration,
    fastest,
    noam,
    pipeline,
    rates,
    replicas,
    samples_s,
    shape,
    stalled,
)
from repro.reports.probes import ProbeGroup

if TYPE_CHECKING:
    import pandas as pd

DEVICES = ("k80", "titanx", "v100")  # Figure 1's, in the order of their compute capacity


def _one(group: ProbeGroup, value: float | None, reason: str, note: str = "") -> Outcome:
    """A number of all runs together; several seeds of a timing are one."""
    return Outcome({group.seeds()[0]: value}, note=note) if value is not None else Outcome(reason=reason)


# --- Table 1


def _table1(group: ProbeGroup) -> list[Summary]:
    """Without the throughputs that stand in the text alone."""
    return [run for run in group.summaries if run["experiment"].startswith("table1-")]


def _configurations(runs: Sequence[Summary]) -> dict[str, str]:
    """Row -> what the partitioner found."""
    found = {run["experiment"]: configuration(run) for run in runs if run["setting"] == PIPEDREAM}
    return {row: config for row, config in found.items() if config}


@function
def configuration_found(group: ProbeGroup, printed: str) -> Outcome:
    """1 where the partitioner found the printed configuration, 0.5 another one of the same kind, else 0; of one row."""
    config = next(iter(_configurations(group.summaries).values()), "")
    if not config:
        return Outcome(reason="no configuration was found")
    agreement = 1.0 if config == printed else 0.5 if shape(config) == shape(printed) else 0.0
    return _one(group, agreement, "", f"{config}, {shape(config)}")


@function
def mixed_rows(group: ProbeGroup) -> Outcome:
    """In how many rows of Table 1 the configuration found combines pipelining and replication of a stage."""
    runs = _table1(group)
    found, rows = _configurations(runs), {run["experiment"] for run in runs}
    if missing := sorted(rows - found.keys()):
        return Outcome(reason=f"no configuration of {', '.join(missing)}")
    note = ", ".join(f"{row.removeprefix('table1-')} {config}" for row, config in found.items())
    return _one(group, float(sum(shape(config) == MIXED for config in found.values())), "", note)


@function
def noam_formula(group: ProbeGroup) -> Outcome:
    """Share of the pipelines whose NOAM is machines over machines in the input stage, rounded up."""
    found = [pipeline(run) for run in group.summaries if run["strategy"] == PIPEDREAM]
    staged = [stages for stages in found if stages and len(replicas(stages["config"])) > 1]
    right = [stages for stages in staged if stages.get("noam") == noam(stages["config"])]
    share = len(right) / len(staged) if staged else None
    return _one(group, share, "no run had stages", f"{len(right)} of {len(staged)} runs")


@function
def most_over_bsp(group: ProbeGroup) -> Outcome:
    """The most that PipeDream's samples a second are of those of the faster BSP, over Table 1's rows."""
    of = rates(_table1(group))
    each = {row: ratio for row in _rows(of) if (ratio := _over_fastest(of, row)) is not None}
    return _most(group, each, of)


@function
def most_saved(group: ProbeGroup) -> Outcome:
    """The largest share of the bytes of BSP (parameter server) that PipeDream does not send, over Table 1's rows."""
    runs = _table1(group)
    sent = {(run["experiment"], run["setting"]): run["bytes_sent"] * run.get("ranks", run["workers"]) / run["batch"]
            for run in runs}  # fmt: skip
    each = {row: 1 - sent[row, PIPEDREAM] / sent[row, BSP] for row in _rows(sent)
            if (row, PIPEDREAM) in sent and sent.get((row, BSP))}  # fmt: skip
    return _most(group, each, sent)


def _rows(of: Mapping[tuple[str, str], float]) -> list[str]:
    return list(dict.fromkeys(row for row, _ in of))


def _most(group: ProbeGroup, each: Mapping[str, float], of: Mapping[tuple[str, str], float]) -> Outcome:
    """The most of what all rows have."""
    if missing := [row for row in _rows(of) if row not in each]:
        return Outcome(reason=f"PipeDream or BSP was not run in {', '.join(missing)}")
    best = max(each, key=each.__getitem__) if each else ""
    return _one(group, each.get(best), "no rows", f"in {best}")


def _over_fastest(of: Rates, row: str, variant: str = PIPEDREAM, bases: Sequence[str] = BASELINES) -> float | None:
    base = fastest(of, row, bases)
    return of[row, variant] / base if base and (row, variant) in of else None


@function
def across(group: ProbeGroup, row: str, other_row: str, variant: str, per: str | list[str]) -> Outcome:
    """A variant's rate over that of `per` (of several the fastest) in one row, over the same in another."""
    of, bases = rates(group.summaries), [per] if isinstance(per, str) else per
    one, other = (_over_fastest(of, each, variant, bases) for each in (row, other_row))
    return _one(group, one / other if one and other else None, f"not all of {variant} and {', '.join(bases)} were run")


@function
def gain_follows_overhead(group: ProbeGroup) -> Outcome:
    """Spearman's correlation, over Table 1's rows, of BSP's stalled share and PipeDream's speed-up over BSP."""
    runs = _table1(group)
    of = rates(runs)
    overhead = {run["experiment"]: stalled(run) for run in runs if run["setting"] == BSP}
    gains = {row: _over_fastest(of, row, bases=[BSP]) for row in overhead}
    pairs = [(overhead[row], gain) for row, gain in gains.items() if gain is not None]
    found = spearman(pairs) if len(pairs) >= 4 else None
    return _one(group, found, "fewer than four rows that differ", f"{len(pairs)} rows")


def spearman(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Spearman's rank correlation, ties sharing their ranks; None where one side does not vary."""
    import pandas as pd

    ranks = pd.DataFrame(pairs).rank()
    return float(ranks[0].corr(ranks[1])) if ranks.nunique().min() > 1 else None


# --- Figure 1: communication overhead by model, GPU and number of workers


def _fig1(group: ProbeGroup) -> pd.DataFrame:
    """A row a run: model, device (its place in `DEVICES`, the testbed's last word), workers, stalled, samples_s."""
    import pandas as pd

    found = [
        {"model": str(factors.of(run)["model"]), "device": DEVICES.index(run["testbed"].rsplit("-", 1)[-1]),
         "workers": run["workers"], "stalled": stalled(run), "samples_s": samples_s(run)}
        for run in group.summaries
    ]  # fmt: skip
    return pd.DataFrame(found).sort_values(["workers", "device"])


@function
def overhead_over(group: ProbeGroup, heavy: Sequence[str], light: Sequence[str], device: str) -> Outcome:
    """Least stalled share of `heavy` models minus the largest of `light` on a device, the least over workers > 1."""
    found = _fig1(group).query(f"device == {DEVICES.index(device)} and workers > 1")
    found = found.pivot(index="workers", columns="model", values="stalled")
    if missing := [name for name in (*heavy, *light) if name not in found]:
        return Outcome(reason=f"no results on {device} for {', '.join(missing)}")
    each = (found[list(heavy)].min(axis=1, skipna=False) - found[list(light)].max(axis=1, skipna=False)).dropna()
    return _one(group, float(each.min()) if len(each) else None, "no number of workers that all models have")


@function
def grows_with_workers(group: ProbeGroup) -> Outcome:
    """Share of the series (a model on a device) whose overhead never falls as workers are added."""
    return _growing(group, _fig1(group), ["model", "device"])


@function
def grows_with_compute(group: ProbeGroup) -> Outcome:
    """Share of the series (a model with a number of workers > 1) whose overhead never falls from K80 to V100."""
    return _growing(group, _fig1(group).query("workers > 1"), ["model", "workers"])


def _growing(group: ProbeGroup, found: pd.DataFrame, keys: list[str]) -> Outcome:
    several = [of["stalled"] for _, of in found.groupby(keys) if len(of) > 1]
    growing = [of for of in several if not (of.diff() < -1e-9).any()]
    return _one(group, len(growing) / len(several) if several else None, "nothing to compare")


@function
def least_scaling(group: ProbeGroup) -> Outcome:
    """The least throughput of several workers over that of one, over models and devices; below 1: slower than one."""
    found = _fig1(group).set_index(["model", "device", "workers"])["samples_s"].unstack()
    each = found.div(found[1], axis=0).drop(columns=1).stack() if 1 in found else found.stack()[:0]
    return _one(group, float(each.min()) if len(each) else None, "no results of one worker and of several")


# --- Figure 5: sizes of layers


@probe_function("layer_sizes")
def layers_below(group: ProbeGroup, share: float = 0.1) -> Outcome:
    """Share of the layers whose output is less than `share` of the model's parameters: a cut there saves the rest."""
    result = group.first["result"]
    small = [layer for layer in result["layers"] if layer["activation_bytes"] < share * result["parameter_bytes"]]
    return _one(group, len(small) / len(result["layers"]) if result["layers"] else None, "no layers")


@probe_function("layer_sizes")
def best_layer(group: ProbeGroup) -> Outcome:
    """1 - (least output of a layer but the last) / parameters: what a cut there saves of sending all parameters."""
    result = group.first["result"]
    outputs = [layer["activation_bytes"] for layer in result["layers"][:-1]]
    return _one(group, 1 - min(outputs) / result["parameter_bytes"] if outputs else None, "fewer than two layers")
