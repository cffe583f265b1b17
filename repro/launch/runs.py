"""An experiment's runs: every variant x testbed x seed, each with the key under which its result is kept."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from repro import fabric, launch
from repro.algorithms import imbalance
from repro.core.errors import InputError, NotHere
from repro.core.fields import checked
from repro.core.registry import PLUGINS, TRAIN
from repro.core.user_files import read_bytes
from repro.experiment import config as configs
from repro.experiment import grid, inputs, limits
from repro.experiment.compose import Composer
from repro.experiment.run import Run
from repro.experiment.schema import Axes, RunConfig
from repro.launch.base import Needs
from repro.rank import programs
from repro.records import identity
from repro.training.evaluation import metrics
from repro.training.stops import TrainingPlan

if TYPE_CHECKING:
    from repro.data.base import Dataset

PROFILER = "profiler"  # the program of what `profile_steps` adds
# what a result does not depend on: how it is called, where data lies, how long a rank may wait
NOT_IN_KEY = {
    *("variant", "factors", "changed", "scale", "seed", "key", "hardware", "provenance"),
    *("data", "timeout_s", "title", "strategy", "model", "dataset", "imbalance"),
    "profile_steps",  # of another run
}


def expand(
    experiment: str,
    overrides: Sequence[str] = (),
    scale: str | None = None,
    lacking: list[NotHere] | None = None,
    at_ends: bool = False,
    composer: Composer | None = None,
) -> list[Run]:
    """The runs of an experiment, seeds innermost, without keys.

    What overrides of factors, of several values and of `strategy` do is said in `repro.experiment.grid`; `testbed=...`
    replaces the experiment's testbeds. Checks every strategy's options and the numbers of workers, batch and epochs
    before anything runs. `lacking` takes the reasons of runs that this machine cannot do, which are then left out;
    without it they are raised. `at_ends`: in the place of the runs those of simulated testbeds at both ends of every
    assumed input, one seed each (`repro.experiment.inputs`). `composer`: the experiment's at that scale, where there
    is one already.
    """
    composer = composer or Composer(experiment, scale)
    plain, swept = grid.split(overrides)
    base = composer.compose(plain)
    variants, testbeds = configs.axes(base, overrides)
    own = checked(Axes, base)
    many = len(swept.get("seeds", ())) or own.seeds
    axes = f"{len(variants)} variants x {len(testbeds)} testbeds x {many:,} seeds"
    limits.check(f"{experiment}: runs ({axes})", len(variants) * len(testbeds) * many, limits.RUNS)
    seeds = grid.seeds_of(swept, own.seed, own.seeds)
    runs = []
    for testbed, entries in testbeds.items():
        conditions, leaves = grid.split(entries)
        for variant in grid.left(variants, leaves):
            # the user's word counts most, then the testbed's, then the variant's, then the scale's
            users = (*plain, *variant.given)
            keys = {override.partition("=")[0] for override in users}
            ours = [change for change in (*variant.overrides, *conditions) if change.partition("=")[0] not in keys]
            given = [f"testbed={testbed}", *ours, *users]
            try:
                called: dict[str, Any] = {
                    "variant": variant.label,
                    "factors": variant.factors,
                    "scale": composer.size(given),
                }
                config = settled(checked(RunConfig, composer.compose(given) | called))
                ranks = check(config)
            except NotHere as error:
                if lacking is None:
                    raise
                lacking.append(error)
                continue
            called["changed"] = changed(config, [*variant.overrides, *conditions, *variant.given], plain, composer)
            config = config.model_copy(update={"changed": called["changed"]})
            if at_ends:
                for end, changes in inputs.ends(config.testbed).items():
                    named: dict[str, Any] = called | {
                        "variant": f"{variant.label}; {end}",
                        "factors": variant.factors | {inputs.FACTOR: end},
                    }
                    config = checked(RunConfig, composer.compose([*given, *changes]) | named)
                    runs.append(
                        Run(
                            experiment,
                            named["variant"],
                            config.model_copy(update={"seed": seeds[0]}),
                            seeds[0],
                            ranks=ranks,
                        )
                    )
                continue
            runs += [
                Run(experiment, variant.label, config.model_copy(update={"seed": seed}), seed, ranks=ranks)
                for seed in seeds
            ]
            measured = config.testbed.kind == "measured"
            twin = config.breakdown_steps != 0 and not config.breakdown
            if measured and uses_gpu(config) and twin and config.program == TRAIN:
                # exact phases need a synchronisation at each, which spoils the overlap: a run of their own
                runs.append(Run(experiment, variant.label, exact(config, seeds[0]), seeds[0], ranks=ranks))
            if measured and config.profile_steps and config.program == TRAIN:
                recorded = profiled(config, seeds[0])
                runs.append(Run(experiment, recorded.variant, recorded, seeds[0], ranks=ranks))
    wanted = [run.config.profile_steps for run in runs if run.config.program == TRAIN]
    if any(wanted) and not any(run.config.program == PROFILER for run in runs):
        raise InputError(f"profile_steps={max(wanted)}: of measured runs alone, and here is none; testbed=here")
    return runs


def changed(config: RunConfig, ours: Sequence[str], users: Sequence[str], composer: Composer) -> list[str]:
    """Where a run's configuration is not its experiment's own (`repro.records.identity`).

    ours: the overrides of its variant and testbed; users: the user's, of which the run's name has strategy and testbed.
    """
    named = [override for override in users if override.partition("=")[0] in ("strategy", "testbed")]
    if len(named) == len(users):
        return []
    try:
        own = settled(checked(RunConfig, composer.compose([f"testbed={config.testbed.name}", *ours, *named])))
    except InputError:  # the experiment alone is no run: it asks for a value, or for what is not here
        return []
    paths = [override.partition("=")[0].lstrip("+") for override in users]
    return identity.changed(identity.of({}, own.plain()), identity.of({}, config.plain()), paths)


def profiled(config: RunConfig, seed: int) -> RunConfig:
    """The run of program `profiler` beside a configuration: in a folder of its own, so that it is no row of its
    experiment's."""
    plain = config.plain() | {"program": PROFILER, "probe": {"steps": config.profile_steps}, "profile_steps": 0}
    named = {"experiment": f"{config.experiment}-profile", "variant": f"{config.variant}, profiled", "seed": seed}
    return checked(RunConfig, plain | named)


