"""An experiment's cells: every setting x testbed x seed, each with the key under which its result is kept."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from repro import fabric, imbalance, launch
from repro.common import registry
from repro.common.errors import InputError, NotHere
from repro.evaluation import metrics
from repro.experiment import config as configs
from repro.experiment import files, grid, limits
from repro.experiment.cell import Cell
from repro.experiment.compose import Composer
from repro.rank import programs
from repro.training import lr_schedule

if TYPE_CHECKING:
    from repro.data.base import Dataset

# what a result does not depend on: how many other cells there are, where data lies, how long a rank may wait
NOT_IN_KEY = (
    *("grid", "exclude", "label", "factors", "testbeds", "scales", "scale", "seeds", "seed"),
    *("data", "timeout_s", "title"),
)
# what came later and changes nothing with these values, so that keys of cells without it do not depend on it
NEUTRAL = {"imbalance": {"name": imbalance.NONE}, "min_compute_s": None, "eval_train": 0}
# the same of entries of the optimizer; options of plugins have their defaults in the plugin's code, which counts itself
NEUTRAL_OPTIMIZER = {"name": "sgd", "alpha": 0.99, "eps": 1e-8, "every": None}


def expand(
    experiment: str, overrides: Sequence[str] = (), scale: str | None = None, lacking: list[NotHere] | None = None
) -> list[Cell]:
    """The cells of an experiment, seeds innermost, without keys.

    What overrides of factors, of several values and of `strategy` do is said in `repro.experiment.grid`; `testbed=...`
    replaces the experiment's testbeds. Checks every strategy's options and the numbers of workers, batch and epochs
    before anything runs. `lacking` takes the reasons of cells that this machine cannot run, which are then left out;
    without it they are raised.
    """
    composer = Composer(experiment, scale)
    plain, swept = grid.split(overrides)
    base = composer.compose(plain)
    variants, testbeds = configs.axes(base, overrides)
    check_numbers(base)
    many = len(swept.get("seeds", ())) or base["seeds"]
    axes = f"{len(variants)} settings x {len(testbeds)} testbeds x {many:,} seeds"
    limits.check(f"{experiment}: cells ({axes})", len(variants) * len(testbeds) * many, limits.CELLS)
    seeds = grid.seeds_of(swept, base["seed"], base["seeds"])
    cells = []
    for testbed, conditions in testbeds.items():
        for variant in variants:
            # the user's word counts most, then the testbed's, then the variant's, then the scale's
            users = (*plain, *variant.given)
            keys = {override.partition("=")[0] for override in users}
            ours = [change for change in (*variant.overrides, *conditions) if change.partition("=")[0] not in keys]
            resolved = composer.compose([f"testbed={testbed}", *ours, *users])
            resolved |= {"setting": variant.label, "factors": variant.factors}
            try:
                check(resolved)
            except NotHere as error:
                if lacking is None:
                    raise
                lacking.append(error)
                continue
            cells += [Cell(experiment, variant.label, resolved | {"seed": seed}, seed) for seed in seeds]
            if uses_gpu(resolved) and not resolved["breakdown"] and resolved["program"] == "train":
                # exact phases need a synchronisation at each, which spoils the overlap: a cell of their own
                own = resolved | {"seed": seeds[0], "breakdown": True}
                cells.append(Cell(experiment, variant.label, own, seeds[0]))
    return cells


def uses_gpu(config: dict[str, Any]) -> bool:
    """Whether the ranks of a cell compute on a GPU, here or where their launcher starts them."""
    measured = config["testbed"]["kind"] == "measured" and config["device"] != "cpu"
    return measured and launch.of(config["testbed"]).gpus()


def check(config: dict[str, Any]) -> None:
    """InputError for what no run could use; options of the strategy included."""
    from repro import strategies
    from repro.rank.factory import check_accumulate, check_fabric, check_virtual
    from repro.timing.device import check_device

    check_numbers(config)
    if config["batch"] % config["workers"]:
        near = config["batch"] - config["batch"] % config["workers"] or config["workers"]
        raise InputError(
            f"batch={config['batch']} (global) does not divide among workers={config['workers']}; "
            f"nearest that do: {near}, {near + config['workers']}"
        )
    check_accumulate(config["batch"] // config["workers"], config["accumulate"])
    testbed = config["testbed"]
    launcher = launch.of(testbed)
    if testbed["kind"] == "simulated":
        check_device(testbed["device"])
        check_virtual(testbed)
    if config["device"] not in ("auto", "cpu", "cuda"):
        raise InputError(f"device={config['device']}: must be auto, cpu or cuda")
    if config["device"] == "cuda" and testbed["kind"] == "measured" and not uses_gpu(config):
        raise InputError(f"device=cuda: {launcher.no_gpus}")
    check_training(config)
    imbalance.check(config)
    strategy = strategies.load(config["strategy"]["name"])
    options = strategy.parse(files.strategy_options(config))
    check_fabric(strategy, launcher.fabric)
    strategy.check(options, {"epochs": config["epochs"], "workers": config["workers"]})
    needed, given = programs.ranks(config), config["testbed"].get("ranks")
    if given is not None and (type(given) is not int or given != needed):
        servers = needed - config["workers"]
        raise InputError(
            f"testbed.ranks={given}: {strategy.name} needs {needed} ranks "
            f"({config['workers']} workers and {servers} server{'s' * (servers != 1)}); null: as many as needed"
        )
    threads = config["testbed"].get("threads_per_rank", 1)
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
        raise InputError(f"testbed.threads_per_rank={threads}: must be a whole number, 1 or more")
    limits.check("testbed.threads_per_rank", threads, limits.THREADS)
    limits.check("ranks", needed, limits.RANKS)
    launcher.check(needed)
    programs.check(config)


def check_numbers(config: dict[str, Any]) -> None:
    """InputError for numbers of workers, samples, epochs and seconds that there cannot be."""
    for name in ("workers", "batch", "seeds", "seed", "trace_steps", "eval_train"):
        least = 0 if name in ("seed", "trace_steps", "eval_train") else 1
        if not isinstance(config[name], int) or isinstance(config[name], bool) or config[name] < least:
            raise InputError(f"{name}={config[name]}: must be a whole number, {least} or more")
    limits.check("seed", config["seed"], limits.SEEDS)
    for name in ("epochs", "eval_every", "checkpoint_every", "timeout_s"):
        value = config[name]
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
            raise InputError(f"{name}={value}: must be a number above 0")


def check_training(config: dict[str, Any]) -> None:
    """InputError for optimizer, targets and metric that a run would stumble over late."""

    def number(value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < float("inf")

    lr_schedule.check(config["optimizer"])
    if not isinstance(config["targets"], list) or not all(map(number, config["targets"])):
        raise InputError(f"targets={config['targets']}: must be a list of numbers, for instance targets=[0.95,0.97]")
    metrics.check(config["metric"], config["dataset"]["name"])


def identify(cells: Sequence[Cell]) -> None:
    """Give every cell its key (DESIGN section 8): configuration, seed, code, data, torch, hardware."""
    import torch

    from repro import data, models
    from repro.experiment import cache_key
    from repro.records import provenance

    ensured: set[tuple] = set()
    notes: dict[str, None] = {}  # each once, in order
    for cell in cells:
        wanted = (cell.config["dataset"]["name"], cell.config["data"]["root"], cell.config["dataset"]["standin"])
        if wanted not in ensured and not data.timing_only(cell.config):
            data.ensure(*wanted, say=lambda line: print(line, file=sys.stderr))
            ensured.add(wanted)
        dataset = data.of(cell.config)
        dataset.iterations(cell.config["batch"])
        check_model(cell.config, dataset)
        if note := models.size_note(cell.config, dataset):
            notes[note] = None
        network = cell.config["testbed"].get("network", "modelled")
        cell.hardware = provenance.hardware(network, "auto" if uses_gpu(cell.config) else "cpu")
        if elsewhere := launch.of(cell.config["testbed"]).hardware_class():
            cell.hardware |= {"class": elsewhere}
        code = cache_key.fingerprint(code_roots(cell.config))
        # without arithmetic and a wall clock the numbers are the same everywhere
        computed_by = (None, None) if data.timing_only(cell.config) else (torch.__version__, cell.hardware["class"])
        cell.key = cache_key.cell_key(keyed(cell.config), cell.seed, code, dataset.checksum, *computed_by)
    data.forget()
    for note in notes:
        print(note, file=sys.stderr)


def keyed(config: dict[str, Any]) -> dict[str, Any]:
    """The part of a configuration that the key is made of, with checksums of files that it names.

    What has the value that it would have without being named does not count, so that an option that comes to a plugin
    later leaves the keys of those who do not use it as they are.
    """
    from repro import data, models, strategies

    found = {name: value for name, value in _changing(config, NEUTRAL).items() if name not in NOT_IN_KEY}
    defaults = {
        "optimizer": NEUTRAL_OPTIMIZER,
        "strategy": registry.defaults(strategies.load(config["strategy"]["name"]).Options),
        "model": models.defaults(config["model"]["name"]),
        "dataset": dict.fromkeys(data.module(config["dataset"]["name"]).OPTIONS),
        "imbalance": registry.defaults(imbalance.load(imbalance.name_of(config)).Options),
    }
    for part in defaults.keys() & found.keys():
        found[part] = _changing(found[part], defaults[part])
    delays, read = imbalance.checksum(config), _read(config)
    return found | ({"delays": delays} if delays else {}) | ({"files": read} if read else {})


def _read(config: dict[str, Any]) -> list[str]:
    """Checksums of the files that the strategy reads; InputError where one is missing."""
    from repro import strategies

    strategy = strategies.load(config["strategy"]["name"])
    sums = []
    for path in strategy.files(strategy.parse(files.strategy_options(config))):
        try:
            sums.append(hashlib.sha256(path.read_bytes()).hexdigest())
        except OSError as error:
            raise InputError(f"strategy {strategy.name}: {path}: {error.strerror}") from None
    return sums


def _changing(entries: dict[str, Any], neutral: dict[str, Any]) -> dict[str, Any]:
    """Entries without those whose value changes nothing."""
    return {name: value for name, value in entries.items() if not (name in neutral and value == neutral[name])}


def check_model(config: dict[str, Any], dataset: Dataset) -> None:
    """InputError for a model that does not go with the data set, and for options of the strategy and a number of
    microbatches that do not go with the model; it is built without weights."""
    from repro import models, strategies
    from repro.training.buckets import block_sizes
    from repro.training.model_shard import carries_state

    metrics.check_classes(config["metric"], dataset.classes)
    model = models.of(config, dataset, "meta")
    if config["accumulate"] > 1 and carries_state(model):
        name = config["model"]["name"]
        raise InputError(
            f"accumulate={config['accumulate']}: model {name} carries its state from one minibatch to the "
            "next, so a minibatch is not cut; must be 1"
        )
    strategy = strategies.load(config["strategy"]["name"])
    strategy.check_model(strategy.parse(files.strategy_options(config)), block_sizes(list(model.children())))


def code_roots(config: dict[str, Any]) -> list[str]:
    """The modules that a cell's numbers come from; what they import counts too."""
    from repro import data, models

    launcher, dataset = launch.of(config["testbed"]), config["dataset"]["name"]
    scored_by = metrics.modules(data.task(dataset), data.kind(dataset)) if config["program"] == programs.TRAIN else {}
    return [
        *launcher.modules,
        *programs.modules(config),
        *scored_by.values(),
        models.module_of(config["model"]["name"]),
        data.module_of(dataset),
        fabric.FABRICS[launcher.fabric],
        *([] if imbalance.name_of(config) == imbalance.NONE else [imbalance.module_of(imbalance.name_of(config))]),
    ]
