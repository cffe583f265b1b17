"""What the commands `run`, `show`, `results` and `compare` do, for Python: `import repro` offers it."""

from repro.core.errors import InputError

DEFAULT_SCALE = "quick"  # of `run`, `show` and `submit`


def named(experiment: object) -> str:
    """What a caller names; InputError for anything but a text, of which None would stand for every experiment."""
    if not isinstance(experiment, str):
        raise InputError(f"experiment {experiment!r:.60}: must be a text: PAPER, PAPER/EXPERIMENT or a file")
    return experiment
