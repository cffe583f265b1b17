"""What rank 0 tells the process that started it, a line of JSON each; `repro.launch.supervise` reads them."""

from __future__ import annotations

import json
import sys
from typing import Any


def say(event: str, **fields: Any) -> None:
    """One line for the parent process, which draws the progress."""
    print("@" + json.dumps({"event": event, **fields}), file=sys.stdout, flush=True)
