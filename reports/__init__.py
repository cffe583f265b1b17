"""The reports room: pages, figures and tables, built from runs' summaries alone (`repro.reports.build.build`).

Nothing here trains, imports torch or mlflow, or asks a database. `loading` reads runs, `groups` and `probes` tell which
stand together, `results` which a page shows, `evidence` what they say of each claim, `specs` draws what a page's
figures.yaml asks for, `paper_page` fills the templates. A paper's own is in the folder of its name; what its claims and
tables compute that no verb or tidy table has is in functions there.
"""
