"""The commands `run`, `show`, `results` and `compare` as Python functions; `import repro` exports them."""

from repro.core.errors import InputError

DEFAULT_SCALE = "quick"  # of `run`, `show` and `submit`


def check_name(experiment: object) -> str:
    """The experiment; InputError unless it is a text (None would select every experiment)."""
    if not isinstance(experiment, str):
        raise InputError(f"experiment {experiment!r:.60}: must be a text: PAPER, PAPER/EXPERIMENT or a file")
    return experiment
