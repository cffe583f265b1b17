"""The reports room: pages, figures and tables built from the runs' `summary.json` alone (`repro.reports.build.build`).

Nothing here trains, imports torch or mlflow, or asks a database. Reading (`loading`, `probes`), grouping (`groups`) and
data preparation (`frames*`, `compute*`, `stats`) are apart from drawing (`figure*`, `boxes`, `timeline`), which gets
data frames. `section_*` put both into sections of a page (`page`), `pipesgd` puts the sections into one. The packages
`gtopk`, `eagersgd`, `pipedream` and `ibatch` have the same parts for their papers and share `assembly` (a page from its
sections), `arithmetic` (numbers of a paper against each other) and `sweeps` (which results stand together); what is
computed for their claims (`compute_pipedream`, `compute_pipelines`,
`pipelines`, `schedules`) stands here, with the other functions that claims name; iBatch's own in its package.
"""
