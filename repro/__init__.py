"""A reproduction harness for distributed deep-learning training: five papers, measured and simulated.

    repro.run("pipesgd/fig4-mnist", "strategy=pipe_sgd", scale="quick")    -> records
    repro.show("pipesgd/fig4-mnist")                                       -> what it would run, and what is done
    repro.results("pipesgd"), repro.compare("pipe_sgd", "dsync")           -> pandas DataFrames
    repro.recommend(...)

do what the commands of these names do (docs/api.md). PyTorch and pandas are imported where a call needs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# what a call does -> the module that has it
API = {
    "run": "repro.api.running",
    "show": "repro.api.showing",
    "results": "repro.api.tables",
    "compare": "repro.api.tables",
    "recommend": "repro.ranking",
}
__all__ = ["compare", "recommend", "results", "run", "show"]


def __getattr__(name: str) -> Any:
    if name not in API:
        raise AttributeError(f"module 'repro' has no attribute '{name}'")
    globals()[name] = call = getattr(import_module(API[name]), name)
    return call


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
