"""Expansion of an experiment into its runs: every variant x testbed x seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from repro.core.errors import InputError, NotHere
from repro.core.fields import check_fields
from repro.core.registry import PLUGINS, TRAIN
from repro.experiment import config as configs
from repro.experiment import draws, grid
from repro.experiment.compose import Composer
from repro.experiment.files import config_file, is_there
from repro.experiment.needs import check_config, resolve_testbed, uses_gpu
from repro.experiment.override_keys import key_of, without_entries
from repro.experiment.overrides import LATER
from repro.experiment.run import Run
from repro.experiment.schema import RunConfig
from repro.experiment.testbeds import Modelled, testbed_of
from repro.records import variants
from repro.records.configured import minor_paths

PROFILER = "profiler"  # the program of the run that `profile_steps` adds


def expand_runs(
    experiment: str,
    overrides: Sequence[str] = (),
    scale: str | None = None,
    lacking: list[NotHere] | None = None,
    number_of_draws: int = 0,
    conditions: Sequence[str] = (),
) -> list[Run]:
    """The runs of an experiment, seeds innermost, without keys.

    `repro.experiment.grid` describes overrides of factors, of several values and of `strategy`; `testbed=...` replaces
    the experiment's testbeds. Every configuration is checked before anything runs.

    lacking          collects the reasons of runs that this machine cannot execute, which are skipped; None: raise them
    number_of_draws  if not 0, return a sweep of so many draws for each variant on a simulated testbed with inputs
    conditions       overrides of the experiment's own file, which the user's follow
    """
    composed = configs.compose_experiment(experiment, overrides, scale, conditions)
    runs: list[Run] = []
    first: Point | None = None
    for config, ranks, ours in expand_configs(composed, lacking):
        differing = changed_paths(config, ours, composed.plain, composed.composer)
        minor = [*minor_paths({group: getattr(config, group).roles() for group in PLUGINS})]
        point = Point(experiment, config.model_copy(update={"changed": differing, "minor": minor}), ranks)
        first = first or point
        runs += point.sweep(composed.seeds[0], number_of_draws) if number_of_draws else point.runs(composed.seeds)
    if number_of_draws and first and not runs:
        draws.check_draws(first.config)  # raises the reason
    check_profiles([run.config for run in runs])
    return runs


def expand_configs(
    composed: configs.Composed, lacking: list[NotHere] | None = None
) -> Iterator[tuple[RunConfig, int, list[str]]]:
    """The checked configuration of each variant on each testbed, its number of ranks, and the overrides of its variant
    and testbed. lacking: as of `expand_runs`."""
    for testbed, entries in composed.testbeds.items():
        conditions, selected = grid.split_overrides(entries)
        for variant in grid.select_variants(composed.variants, selected):
            try:
                config = _read_point(composed.composer, variant, testbed, conditions, composed.plain)
                ranks = check_config(config := resolve_testbed(config))
            except NotHere as error:
                if lacking is None:
                    raise
                lacking.append(error)
                continue
            except InputError as error:
                raise _with_file(error, composed, variant, testbed, conditions) from None
            yield config, ranks, [*variant.overrides, *conditions, *variant.swept]


def _read_point(
    composer: Composer, variant: grid.Variant, testbed: str, conditions: Sequence[str], plain: Sequence[str]
) -> RunConfig:
    return check_fields(RunConfig, compose_point(composer, variant, testbed, conditions, plain))


def _with_file(
    error: InputError, composed: configs.Composed, variant: grid.Variant, testbed: str, conditions: Sequence[str]
) -> InputError:
    """The error with the file of the testbed or experiment, if reading that without the user's overrides
    ends with it too."""
    composer, name = composed.composer, composed.composer.experiment
    own = replace(variant, swept=())
    places: dict[str, Callable[[], Any]] = {}
    if is_there("testbed", testbed):
        alone = [f"testbed={testbed}"]
        places[f"{config_file('testbed', testbed)}"] = lambda: testbed_of(composer.compose(alone)["testbed"])
    if not any(
        key_of(override).partition(".")[0] in LATER for override in composed.plain
    ):  # else variants are the user's
        file = config_file("experiment", name)
        places[f"{file}: {name}"] = lambda: _read_point(composer, own, testbed, conditions, [])
    for place, check in places.items():
        try:
            check()
        except InputError as again:
            if str(again) == str(error):
                return InputError(f"{place}: {error}")
    return error


def compose_point(
    composer: Composer, variant: grid.Variant, testbed: str, conditions: Sequence[str], plain: Sequence[str]
) -> dict[str, Any]:
    """The configuration of a variant on a testbed as plain data. conditions: the overrides of the testbed; plain: the
    user's overrides of one value each."""
    # the user's overrides have priority over the testbed's, those over the variant's, those over the scale's
    by_user = (*plain, *variant.swept)
    ours = [f"testbed={testbed}", *without_entries((*variant.overrides, *conditions), by_user)]
    labels = {"variant": variant.label, "factors": variant.factors, "scale": composer.size([*ours, *by_user])}
    return composer.compose(by_user, ours) | labels


