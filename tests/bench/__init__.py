"""The harness's own benchmarks (`make bench`), whose goals are judged on this machine.

`experiment/` has those that are experiments, a folder as `paper_configs/`; each module in `FUNCTIONS` of `__main__` has
`GOALS` and a function `measure_rows`, for what is measured from outside of a run.
"""
