"""The runs of experiments with their keys, found by a process that imports PyTorch so that the command need not.

`python -m repro.launch.plan_process` reads a request of `repro.launch.plan` on stdin and writes the answer on stdout;
messages about data go to stderr.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, TextIO

from repro.core import error_location
from repro.core.errors import FaultError, ReproError
from repro.core.paths import CONFIGS, PACKAGE
from repro.core.registry import PLUGINS
from repro.experiment.requested import runs_of
from repro.experiment.run import Run
from repro.records import variants

MOST = 500  # files that a plan may rest on and be remembered


class Witness:
    """What this process opens from now on, outside of Python and of what is known to be read: the project's own code
    and configuration. By an audit hook: which files a user's own data set or model reads, its code alone knows."""

    def __init__(self) -> None:
        self.read: set[str] = set()
        self.written: set[str] = set()
        self._known = ("/proc/", "/sys/", "/dev/", f"{PACKAGE}{os.sep}", f"{CONFIGS}{os.sep}")
        self._python = tuple(f"{prefix}{os.sep}" for prefix in (sys.prefix, sys.base_prefix))
        sys.addaudithook(self._see)

    def _see(self, event: str, arguments: tuple) -> None:
        if event not in ("open", "os.listdir", "os.scandir") or not isinstance(arguments[0], str | bytes | os.PathLike):
            return
        place = os.path.abspath(os.fsdecode(arguments[0]))
        # installed source is read for the key of a run of somebody else's plugin
        library = place.startswith(self._python) and not place.endswith(".py")
        if library or place.startswith(self._known) or "__pycache__" in place:
            return
        writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        (self.written if writes else self.read).add(place)

    def watched(self, runs: Sequence[Run]) -> list[str] | None:
        """Files and folders whose change may make another plan; None where these are too many, or where data were
        fetched, which the next command finds."""
        from repro.data.files import places

        roots = [place for root in {run.config.data.root for run in runs} for place in places(root)]
        inner = [each for place in roots if place.is_dir() for each in place.iterdir() if each.is_dir()]
        fetched = any(path.startswith(f"{place}{os.sep}") for path in self.written for place in roots)
        watched = {*self.read, *map(str, roots), *map(str, inner)}
        return None if fetched or len(watched) > MOST else sorted(watched)


class Tee:
    """A stream that keeps what it passes on."""

    def __init__(self, stream: TextIO):
        self.stream, self.text = stream, ""

    def write(self, text: str) -> int:
        self.text += text
        return self.stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The plan of a request: runs as plain data, experiments left out, messages, files that it depends on; or the name
    of an error and its message."""
    witness, stderr = Witness(), Tee(sys.stderr)
    sys.stderr = stderr
    try:
        runs, left_out = runs_of(**request)
    except ReproError as error:
        return {"error": type(error).__name__, "message": str(error)}
    except Exception as error:  # of a plugin: a strategy's `check`, a data set's `load`
        traceback.print_exc()
        return {
            "error": FaultError.__name__,
            "message": f"the runs cannot be planned: {error_location.describe(error)}",
        }
    plan = {"runs": [run.plain() for run in runs], "watched": witness.watched(runs)}
    # which is no part of the plan: what it reads is not watched
    variants.keep_defaults((group, getattr(run.config, group).name) for run in runs for group in PLUGINS)
    return plan | {"left_out": left_out, "stderr": stderr.text}


if __name__ == "__main__":
    print(json.dumps(answer(json.load(sys.stdin))))
