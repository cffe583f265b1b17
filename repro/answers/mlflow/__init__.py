"""A mirror of the runs in MLflow, which can always be deleted and made again: `repro track sync`.

    store       the tracking store: URI, client, errors
    artifacts   where the files of runs go
    server_responses   limits of what a server may answer
    format      names and values of a run's metrics, tags and parameters
    view        the state in which MLflow's pages of an experiment open
    machine     CPU, memory and GPU of the machine, sampled while a run trains
    source      the content of a run's folder, or its record in the reference
    mirror      create or update one run in MLflow
    best_effort the mirrors of a command's runs, without long waits
    sync        all runs below the results folder, each once

Only the launching process talks to MLflow, over HTTP or to a file; ranks never import it. The events on disk are the
truth.
"""

from repro.answers.mlflow.best_effort import BestEffort
from repro.answers.mlflow.mirror import Mirror
from repro.answers.mlflow.store import Store, is_server, open_store, public, tracking_uri
from repro.answers.mlflow.sync import sync_all

__all__ = ["BestEffort", "Mirror", "Store", "is_server", "open_store", "public", "sync_all", "tracking_uri"]
