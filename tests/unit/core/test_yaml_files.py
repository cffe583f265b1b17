"""Limits of YAML files, which may be somebody else's."""

from __future__ import annotations

import os

import pytest

from repro.cli.main import main
from repro.core import user_files
from repro.core.errors import InputError
from repro.experiment import grid

BOMB = "\n".join(["l0: &l0 [lol]", *(f"l{n}: &l{n} [{', '.join(10 * [f'*l{n - 1}'])}]" for n in range(1, 10))])
REFUSED = {
    "aliases": (BOMB, "more than 100,000 values"),
    "merged entries": ("a: &a {x: 1, y: 2}\nb: {<<: [" + ", ".join(50_000 * ["*a"]) + "]}", "more than 100,000 values"),
    "an alias in its own value": ("a: &a [*a]", "an alias"),
    "nesting": ("[" * 500, "nested more than 100 deep"),
    "size": (" " * (user_files.MOST_BYTES + 1), "more than"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_an_experiment_s_file_that_would_expand_without_end_is_one_line(tmp_path, capsys, kind):
    text, words = REFUSED[kind]
    (tmp_path / "table.yaml").write_text(text)
    assert main(["show", str(tmp_path / "table.yaml")]) == 2
    error = capsys.readouterr().err
    assert "table.yaml: not a readable YAML file" in error and words in error and error.count("\n") == 1


def test_aliases_are_read(tmp_path):
    (tmp_path / "a.yaml").write_text("a: &a [1, 2]\nb: {c: *a, d: *a}\n")
    assert user_files.read_yaml(tmp_path / "a.yaml") == {"a": [1, 2], "b": {"c": [1, 2], "d": [1, 2]}}


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.yaml")
    with pytest.raises(InputError, match="not a regular file"):
        user_files.read_yaml(tmp_path / "a.yaml")


def test_a_grid_of_too_many_combinations_is_refused_before_they_are_made():
    factors = {f"factor{n}": {str(value): [] for value in range(10)} for n in range(12)}
    with pytest.raises(InputError, match="grid: combinations of values: 1,000,000,000,000; must be"):
        grid.list_variants({"grid": factors, "strategy": {"name": "dsync"}})
