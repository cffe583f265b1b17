"""Files of config groups: one configuration each, or with `each` several that share what stands beside it."""

from __future__ import annotations

import pytest

from repro.core.errors import InputError
from repro.experiment import config, files

SEVERAL = """# of one figure
paper: mypaper
batch: 8
grid: {method: {a: [strategy=dsync]}}
each:
  fig1-small:
    defaults: [override /model: softmax]
    batch: 4
  fig1-wide:
    grid: {method: {b: [strategy=pipe_sgd]}}
    testbeds: {here: []}
  fig1-plain:
"""


@pytest.fixture()
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_CONFIGS", str(tmp_path))
    made = tmp_path / "experiment" / "mypaper"
    made.mkdir(parents=True)
    (made / "fig1.yaml").write_text(SEVERAL)
    return made


def test_names_are_read_once_and_again_when_a_file_changes(folder, monkeypatch, tmp_path_factory):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    files._read_names.cache_clear()
    names = config.experiment_names("mypaper")
    files._read_names.cache_clear()  # as in another command
    with monkeypatch.context() as patch:
        patch.setattr(files.user_files, "read_yaml", lambda path: pytest.fail(f"{path} was read again"))
        assert config.experiment_names("mypaper") == names
    (folder / "fig1.yaml").write_text(SEVERAL + "  fig1-deep:\n")
    assert config.experiment_names("mypaper") == ["mypaper/fig1-deep", *names]


def test_each_has_its_own_over_what_is_common(folder):
    assert config.experiment_names("mypaper") == ["mypaper/fig1-plain", "mypaper/fig1-small", "mypaper/fig1-wide"]
    small, wide, plain = (files.own_file(f"mypaper/fig1-{name}") for name in ("small", "wide", "plain"))
    assert (small["batch"], wide["batch"], plain["batch"]) == (4, 8, 8)
    assert list(wide["grid"]["method"]) == ["a", "b"] and list(plain["grid"]["method"]) == ["a"]
    assert files.config_file("experiment", "mypaper/fig1-wide") == folder / "fig1.yaml"
    assert files.own_file("mypaper/fig1") == {} and "each" not in plain


def test_hydra_composes_each_with_its_defaults(folder):
    small, wide = (config.compose(f"mypaper/fig1-{name}", ["seed=3"]) for name in ("small", "wide"))
    assert (small["model"]["name"], small["batch"], small["seed"]) == ("softmax", 4, 3)
    assert [variant.label for variant in config.read_axes(wide, ())[0]] == ["a", "b"]
    with pytest.raises(InputError, match="unknown experiment 'mypaper/fig1'"):
        config.experiment_names("mypaper/fig1")


def test_a_changed_file_is_read_anew_and_a_broken_one_disturbs_no_other(folder):
    (folder / "broken.yaml").write_text("batch: [")
    assert files.own_file("mypaper/fig1-small")["batch"] == 4
    with pytest.raises(InputError, match=r"broken\.yaml"):
        files.own_file("mypaper/broken")
    (folder / "fig1.yaml").write_text(SEVERAL.replace("fig1-small", "fig1-tiny"))
    assert "mypaper/fig1-tiny" in files.group_names("experiment")
    assert files.own_file("mypaper/fig1-small") == {}


def test_what_files_make_is_kept_until_one_changes(folder):
    def batch_and_rate():
        made = config.compose("mypaper/fig1-small")
        return made["batch"], made["optimizer"]["lr"]

    assert batch_and_rate() == batch_and_rate() == (4, 0.1)
    text = SEVERAL.replace("batch: 4", "batch: 16\n    optimizer: {lr: 1e-4}")  # a number, as YAML 1.2 has it
    (folder / "fig1.yaml").write_text(text)
    assert batch_and_rate() == (16, 1e-4)