def exact(config: RunConfig, seed: int) -> RunConfig:
    """The breakdown run of a configuration.

    One that ends after a part of the training (`breakdown_steps`) has no warm-up of the strategy, by its options
    warmup_*: it would measure little else.
    """
    strategy, options = config.strategy, config.strategy.options
    if config.breakdown_steps and is_dataclass(options) and not isinstance(options, type):
        usual = PLUGINS["strategy"].defaults(strategy.name)
        own = {field.name for field in fields(options) if field.name.startswith("warmup_")}
        warm = {name: usual[name] for name in own & usual.keys()}
        strategy = replace(strategy, options=replace(options, **warm))
    return config.model_copy(update={"seed": seed, "breakdown": True, "strategy": strategy})


def uses_gpu(config: RunConfig) -> bool:
    """Whether the ranks of a run compute on a GPU, here or where their launcher starts them."""
    return config.wanted_device != "cpu" and launch.of(config.testbed).gpus()


def settled(config: RunConfig) -> RunConfig:
    """The configuration with its testbed as its launcher settles it for what the run needs."""
    testbed = launch.of(config.testbed).settled(needs(config))
    return config if testbed is config.testbed else config.model_copy(update={"testbed": testbed})


def needs(config: RunConfig) -> Needs:
    """What a run needs of its launcher; a probe's messages have tags."""
    from repro import strategies

    requires = strategies.load(config.strategy.name).requires
    own = requires if config.program == TRAIN else requires | {"tags"}
    return Needs(programs.ranks(config), config.workers, own, config.wanted_device != "cpu")


