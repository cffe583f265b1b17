"""What the process has imported from which `tests.support.cli` forks the command: all that the command may need.

Nothing here starts a thread: what is forked has none but its own.
"""

import pytest  # noqa: F401 - every forked process looks at the main module of the one that asked for it

import tests.support.cli  # noqa: F401
from repro import strategies
from repro.answers.mlflow.store import prepare
from repro.experiment import requested  # noqa: F401
from repro.launch import runner  # noqa: F401

prepare()
for name in strategies.names():
    strategies.load(name)