@dataclass(frozen=True)
class Point:
    """A variant on a testbed, with its checked configuration and number of ranks."""

    experiment: str
    config: RunConfig
    ranks: int

    def run(self, config: RunConfig, seed: int) -> Run:
        seeded = config.model_copy(update={"seed": seed})
        return Run(self.experiment, config.variant, seeded, seed, ranks=self.ranks)

    def runs(self, seeds: Sequence[int]) -> Iterator[Run]:
        """A run for each seed; for measured trainings also the breakdown run and the profiled run."""
        for seed in seeds:
            yield self.run(self.config, seed)
        config = self.config
        if isinstance(config.testbed, Modelled) or config.program != TRAIN:
            return
        if uses_gpu(config) and config.breakdown_steps != 0 and not config.breakdown:
            # exact phases need a synchronisation each, which spoils the overlap: hence a run of its own
            yield self.run(breakdown_config(config), seeds[0])
        if config.profile_steps:
            yield self.run(profiler_config(config), seeds[0])

    def sweep(self, seed: int, number: int) -> Iterator[Run]:
        """A run of all draws, if the testbed is simulated and has inputs."""
        if draws.has_draws(self.config):
            draws.check_draws(self.config)
            yield self.run(self.config.model_copy(update={"draws": number}), seed)


def changed_paths(config: RunConfig, ours: Sequence[str], users: Sequence[str], composer: Composer) -> list[str]:
    """The paths at which the user's overrides changed a run's configuration (`repro.records.variants`).

    ours: overrides of its variant and testbed; users: the user's. Strategy and testbed, which are in the run's name, do
    not count.
    """
    named = [override for override in users if key_of(override) in ("strategy", "testbed")]
    if len(named) == len(users):
        return []
    try:
        resolved = resolve_testbed(
            check_fields(RunConfig, composer.compose([f"testbed={config.testbed.name}", *ours, *named]))
        )
    except InputError:  # without the user's overrides the run lacks a value, or cannot run here
        return []
    return variants.changed(resolved.identity.values, config.identity.values, [*map(key_of, users)])


def profiler_config(config: RunConfig) -> RunConfig:
    """The configuration of the profiler's run, under an experiment name of its own, so that the experiment's tables do
    not contain it."""
    plain = config.plain() | {"program": PROFILER, "probe": {"steps": config.profile_steps}, "profile_steps": 0}
    return check_fields(
        RunConfig, plain | {"experiment": f"{config.experiment}-profile", "variant": f"{config.variant}, profiled"}
    )


def check_profiles(configs: Sequence[RunConfig]) -> None:
    """InputError for `profile_steps` without a measured training."""
    wanted = [config for config in configs if config.program == TRAIN and config.profile_steps]
    if wanted and all(isinstance(config.testbed, Modelled) for config in wanted):
        most = max(config.profile_steps for config in wanted)
        raise InputError(f"profile_steps={most}: only measured runs can be profiled; set testbed=here")


def breakdown_config(config: RunConfig) -> RunConfig:
    """The configuration of the breakdown run; one that ends early (`breakdown_steps`) has no warm-up."""
    strategy = draws.skip_warmup(config.strategy) if config.breakdown_steps else config.strategy
    return config.model_copy(update={"breakdown": True, "strategy": strategy})
