"""The imports of the process from which `tests.support.cli` forks commands. They must not start threads."""

import pytest  # noqa: F401 - the main module of the parent, which every forked process imports

import tests.support.cli  # noqa: F401
from repro import strategies
from repro.answers.mlflow.store import prepare
from repro.experiment import requested  # noqa: F401
from repro.launch import runner  # noqa: F401

prepare()
for name in strategies.names():
    strategies.load(name)
