"""Seeded faults on real runs (`make faults`): whatever strikes a run, the same command afterwards loses nothing.

A trial starts `repro run` with real ranks on a small model, lets one fault strike it, gives the same command again and
compares the end with that of an undisturbed run: the same bits where the strategy is deterministic, its invariants
(every gradient counted once, staleness within its bound) where it is not. `series` plans, records and counts the
trials; a module for each family of faults says how they are made.
"""
