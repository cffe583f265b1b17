"""Experiments: from a configuration file to its runs, each with a resolved configuration and a key."""
