"""A reproduction harness for distributed deep-learning training: five papers, measured and simulated."""

__version__ = "0.1.0"
