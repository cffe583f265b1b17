"""A reproduction harness for distributed deep-learning training: five papers, measured and simulated.

    repro.run("pipesgd/fig4-mnist", "strategy=pipe_sgd", scale="quick")    -> records
    repro.show("pipesgd/fig4-mnist")                                       -> its runs and their states
    repro.results("pipesgd"), repro.compare("pipe_sgd", "dsync")           -> pandas DataFrames
    repro.recommend(...)

Each function does the same as the command of its name (docs/api.md). PyTorch and pandas are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# function -> its module
API = {
    "run": "repro.launch.run",
    "show": "repro.launch.show",
    "results": "repro.records.results",
    "compare": "repro.records.results",
    "recommend": "repro.answers.ranking",
}
__all__ = ["compare", "recommend", "results", "run", "show"]


def __getattr__(name: str) -> Any:
    if name not in API:
        raise AttributeError(f"module 'repro' has no attribute '{name}'")
    globals()[name] = call = getattr(import_module(API[name]), name)
    return call


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
