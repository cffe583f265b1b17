"""The commands of `repro`: a module for each group, whose `add(commands)` registers them; `main` parses and runs one.

Heavy libraries are imported inside the functions that need them: `list` is quick.
"""
