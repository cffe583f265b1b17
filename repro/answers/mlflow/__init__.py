"""A mirror of the runs in MLflow, which can always be deleted and made again: `repro track sync`.

    source      a run to send: its folder, or its record in the reference
    format      names and values of a run's metrics, tags and parameters
    machine     CPU, memory and GPU of the machine, sampled while a run trains
    send        create or update one run in MLflow, in batches
    sync        all runs below the results folder, each once
    best_effort the runs of a command while they run, without long waits
    view        the state in which MLflow's pages of an experiment open
    ui          MLflow's web server on this machine
    store       the tracking store: URI, client, errors
    artifacts   where the files of runs go
    server_responses   limits of what a server may answer

Only the launching process talks to MLflow, over HTTP or to a file; ranks never import it. The events on disk are the
truth.
"""

from repro.answers.mlflow.best_effort import BestEffort
from repro.answers.mlflow.send import send_run
from repro.answers.mlflow.store import Store, is_server, open_store, public, tracking_uri
from repro.answers.mlflow.sync import sync_all

__all__ = ["BestEffort", "Store", "is_server", "open_store", "public", "send_run", "sync_all", "tracking_uri"]
