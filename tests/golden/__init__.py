"""Golden rows: numbers that a change of code must not change unless it raises a version (`repro.experiment.versions`).

`rows.json` has a row for each strategy, model, data set, imbalance and optimizer of the committed runs, with the
options that these use, computed small. `make versions` compares them, writes those whose version was raised, and then
the digests of all parts.
"""
