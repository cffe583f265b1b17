"""The imports of the pool of tests, from which ranks and commands are forked. They must not start threads of Python.

It has planned a run too, so that commands need not each read the code, the configuration and the published runs that
have not changed since.
"""

import contextlib
import gc
import io

import repro.rank.preload  # noqa: F401
from repro import strategies
from repro.answers.mlflow.store import prepare
from repro.core.paths import reference_root
from repro.experiment import requested  # noqa: F401
from repro.experiment.expand import expand_runs
from repro.experiment.identify import identify_runs
from repro.launch import runner  # noqa: F401
from repro.records import reference
from tests.support.cli import EXPERIMENT

prepare()
for name in strategies.strategy_names():
    strategies.load_strategy(name)
with contextlib.redirect_stderr(io.StringIO()):
    for testbed in ("here", "virtual"):
        identify_runs(expand_runs(EXPERIMENT, [f"testbed={testbed}", "strategy=dsync", "dataset.standin=always"]))
reference.read(EXPERIMENT.partition("/")[0], reference_root())
gc.freeze()  # memory pages of what is here stay shared
