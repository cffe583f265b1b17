"""Experiments of `paper_configs/`: their names, jobs and titles, and their composed configurations and axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.core.config_folders import EXPERIMENT_FILE
from repro.core.errors import InputError, unknown_name
from repro.core.fields import check_fields
from repro.experiment import grid, limits, papers
from repro.experiment.files import group_names, names_in, own_file, own_files
from repro.experiment.grid import Choices, Variant
from repro.experiment.override_keys import key_of
from repro.experiment.overrides import admit_code
from repro.experiment.schema import Axes, RunConfig

if TYPE_CHECKING:
    from repro.experiment.compose import Composer

Choice = Mapping[str, Sequence[Any]]  # selects runs: factor, or `testbed`, -> values; {} selects all


def experiment_names(pattern: str | None = None, scale: str | None = None) -> list[str]:
    """The names of all experiments, of a paper's (`pipesgd`) in its order, of one (`pipesgd/fig4-mnist`), or of those
    in a file (`./table3.yaml`).

    scale: only the experiments that run with their paper at this scale (`find_job`); InputError if none has it.
    """
    if is_file(pattern):
        return names_in(Path(str(pattern)))
    names = sorted(group_names("experiment"), key=papers.experiment_order)
    if pattern is None:
        return names
    matching = [name for name in names if name == pattern or name.startswith(pattern.rstrip("/") + "/")]
    if not matching:
        all_papers = {name.split("/")[0] for name in names}
        raise unknown_name("experiment", pattern, [*names, *all_papers], all_of="repro list")
    if scale is None or matching == [pattern]:
        return matching
    scales = dict.fromkeys(each for name in matching for each in own_file(name).get("scales") or ())
    if scale not in scales:
        raise unknown_name("scale", scale, scales)
    return [name for name in matching if find_job(name, scale) is not None]


def check_name(experiment: object) -> str:
    """The experiment; InputError unless it is a text (None would select every experiment)."""
    if not isinstance(experiment, str):
        raise InputError(f"experiment {experiment!r:.60}: must be a text: PAPER, PAPER/EXPERIMENT or a file")
    return experiment


def paper_of(pattern: str) -> str:
    """The paper, or other group, of the experiments that match a pattern of `experiment_names`."""
    return experiment_names(pattern)[0].split("/")[0]


def is_file(pattern: str | None) -> bool:
    """Whether a pattern of `experiment_names` is a file."""
    return pattern is not None and pattern.endswith(EXPERIMENT_FILE)


def find_job(experiment: str, scale: str) -> list[Choice] | None:
    """The choices of an experiment's runs that `repro run PAPER` includes at a scale; None if it includes none."""
    jobs = own_file(experiment).get("jobs")
    if jobs is None:
        return [{}]
    by_scale = jobs if isinstance(jobs, dict) else dict.fromkeys(jobs)
    if scale not in by_scale:
        return None
    choices = by_scale[scale] or {}
    return choices if isinstance(choices, list) else [choices]


def is_in_job(choices: Sequence[Choice], factors: Mapping[str, Any], testbed: str) -> bool:
    """Whether a run matches one of the choices of `find_job`; factors that the run does not have are ignored."""
    run = {**factors, "testbed": testbed}
    return any(all(run[name] in values for name, values in each.items() if name in run) for each in choices)


def read_titles(experiments: Iterable[str]) -> dict[str, str]:
    """The experiments' one-line titles, read without Hydra; a warning for each file that cannot be read."""
    return {name: entries.get("title", "") for name, entries in own_files(experiments).items()}


def compose(experiment: str, overrides: Sequence[str] = (), scale: str | None = None) -> dict[str, Any]:
    """The resolved configuration of an experiment at a scale under overrides (`key=value`), which count more.

    InputError with the valid names for an unknown one.
    """
    from repro.experiment.compose import Composer  # imports Hydra

    return Composer(experiment, scale).compose(overrides)


@dataclass(frozen=True)
class Composed:
    """An experiment as a user asks for it: its configuration, and what its runs differ in.

    plain: the user's overrides of one value each; testbeds: name -> overrides.
    """

    composer: Composer
    plain: list[str]
    config: dict[str, Any]
    variants: list[Variant]
    testbeds: dict[str, list[str]]
    seeds: list[int]


def compose_experiment(
    experiment: str, overrides: Sequence[str], scale: str | None, conditions: Sequence[str] = ()
) -> Composed:
    """Compose an experiment's files under the user's overrides, and read its variants, testbeds and seeds.

    conditions: overrides of the experiment's own file, which the user's follow. InputError as `compose`, for an invalid
    grid, and for too many runs.
    """
    from repro.experiment.compose import Composer

    composer = Composer(experiment, scale)
    configured, chosen = read_choices(experiment, overrides, conditions)
    plain, swept = grid.split_overrides(configured)
    resolved = composer.compose(grid.keep_single_values(configured))
    every, testbeds = read_axes(resolved, configured)
    every = grid.select_variants(every, chosen)
    first = check_fields(Axes, resolved)
    many = len(swept.get("seeds", ())) or first.seeds
    shown = f"{len(every)} variants x {len(testbeds)} testbeds x {many:,} seeds"
    limits.check_limit(f"{experiment}: runs ({shown})", len(every) * len(testbeds) * many, limits.RUNS)
    seeds = grid.choose_seeds(swept, first.seed, first.seeds)
    return Composed(composer, plain, resolved, every, testbeds, seeds)


def read_choices(
    experiment: str, overrides: Sequence[str], conditions: Sequence[str] = ()
) -> tuple[list[str], Choices]:
    """Split the user's overrides: those of the configuration, and choices among the variants (`method=a,b`).

    From now on this process imports the code that they name, and none that the experiment's file names alone.
    conditions: overrides of that file, which the user's follow.
    """
    chosen = grid.split_choices(own_file(experiment), RunConfig.model_fields, [*conditions, *overrides])
    admit_code(overrides)
    return chosen


def read_axes(resolved: dict[str, Any], overrides: Sequence[str]) -> tuple[list[Variant], dict[str, list[str]]]:
    """An experiment's variants (`repro.experiment.grid`) and its testbeds, name -> overrides.

    resolved: the configuration under `grid.keep_single_values(overrides)`. An override of the testbed selects testbeds,
    which keep the experiment's overrides for them.
    """
    plain, swept = grid.split_overrides(overrides)
    axes = check_fields(Axes, resolved)
    testbeds = axes.testbeds
    named = [axes.testbed.name] if "testbed" in map(key_of, plain) else []
    if chosen := swept.get("testbed", named):
        testbeds = {name: testbeds.get(name, []) for name in chosen}
    return grid.list_variants(resolved, overrides), testbeds
