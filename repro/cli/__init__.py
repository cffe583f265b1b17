"""The commands of `repro`, a module for each group; its `add(commands)` registers them, and `main` runs one.

Heavy libraries are imported inside the functions that need them, so that `repro list` is quick.
"""
