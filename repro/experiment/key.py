"""The key of a run's result (docs/design.md, Keys): a hash of configuration, seed, versions of parts, data, torch and
hardware."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from repro.core.errors import InputError
from repro.core.registry import PLUGINS, TRAIN, home_module
from repro.core.user_files import read_bytes
from repro.experiment import code_digest, draws
from repro.experiment.needs import uses_gpu
from repro.experiment.run import Run
from repro.experiment.schema import RunConfig
from repro.experiment.versions import StoredDigests, edited_parts, versions_of
from repro.records import provenance
from repro.records.configured import roles_of
from repro.records.units import METADATA


class Keys:
    """Computes keys of runs. Code and data that runs share are read once, so they must not change meanwhile.

    hardware_class: for runs whose launcher has none; None: this machine's.
    """

    def __init__(self, hardware_class: str | None = None) -> None:
        self._hardware_class = hardware_class
        self._digest = StoredDigests()
        self._data: dict[str, tuple[str, int]] = {}

    def assign(self, run: Run, checksum: str | None = None) -> None:
        """Set a run's key, resume key, hardware, versions of its parts and digests of its user's code.

        The resume key covers what the key does, but of a simulated run, whose time is modelled, not torch and hardware:
        a checkpoint may be continued by a run with the same resume key.

        checksum: of its data, if known; None: read the data on this machine, NotHere if they are missing, and set a
        training's iterations.
        """
        import torch

        config = run.config
        run.hardware = provenance.hardware(config.testbed.network, "auto" if uses_gpu(config) else "cpu")
        if (
            hardware_class := home_module("launcher").launcher_for(config.testbed).hardware_class()
            or self._hardware_class
        ):
            run.hardware |= {"class": hardware_class}
        run.users_code = code_digest.users_code({part: getattr(config, part).name for part in PLUGINS})
        computed_by = (None, None) if config.portable else (torch.__version__, run.hardware["class"])
        if checksum is None:
            checksum, per_epoch = self._read(config)
            run.iterations = config.iterations(per_epoch) if config.program == TRAIN and per_epoch else None
        run.parts, run.edited = versions_of(config, self._digest), edited_parts(config, self._digest)
        whole = keyed_values(config), run.seed, run.parts, checksum
        run.key = run_key(*whole, *computed_by)
        run.resume_key = run_key(*whole, *((None, None) if config.simulated else computed_by))

    def _read(self, config: RunConfig) -> tuple[str, int]:
        """The checksum of a run's data, and the iterations of an epoch, 0 if they are too few for one."""
        which = repr((config.dataset.plain(), config.data.root, config.timing_only, config.batch))
        if which not in self._data:
            dataset = home_module("dataset").dataset_for(config)
            self._data[which] = dataset.checksum, dataset.train.iterations(config.batch)
        return self._data[which]


def keyed_values(config: RunConfig) -> dict[str, Any]:
    """The part of a configuration that is hashed into the key, with checksums of files that it names.

    Values at their defaults do not count, so that a new option changes no key of a run that does not use it. A plugin's
    defaults are in its code, which is hashed itself; the schema's defaults never change.
    """
    roles = roles_of(RunConfig)
    left_out = {name for name, role in roles.items() if role.keyed == "never"}
    parts = config.model_dump(mode="json", exclude=left_out | PLUGINS.keys(), exclude_defaults=True)
    for name, role in roles.items():
        if role.keyed == "always":  # at its default
            parts.setdefault(name, RunConfig.model_fields[name].get_default(call_default_factory=True))
    parts["testbed"] = {name: value for name, value in parts["testbed"].items() if name not in METADATA}
    if config.draws:  # their number does not count: more draws extend the same sweep
        parts["inputs"] = draws.describe_inputs(config)
    for part, plugin in (("strategy", config.strategy), ("model", config.model), ("dataset", config.dataset)):
        parts[part] = plugin.keyed()
    if config.imbalance.name != home_module("imbalance").NONE:
        parts["imbalance"] = config.imbalance.keyed()
    delays, files = home_module("imbalance").delays_checksum(config), _files(config)
    return parts | ({"delays": delays} if delays else {}) | ({"files": files} if files else {})


def _files(config: RunConfig) -> list[str]:
    """Checksums of the files that the strategy reads; InputError for a missing one."""
    sums = []
    for path in PLUGINS["strategy"].load(config.strategy.name).files(config.strategy.options):
        try:
            sums.append(hashlib.sha256(read_bytes(path)).hexdigest())
        except OSError as error:
            raise InputError(f"strategy {config.strategy.name}: {path}: {error.strerror}") from None
    return sums


def run_key(
    config: dict[str, Any],
    seed: int,
    parts: Mapping[str, int | str],
    data_checksum: str,
    torch_version: str | None,
    hardware_class: str | None,
) -> str:
    """The SHA-256, in hexadecimal, of all that a run's result depends on; parts: as of `versions_of`.

    torch_version and hardware_class are None for runs without arithmetic and wall clock. The order of the
    configuration's keys does not count. It should contain nothing that cannot change the result, such as a folder.
    """
    whole = [config, seed, dict(parts), data_checksum, torch_version, hardware_class]
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
