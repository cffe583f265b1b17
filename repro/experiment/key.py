"""The key under which a run's result is kept (docs/design.md, Keys): of configuration, seed, code, data, torch,
hardware."""

from __future__ import annotations

import hashlib
from typing import Any

from repro.core.errors import InputError
from repro.core.registry import PLUGINS, TRAIN, home
from repro.core.user_files import read_bytes
from repro.experiment import cache_key, draws, programs
from repro.experiment.needs import uses_gpu
from repro.experiment.run import Run
from repro.experiment.schema import RunConfig
from repro.records import provenance

# entries that no result depends on: names, where data lie, how long a rank may wait
NOT_IN_KEY = {
    *("variant", "factors", "changed", "scale", "seed", "key", "hardware", "provenance"),
    *("data", "timeout_s", "title", "strategy", "model", "dataset", "imbalance"),
    "profile_steps",  # makes another run
    *("inputs", "draws"),  # only of a sweep over draws
}


class Keys:
    """The keys of runs. What many runs share is read once: neither code nor data may change meanwhile.

    hardware_class: of runs whose launcher gives none; None: this machine's.
    """

    def __init__(self, hardware_class: str | None = None) -> None:
        self._hardware_class = hardware_class
        self._code: dict[tuple[str, ...], str] = {}
        self._checksums: dict[str, str] = {}

    def give(self, run: Run, checksum: str | None = None) -> None:
        """Set a run's key and hardware. checksum: of its data, if known; else the data found on this machine are read.
        NotHere where there are none."""
        import torch

        config = run.config
        run.hardware = provenance.hardware(config.testbed.network, "auto" if uses_gpu(config) else "cpu")
        if hardware_class := home("launcher").of(config.testbed).hardware_class() or self._hardware_class:
            run.hardware |= {"class": hardware_class}
        plugins = {part: getattr(config, part).name for part in PLUGINS}
        own = {part: PLUGINS[part].modules(name) for part, name in plugins.items() if PLUGINS[part].takes(name)}
        run.users_code = {part: code for part, of in own.items() if (code := cache_key.of_users(of))}
        roots = tuple(code_roots(config))
        if roots not in self._code:
            self._code[roots] = cache_key.fingerprint(roots)
        # without arithmetic and a wall clock the numbers are the same everywhere
        computed_by = (
            (None, None) if config.simulated and config.timing_only else (torch.__version__, run.hardware["class"])
        )
        read = checksum or self._checksum(config)
        run.key = cache_key.run_key(keyed(config), run.seed, self._code[roots], read, *computed_by)

    def _checksum(self, config: RunConfig) -> str:
        which = repr((config.dataset.plain(), config.data.root, config.timing_only))
        if which not in self._checksums:
            self._checksums[which] = home("dataset").of(config).checksum
        return self._checksums[which]


def keyed(config: RunConfig) -> dict[str, Any]:
    """The part of a configuration that the key is made of, with checksums of files that it names.

    What is at its default does not count, so that an option that comes later leaves the keys of those who do not use
    it as they are: a plugin's defaults are in its code, which counts itself, and the schema's never change.
    """
    parts = config.model_dump(mode="json", exclude=NOT_IN_KEY, exclude_defaults=True)
    for entry in ("sources", "inputs"):  # they describe a testbed's numbers
        parts["testbed"].pop(entry, None)
    if config.draws:  # however many, for more of them go on from those that are there
        parts["inputs"] = draws.described(config)
    for part, plugin in (("strategy", config.strategy), ("model", config.model), ("dataset", config.dataset)):
        parts[part] = plugin.changed()
    if config.imbalance.name != home("imbalance").NONE:
        parts["imbalance"] = config.imbalance.changed()
    delays, files = home("imbalance").checksum(config), _files(config)
    return parts | ({"delays": delays} if delays else {}) | ({"files": files} if files else {})


def _files(config: RunConfig) -> list[str]:
    """Checksums of the files that the strategy reads; InputError where one is missing."""
    sums = []
    for path in PLUGINS["strategy"].load(config.strategy.name).files(config.strategy.options):
        try:
            sums.append(hashlib.sha256(read_bytes(path)).hexdigest())
        except OSError as error:
            raise InputError(f"strategy {config.strategy.name}: {path}: {error.strerror}") from None
    return sums


def code_roots(config: RunConfig) -> list[str]:
    """The modules that a run's numbers come from; what they import counts too."""
    launcher, data, name = home("launcher").of(config.testbed), home("dataset"), config.dataset.name
    scored_by = home("metric").modules(data.task(name), data.kind(name)) if config.program == TRAIN else {}
    delayed_by = [] if config.imbalance.name == home("imbalance").NONE else [config.imbalance.name]
    return [
        *launcher.code_roots(),
        *programs.modules(config),
        *scored_by.values(),
        *PLUGINS["model"].modules(config.model.name),
        *PLUGINS["dataset"].modules(name),
        *map(PLUGINS["imbalance"].module_of, delayed_by),
    ]
