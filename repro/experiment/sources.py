"""Hydra plugins that read configurations with `repro.experiment.files`: several in one file, and several folders."""

from __future__ import annotations

import pickle
from functools import lru_cache
from typing import Any

from hydra.conf import HydraConf
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from repro.core import user_files
from repro.core.paths import CONFIGS
from repro.core.registry import PLUGINS
from repro.experiment.files import group_file, in_files, is_there

COMMON = "config"  # the file of defaults


class Configurations(ConfigSource):
    """Every configuration of every group."""

    @staticmethod
    def scheme() -> str:
        """The scheme of the source's URL in the search path."""
        return "configurations"

    def available(self) -> bool:
        """Whether the folder exists."""
        return CONFIGS.is_dir()

    def load_config(self, config_path: str) -> ConfigResult:
        """The configuration `GROUP/NAME`; entries of an experiment are global, without the group's name."""
        if not self.is_config(config_path):
            raise ConfigLoadError(f"Config not found : {config_path}")
        group, _, name = config_path.partition("/")
        if is_made_by_code(group, name):
            content = {"name": name} | PLUGINS[group].defaults(name)
        else:
            content = group_file(group, name) if name else user_files.read_entries(CONFIGS / f"{COMMON}.yaml")
        package = "_global_" if group == "experiment" else None
        config = pickle.loads(_made(pickle.dumps(content)))
        return ConfigResult(self.provider, self.full_path(), config, {"package": package})

    def is_group(self, config_path: str) -> bool:
        """Whether the group has a folder."""
        return (CONFIGS / config_path).is_dir()

    def is_config(self, config_path: str) -> bool:
        """Whether a group has a configuration of that name."""
        group, _, name = config_path.partition("/")
        return is_made_by_code(group, name) or (is_there(group, name) if name else config_path == COMMON)

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """The names in a group's folder, for Hydra's messages."""
        group, _, folder = config_path.partition("/")
        start = f"{folder}/" if folder else ""
        names = [name.removeprefix(start) for name in in_files(group) if name.startswith(start)]
        return [] if results_filter is ObjectType.GROUP else [name for name in names if "/" not in name]


@lru_cache(maxsize=1000)
def _made(content: bytes) -> bytes:
    """The OmegaConf object of a content, both pickled: unpickling takes a tenth of the time of creation."""
    config: Any = OmegaConf.create(pickle.loads(content))
    return pickle.dumps(config)


def is_made_by_code(group: str, name: str) -> bool:
    """Whether a name is of a plugin whose options no file lists: a user's own, or another package's."""
    if group not in PLUGINS or is_there(group, name):
        return False
    return PLUGINS[group].takes(name) or name in PLUGINS[group].names()


class SearchPath(SearchPathPlugin):
    """Puts the source before Hydra's folder."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Add the source."""
        search_path.prepend(Configurations.scheme(), f"{Configurations.scheme()}://{CONFIGS}")


for plugin in (Configurations, SearchPath):
    Plugins.instance().register(plugin)
# Without Hydra's own logging, help and sweep configurations a merge takes two thirds of the time.
ConfigStore.instance().store("config", HydraConf(defaults=[]), "hydra", provider="hydra")
