"""Words that options of commands and entries of configurations choose among.

This module imports nothing that takes time: the parser of every command needs it.
"""

from __future__ import annotations

from typing import Literal

Device = Literal["auto", "cpu", "cuda"]  # of the computation

SCALES = ("quick", "full", "paper")  # the usual sizes of an experiment
QUICK = SCALES[0]  # for trying out, and the default of `run`, `show` and `submit`
