"""The helper process that plans runs: it imports PyTorch, so that the command need not.

`python -m repro.launch.plan_process` reads a request of `repro.launch.plan` from stdin and writes the answer to stdout;
messages about data go to stderr.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, TextIO

from repro.core import errors, user_cache
from repro.core.errors import FaultError, ReproError
from repro.core.paths import CONFIGS, PACKAGE
from repro.core.registry import PLUGINS
from repro.experiment.requested import runs_of
from repro.experiment.run import Run
from repro.records import neutral

MOST_FILES = 500  # a plan that depends on more files is not cached


class FileAccesses:
    """The files that this process opens from now on, but for Python's own, and the project's code, configuration and
    cache.

    Recorded by an audit hook, since only the code of a user's data set or model determines which files it reads.
    """

    def __init__(self) -> None:
        self.read: set[str] = set()
        self.written: set[str] = set()
        ours = (f"{PACKAGE}{os.sep}", f"{CONFIGS}{os.sep}", str(user_cache.cache_folder()))
        self._ignored = ("/proc/", "/sys/", "/dev/", *ours)
        self._python = tuple(f"{prefix}{os.sep}" for prefix in (sys.prefix, sys.base_prefix))
        sys.addaudithook(self._record)

    def _record(self, event: str, arguments: tuple) -> None:
        if event not in ("open", "os.listdir", "os.scandir") or not isinstance(arguments[0], str | bytes | os.PathLike):
            return
        path = os.path.abspath(os.fsdecode(arguments[0]))
        # installed source is read for the run keys of other packages' plugins
        library = path.startswith(self._python) and not path.endswith(".py")
        if library or path.startswith(self._ignored) or "__pycache__" in path:
            return
        writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        (self.written if writes else self.read).add(path)

    def dependencies(self, runs: Sequence[Run]) -> list[str] | None:
        """Files and folders whose change invalidates the plan; None if there are too many, or if data were fetched,
        because the next command will plan with them."""
        from repro.data.files import search_places

        roots = [place for root in {run.config.data.root for run in runs} for place in search_places(root)]
        inner = [each for place in roots if place.is_dir() for each in place.iterdir() if each.is_dir()]
        fetched = any(path.startswith(f"{place}{os.sep}") for path in self.written for place in roots)
        watched = {*self.read, *map(str, roots), *map(str, inner)}
        return None if fetched or len(watched) > MOST_FILES else sorted(watched)


class Tee:
    """A stream that also stores what it writes."""

    def __init__(self, stream: TextIO):
        self.stream, self.text = stream, ""

    def write(self, text: str) -> int:
        self.text += text
        return self.stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def answer_request(request: dict[str, Any]) -> dict[str, Any]:
    """The plan of a request: runs as plain data, experiments left out, messages, and files that it depends on; or the
    name of an error and its message."""
    accesses, stderr = FileAccesses(), Tee(sys.stderr)
    sys.stderr = stderr
    try:
        runs, left_out = runs_of(**request)
    except ReproError as error:
        return {"error": type(error).__name__, "message": str(error)}
    except Exception as error:  # from a plugin: a strategy's `check`, a data set's `load`
        traceback.print_exc()
        return {
            "error": FaultError.__name__,
            "message": f"the runs cannot be planned: {errors.describe_error(error)}",
        }
    plan = {"runs": [run.plain() for run in runs], "watched": accesses.dependencies(runs)}
    # afterwards, because the plan does not depend on the files that this reads
    neutral.keep_defaults((group, getattr(run.config, group).name) for run in runs for group in PLUGINS)
    return plan | {"left_out": left_out, "stderr": stderr.text}


if __name__ == "__main__":
    print(json.dumps(answer_request(json.load(sys.stdin))))
