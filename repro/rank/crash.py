"""Reports an exception in a rank's strategy, model, data set or probe as one line with rank, file and line."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from repro.core import errors
from repro.core.errors import UNUSABLE, Crashed, ReproError
from repro.core.paths import PACKAGE
from repro.core.registry import PLUGINS, PROBES
from repro.experiment.schema import RunConfig


@contextmanager
def locating_errors(rank: int, config: RunConfig) -> Iterator[None]:
    """Convert exceptions that are no ReproError to Crashed; the traceback goes to stderr, and so to the log."""
    try:
        yield
    except ReproError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in UNUSABLE:
            raise
        traceback.print_exc()
        project = str(PACKAGE)
        where = errors.describe_error(error, plugin_files(config).__contains__, lambda file: file.startswith(project))
        raise Crashed(f"rank {rank}: {where}") from None


def plugin_files(config: RunConfig) -> set[str]:
    """The files of the plugins that a run uses."""
    modules = [registry.module_of(getattr(config, group).name) for group, registry in PLUGINS.items()]
    modules += [PROBES.module_of(config.program)] if config.program in PROBES.names() else []
    return {str(sys.modules[name].__file__) for name in modules if name in sys.modules}
