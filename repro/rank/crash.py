"""An exception in what a rank runs, somebody's strategy, model, data set or probe, as one line: rank, file, line."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from repro.core import error_location
from repro.core.errors import UNWRITABLE, Crashed, ReproError
from repro.core.paths import PACKAGE
from repro.core.registry import PLUGINS, PROBES
from repro.experiment.schema import RunConfig


@contextmanager
def located(rank: int, config: RunConfig) -> Iterator[None]:
    """Crashed in the place of any error that the project has no words for; its traceback goes to stderr, the log."""
    try:
        yield
    except ReproError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in UNWRITABLE:
            raise
        traceback.print_exc()
        where = error_location.describe(error, plugin_files(config).__contains__, of_project)
        raise Crashed(f"rank {rank}: {where}") from None


def of_project(file: str) -> bool:
    return file.startswith(str(PACKAGE))


def plugin_files(config: RunConfig) -> set[str]:
    """The files of the plugins that a run has chosen."""
    chosen = {group: getattr(config, group).name for group in PLUGINS}
    modules = [PLUGINS[group].module_of(name) for group, name in chosen.items()]
    modules += [PROBES.module_of(config.program)] if config.program in PROBES.names() else []
    return {str(sys.modules[name].__file__) for name in modules if name in sys.modules}
