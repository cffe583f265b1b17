"""PowerSGD (Vogels, Karimireddy, Jaggi, NeurIPS 2019) as a paper of `repro`, in a package of its own.

Experiments, testbed, printed numbers, claims and page lie beside this file, as they do in `paper_configs/` and
`reports/`; the strategy is the project's (`strategies/powersgd.py`).
"""
