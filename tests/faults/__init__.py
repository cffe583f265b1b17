"""Fault injection in real runs (`make faults`): after a fault the same command must recover without loss.

A trial starts `repro run` with real ranks on a small model, injects one fault, repeats the command and compares the
result with that of an undisturbed run: the same bits if the strategy is deterministic, else its invariants (every
gradient counted once, bounded staleness). `series` plans, records and counts the trials; each family of faults has a
module.
"""