def check(config: RunConfig) -> int:
    """How many ranks a configuration needs; InputError where its parts do not go together: what no type says."""
    from repro import strategies
    from repro.rank.factory import check_fabric

    testbed, launcher = config.testbed, launch.of(config.testbed)
    if config.wanted_device == "cuda" and not uses_gpu(config):
        raise InputError(f"device=cuda: {launcher.no_gpus}")
    if (chosen := config.numerics.gpus_alone) and not uses_gpu(config):
        raise NotHere(f"{chosen}: is of GPUs, and device={config.device} has none here; leave it out")
    metrics.check(config.metric, config.dataset.name)
    imbalance.check(config)
    strategy = strategies.load(config.strategy.name)
    check_fabric(strategy, launcher.fabric, getattr(testbed, "backend", "auto"))
    run = {"epochs": config.epochs, "workers": config.workers, "gpu": uses_gpu(config)}
    strategy.check(config.strategy.options, run)
    needed, given = programs.ranks(config), testbed.ranks
    if given not in (None, needed):
        servers = needed - config.workers
        raise InputError(
            f"testbed.ranks={given}: {strategy.name} needs {needed} ranks "
            f"({config.workers} workers and {servers} server{'s' * (servers != 1)}); null: as many as needed"
        )
    limits.check("ranks", needed, limits.RANKS)
    launcher.check(needed)
    programs.check(config)
    return needed


def identify(runs: Sequence[Run], elsewhere: str | None = None) -> None:
    """Give every run its key, for it to be run: its data are fetched where they can be, and its parts checked.

    elsewhere: as of `Keys`.
    """
    from repro import data, models

    ensured: set[tuple] = set()
    extracted: list[tuple] = []

    def tell(line: str) -> None:
        print(line, file=sys.stderr)

    notes: dict[str, None] = {}  # each once, in order
    keys = Keys(elsewhere)
    for run in runs:
        name, place, options = run.config.dataset.name, run.config.data, run.config.dataset.options
        asked = (name, place, options)
        if place.videos and not run.config.timing_only and asked not in extracted:
            given = {option: value for option, value in options.items() if option not in ("name", "standin")}
            data.extract(name, place.videos, place.root, run.config.device, tell, **given)
            extracted.append(asked)
        wanted = (name, place.root, options["standin"])
        if wanted not in ensured and not run.config.timing_only:
            data.ensure(*wanted, say=tell)
            ensured.add(wanted)
        dataset = data.of(run.config)
        per_epoch = dataset.iterations(run.config.batch)
        run.iterations = TrainingPlan.of(run.config, per_epoch).iterations if run.config.program == TRAIN else None
        check_model(run.config, dataset)
        if note := models.size_note(run.config, dataset):
            notes[note] = None
        keys.give(run, dataset.checksum)
    data.forget()
    for note in notes:
        print(note, file=sys.stderr)


