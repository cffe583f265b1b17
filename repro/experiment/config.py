"""Configuration: Hydra's files in `paper_configs/`, composed into the runs of an experiment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from repro.core.errors import unknown
from repro.core.fields import checked
from repro.experiment import grid, papers
from repro.experiment.files import group_names, names_in, own_file, own_files
from repro.experiment.grid import Choices, Variant, split, variants
from repro.experiment.schema import Axes, RunConfig

Choice = Mapping[str, Sequence[Any]]  # of runs: factor, or `testbed`, -> values; {}: all


def experiment_names(pattern: str | None = None, scale: str | None = None) -> list[str]:
    """All experiments, or those of a paper (`pipesgd`) in its order, one (`pipesgd/fig4-mnist`), or those in a file
    (`./table3.yaml`).

    scale: of a paper only those that are part of it then, by the `jobs` of their files.
    """
    if is_file(pattern):
        return names_in(Path(str(pattern)))
    names = sorted(group_names("experiment"), key=papers.place)
    if pattern is None:
        return names
    matching = [name for name in names if name == pattern or name.startswith(pattern.rstrip("/") + "/")]
    if not matching:
        all_papers = {name.split("/")[0] for name in names}
        raise unknown("experiment", pattern, [*names, *all_papers], most=3, all_of="repro list")
    if scale is None or matching == [pattern]:
        return matching
    return [name for name in matching if job(name, scale) is not None]


def paper_of(pattern: str) -> str:
    """The paper, or other group, that a pattern of `experiment_names` is of."""
    return experiment_names(pattern)[0].split("/")[0]


def is_file(pattern: str | None) -> bool:
    """Whether a pattern of `experiment_names` is a file."""
    return pattern is not None and pattern.endswith((".yaml", ".yml"))


def job(experiment: str, scale: str) -> list[Choice] | None:
    """Which runs of an experiment are part of its paper's at a scale, those of any choice. None where it is no part."""
    jobs = own_file(experiment).get("jobs")
    if jobs is None:
        return [{}]
    by_scale = jobs if isinstance(jobs, dict) else dict.fromkeys(jobs)
    if scale not in by_scale:
        return None
    chosen = by_scale[scale] or {}
    return chosen if isinstance(chosen, list) else [chosen]


def belongs(chosen: Sequence[Choice], factors: Mapping[str, Any], testbed: str) -> bool:
    """Whether a run is among those that `job` says; a factor that it has not leaves it there."""
    of = {**factors, "testbed": testbed}
    return any(all(of[name] in values for name, values in each.items() if name in of) for each in chosen)


def titles(experiments: Iterable[str]) -> dict[str, str]:
    """The experiments' one-line titles, read without Hydra; of a file that cannot be read a warning."""
    return {name: own.get("title", "") for name, own in own_files(experiments).items()}


def compose(experiment: str, overrides: Sequence[str] = (), scale: str | None = None) -> dict[str, Any]:
    """The resolved configuration of an experiment under overrides (`key=value`), the scale's first.

    Raises InputError naming what is unknown and what is valid.
    """
    from repro.experiment.compose import Composer  # imports Hydra

    return Composer(experiment, scale).compose(overrides)


def choices(experiment: str, overrides: Sequence[str]) -> tuple[list[str], Choices]:
    """The user's overrides without those that choose among an experiment's variants alone (`method=a,b`), and these."""
    return grid.choices(own_file(experiment), RunConfig.model_fields, overrides)


def axes(resolved: dict[str, Any], overrides: Sequence[str]) -> tuple[list[Variant], dict[str, list[str]]]:
    """An experiment's variants (`repro.experiment.grid`) and its testbeds, name -> overrides.

    An override of the testbed leaves those that it names, which keep what the experiment says of them. `resolved`:
    under the overrides of one value (`grid.split`).
    """
    plain, swept = split(overrides)
    own = checked(Axes, resolved)
    testbeds = own.testbeds
    one = [own.testbed.name] if any(override.startswith("testbed=") for override in plain) else []
    if chosen := swept.get("testbed", one):
        testbeds = {name: testbeds.get(name, []) for name in chosen}
    return variants(resolved, overrides), testbeds
