"""Where Hydra finds the configurations of `paper_configs/` and of other people's folders: our reading of them, instead
of its own.

A file may hold several with `each` (`repro.experiment.files`), and one that was read stays read.
"""

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

from repro.core import yaml_files
from repro.core.paths import CONFIGS
from repro.core.registry import PLUGINS
from repro.experiment.files import group_file, in_files, is_there

EVERYONES = "config"  # the file of defaults


class Configurations(ConfigSource):
    """Every configuration of every group."""

    @staticmethod
    def scheme() -> str:
        """What its address in the search path begins with."""
        return "configurations"

    def available(self) -> bool:
        """Whether there is anything to be found."""
        return CONFIGS.is_dir()

    def load_config(self, config_path: str) -> ConfigResult:
        """The configuration `GROUP/NAME`; what stands in an experiment is at the top, without the group's name."""
        if not self.is_config(config_path):
            raise ConfigLoadError(f"Config not found : {config_path}")
        group, _, name = config_path.partition("/")
        if is_own(group, name):
            content = {"name": name} | PLUGINS[group].defaults(name)
        else:
            content = group_file(group, name) if name else yaml_files.entries(CONFIGS / f"{EVERYONES}.yaml")
        package = "_global_" if group == "experiment" else None
        config = pickle.loads(_made(pickle.dumps(content)))
        return ConfigResult(self.provider, self.full_path(), config, {"package": package})

    def is_group(self, config_path: str) -> bool:
        """Its groups are those that have folders."""
        return (CONFIGS / config_path).is_dir()

    def is_config(self, config_path: str) -> bool:
        """Whether a group has a configuration of that name."""
        group, _, name = config_path.partition("/")
        if is_own(group, name):
            return True
        return is_there(group, name) if name else config_path == EVERYONES

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """The names in a group's folder, for Hydra's messages."""
        group, _, folder = config_path.partition("/")
        start = f"{folder}/" if folder else ""
        names = [name.removeprefix(start) for name in in_files(group) if name.startswith(start)]
        return [] if results_filter is ObjectType.GROUP else [name for name in names if "/" not in name]


@lru_cache(maxsize=1000)
def _made(content: bytes) -> bytes:
    """OmegaConf's form of a content, both pickled: to make it takes ten times as long as to read it."""
    config: Any = OmegaConf.create(pickle.loads(content))
    return pickle.dumps(config)


def is_own(group: str, name: str) -> bool:
    """Whether it is a plugin that is named by its place, which no file lists the options of."""
    return group in PLUGINS and PLUGINS[group].takes(name)


class SearchPath(SearchPathPlugin):
    """Hydra looks there before its folder."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Add the source."""
        search_path.prepend(Configurations.scheme(), f"{Configurations.scheme()}://{CONFIGS}")


for plugin in (Configurations, SearchPath):
    Plugins.instance().register(plugin)
# Hydra's own logging, help and sweeps, of which a configuration takes nothing: a third of the time of a merge.
ConfigStore.instance().store("config", HydraConf(defaults=[]), "hydra", provider="hydra")
