"""What the commands `run`, `show`, `results` and `compare` do, for Python: `import repro` offers it."""

DEFAULT_SCALE = "quick"  # of `run`, `show` and `submit`
