"""The reports room: pages, figures and tables rebuilt from `results/**/summary.json` alone (`reports.build.build`).

Nothing here trains, imports torch or mlflow, or asks a database. Data preparation (`groups`, `stats`, `frames`,
`compute`) is apart from drawing (`figure4`, `timeline`); plot functions get data frames.
"""