class Keys:
    """The keys of runs (docs/design.md, Keys): of configuration, seed, code, data, torch, hardware. What many runs
    share is read once: neither code nor data may change meanwhile.

    elsewhere: the class of the hardware that runs are for whose launcher names none; None: this machine's own.
    """

    def __init__(self, elsewhere: str | None = None) -> None:
        self._elsewhere = elsewhere
        self._code: dict[tuple[str, ...], str] = {}
        self._checksums: dict[str, str] = {}

    def give(self, run: Run, checksum: str | None = None) -> None:
        """Give a run its key and hardware. checksum: of its data, where these were read already; without it they are
        those that are here now. NotHere where there are none."""
        import torch

        from repro.experiment import cache_key
        from repro.records import provenance

        run.hardware = provenance.hardware(run.config.testbed.network, "auto" if uses_gpu(run.config) else "cpu")
        if elsewhere := launch.of(run.config.testbed).hardware_class() or self._elsewhere:
            run.hardware |= {"class": elsewhere}
        roots = tuple(code_roots(run.config))
        if roots not in self._code:
            self._code[roots] = cache_key.fingerprint(roots)
        # without arithmetic and a wall clock the numbers are the same everywhere
        computed_by = (None, None) if run.config.timing_only else (torch.__version__, run.hardware["class"])
        read = checksum or self._checksum(run.config)
        run.key = cache_key.run_key(keyed(run.config), run.seed, self._code[roots], read, *computed_by)

    def _checksum(self, config: RunConfig) -> str:
        from repro import data

        which = repr((config.dataset.plain(), config.data.root, config.timing_only))
        if which not in self._checksums:
            self._checksums[which] = data.of(config).checksum
        return self._checksums[which]


def keyed(config: RunConfig) -> dict[str, Any]:
    """The part of a configuration that the key is made of, with checksums of files that it names.

    What is at its default does not count, so that an option that comes later leaves the keys of those who do not use
    it as they are: a plugin's defaults are in its code, which counts itself, and the schema's never change.
    """
    found = config.model_dump(mode="json", exclude=NOT_IN_KEY, exclude_defaults=True)
    for said in ("sources", "bounds"):  # of a testbed's numbers
        found["testbed"].pop(said, None)
    for part, plugin in (("strategy", config.strategy), ("model", config.model), ("dataset", config.dataset)):
        found[part] = plugin.changed()
    if config.imbalance.name != imbalance.NONE:
        found["imbalance"] = config.imbalance.changed()
    delays, read = imbalance.checksum(config), _read(config)
    return found | ({"delays": delays} if delays else {}) | ({"files": read} if read else {})


def _read(config: RunConfig) -> list[str]:
    """Checksums of the files that the strategy reads; InputError where one is missing."""
    from repro import strategies

    sums = []
    for path in strategies.load(config.strategy.name).files(config.strategy.options):
        try:
            sums.append(hashlib.sha256(read_bytes(path)).hexdigest())
        except OSError as error:
            raise InputError(f"strategy {config.strategy.name}: {path}: {error.strerror}") from None
    return sums


def check_model(config: RunConfig, dataset: Dataset) -> None:
    """InputError for a model that does not go with the data set, and for options of the strategy and a number of
    microbatches that do not go with the model; it is built without weights."""
    from repro import models, strategies
    from repro.training.buckets import block_sizes
    from repro.training.model_shard import carries_state

    metrics.check_classes(config.metric, dataset.classes)
    model = models.of(config, dataset, "meta")
    if config.accumulate > 1 and carries_state(model):
        name = config.model.name
        raise InputError(
            f"accumulate={config.accumulate}: model {name} carries its state from one minibatch to the "
            "next, so a minibatch is not cut; must be 1"
        )
    if config.numerics.channels_last and (takes := models.takes(config.model.name)) != "images":
        name = config.model.name
        raise InputError(f"numerics.channels_last=true: is of images, and model {name} takes {takes}; leave it out")
    sizes = block_sizes(list(model.children()))
    strategies.load(config.strategy.name).check_model(config.strategy.options, sizes)


def code_roots(config: RunConfig) -> list[str]:
    """The modules that a run's numbers come from; what they import counts too."""
    from repro import data, models

    launcher, dataset = launch.of(config.testbed), config.dataset.name
    scored_by = metrics.modules(data.task(dataset), data.kind(dataset)) if config.program == TRAIN else {}
    return [
        *launcher.modules,
        *programs.modules(config),
        *scored_by.values(),
        models.module_of(config.model.name),
        data.module_of(dataset),
        fabric.FABRICS[launcher.fabric],
        *([] if config.imbalance.name == imbalance.NONE else [imbalance.module_of(config.imbalance.name)]),
    ]
