"""The names of assumed inputs and what each is, in words: `inputs.yaml` of every configuration folder."""

from __future__ import annotations

from repro.core import config_folders, user_files
from repro.core.errors import InputError

DIMENSIONS = 32  # of the Sobol sequence: one for each input that an `inputs.yaml` names


def describe_names() -> dict[str, str]:
    """name -> description of each input, from `inputs.yaml` of all configuration folders."""
    return {name: text for texts in reversed(read_names()) for name, text in texts.items()}


def read_names() -> list[dict[str, str]]:
    """The content of each `inputs.yaml`, the project's first; InputError if one is no list of names and texts."""
    files = [folder / "inputs.yaml" for folder in config_folders.config_folders()]
    named = [(path, user_files.read_yaml(path)) for path in files if path.is_file()]
    for path, texts in named:
        if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
            raise InputError(f"{path}: must be names of inputs, each with a description")
        if len({**named[0][1], **texts}) > DIMENSIONS:
            raise InputError(f"{path}: {len(texts)} inputs; must be {DIMENSIONS} or fewer with the project's own")
    return [texts for _, texts in named]
