"""Entries of files with `each` (`repro.experiment.files`), and experiments' files that stand in no folder, which Hydra
does not find, as a source of Hydra's own: it asks for those that it merges, and for no other. Other people's folders
are searched by Hydra itself."""

from __future__ import annotations

from typing import Any

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from repro.core import config_folders
from repro.core.paths import CONFIGS
from repro.core.registry import PLUGINS
from repro.experiment.files import entries, group_file, in_files, is_hydras


class Entries(ConfigSource):
    """In `paper_configs/` beside the files that Hydra finds itself."""

    @staticmethod
    def scheme() -> str:
        """What its address in the search path begins with."""
        return "entries"

    def available(self) -> bool:
        """Whether there is anything to be found."""
        return CONFIGS.is_dir()

    def load_config(self, config_path: str) -> ConfigResult:
        """The configuration `GROUP/NAME`; what stands in an experiment is at the top, without the group's name."""
        if not self.is_config(config_path):
            raise ConfigLoadError(f"Config not found : {config_path}")
        group, _, name = config_path.partition("/")
        own = {"name": name} | PLUGINS[group].defaults(name) if _is_own(group, name) else group_file(group, name)
        config: Any = OmegaConf.create(own)
        package = "_global_" if group == "experiment" else None
        return ConfigResult(self.provider, self.full_path(), config, {"package": package})

    def is_group(self, config_path: str) -> bool:
        """Its groups are those that have folders."""
        return (CONFIGS / config_path).is_dir()

    def is_config(self, config_path: str) -> bool:
        """Whether there is `GROUP/NAME` without a file of that name, which is Hydra's to read."""
        group, _, name = config_path.partition("/")
        if _is_own(group, name):
            return True
        return not is_hydras(group, name) and name in in_files(group)

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """The names in a group's folder, for Hydra's messages."""
        group, _, folder = config_path.partition("/")
        start = f"{folder}/" if folder else ""
        names = [name.removeprefix(start) for name in entries(group) if name.startswith(start)]
        return [] if results_filter is ObjectType.GROUP else [name for name in names if "/" not in name]


def _is_own(group: str, name: str) -> bool:
    """Whether it is a plugin that is named by its place, which no file lists the options of."""
    return group in PLUGINS and PLUGINS[group].takes(name)


class SearchPath(SearchPathPlugin):
    """Hydra looks in other people's folders and there after the project's own."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Add the sources."""
        for folder in config_folders.folders()[1:]:
            search_path.append(folder.name, f"file://{folder}")
        search_path.append("entries", f"{Entries.scheme()}://{CONFIGS}")


for plugin in (Entries, SearchPath):
    Plugins.instance().register(plugin)
