"""The reports room: pages, figures and tables rebuilt from `results/**/summary.json` alone (`reports.build.build`).

Nothing here trains, imports torch or mlflow, or asks a database. Reading (`loading`, `probes`), grouping (`groups`) and
data preparation (`frames*`, `compute*`, `stats`) are apart from drawing (`figure*`, `boxes`, `timeline`), which gets
data frames. `section_*` put both into sections of a page (`page`), `pipesgd` puts the sections into one.
"""
