"""MLflow, as a mirror of the event logs that may always be deleted and made again: `repro track sync`.

    store       where it is: the URI, its check, how a client is opened, and what an error of it comes to
    format      how a run looks in MLflow: names and values, no MLflow needed
    view        how MLflow's pages of an experiment open
    machine     what a run does to the machine: CPU, memory, GPUs, sampled while it trains
    source      what there is to mirror of a run
    mirror      one run in MLflow: found or made, and brought up to date from any state
    best_effort the mirrors of a command's runs, which nothing waits for long
    sync        all runs below the results folder, each once

Only the launching process talks to MLflow, over HTTP or to a file; ranks never import it and never wait for it. Their
events on disk are the truth.
"""

from repro.answers.mlflow.best_effort import BestEffort
from repro.answers.mlflow.mirror import Mirror
from repro.answers.mlflow.store import Store, is_server, open_store, public, tracking_uri
from repro.answers.mlflow.sync import sync_all

__all__ = ["BestEffort", "Mirror", "Store", "is_server", "open_store", "public", "sync_all", "tracking_uri"]
