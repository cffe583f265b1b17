"""Files, folders and variables of the user's that cannot be used: experiments, testbeds, printed numbers, claims."""

from __future__ import annotations

import os

import pytest

from repro.answers.pages.reference import Quoted
from repro.cli import main as cli
from repro.cli import new
from repro.core.errors import InputError
from repro.core.paths import PROJECT
from tests.support.configs import copied
from tests.support.refusals import error_of

FIG4 = "pipesgd/fig4-mnist"
pytestmark = pytest.mark.usefixtures("elsewhere")


@pytest.fixture
def configs(tmp_path, monkeypatch):
    """A copy of `paper_configs/`, with a folder of one's own experiments."""
    made = copied(tmp_path, monkeypatch)
    (made / "experiment" / "mine").mkdir()
    return made


SPOILT = {
    b"\x80\x81binary": "not a readable YAML file",
    b"title: [": "not a readable YAML file",
    b"": "is empty; must be entries",
    b"[1, 2]": "must be entries",
    b"5: five": "the name 5 is no text",
    b"scales: [quick]": "scales=['quick']: must be entries",
    b"jobs: 5": "jobs=5: must be a list of scales",
    b"jobs: {quick: {method: a}}": "must be a list of scales",
    b"each: {own-08: 5}": "each.own-08: holds '5'",
    b"optmizer: {lr: 0.1}\nlow: 1\nbatch: ${low}": "unknown option 'optmizer'; nearest: optimizer",
    b"batch: 100\nseeds: 1\nbatch: 200": "line 3: batch is there twice, first in line 1",
    b"title: x\n\tworkers: 4": "line 2: begins with a tab; must be spaces",
}


def test_experiments_that_cannot_be_read_stop_nobody_else(capsys, configs):
    names = [f"mine/own-{number:02}" for number in range(len(SPOILT))]
    paths = [configs / "experiment" / f"{name}.yaml" for name in names]
    for path, text in zip(paths, SPOILT, strict=True):
        path.write_bytes(text)
    for name, path, words in zip(names, paths, SPOILT.values(), strict=True):
        line = error_of(capsys, "show", name)
        assert str(path) in line and words in line
    assert str(paths[0]) in error_of(capsys, "run", "mine/own-00")
    for arguments in (["list", "experiments"], ["list", "mine"]):
        assert cli.main(arguments) == 0
        shown = capsys.readouterr()
        warned = zip(shown.err.splitlines(), paths, SPOILT.values(), strict=True)
        assert all(line.startswith(f"warning: {path}: ") and words in line for line, path, words in warned)
        assert FIG4 in shown.out or arguments[1:] == ["mine"]
    assert cli.main(["show", FIG4]) == 0 and "warning" not in capsys.readouterr().err


def test_a_number_that_the_paper_does_not_print_is_told_before_anything_runs(capsys, configs, tmp_path):
    path = configs / "experiment" / "mine" / "vit.yaml"
    quoted = "[{column: finale, place: a, row: b, quantity: c}]"
    path.write_text(f"# @package _global_\npaper: mine\nexperiment: vit\nscales: {{quick: []}}\nquoted: {quoted}\n")
    assert "finale" in error_of(capsys, "run", "mine/vit") and not list(tmp_path.glob("results/mine"))


def test_an_experiment_without_sizes_says_that_it_needs_some(capsys, configs):
    (configs / "experiment" / "mine" / "vit.yaml").write_text("title: My own\n")
    assert "vit.yaml: mine/vit: has no scales; must define them" in error_of(capsys, "show", "mine/vit")


def test_a_testbed_that_cannot_be_read_stops_who_chooses_it(capsys, configs):
    path = configs / "testbed" / "mine.yaml"
    (configs / "experiment" / "mine" / "vit.yaml").write_text(
        "# @package _global_\ndefaults: [override /testbed: mine]\nscales: {quick: []}"
    )
    for text in (b"", b"name: [", b"\x80binary"):
        path.write_bytes(text)
        assert str(path) in error_of(capsys, "show", FIG4, "testbed=mine")
        if text:  # without entries everyone's are left
            assert str(path) in error_of(capsys, "show", "mine/vit")
    assert cli.main(["show", FIG4]) == 0 and cli.main(["list"]) == 0


def test_a_value_of_a_file_is_refused_with_the_file(capsys, monkeypatch, tmp_path):
    experiment, testbed = (tmp_path / "configs" / each for each in ("experiment/mine/vit.yaml", "testbed/mine.yaml"))
    virtual = (PROJECT / "paper_configs" / "testbed" / "virtual.yaml").read_text()
    for path in (experiment, testbed):
        path.parent.mkdir(parents=True)
    monkeypatch.setenv("REPRO_CONFIGS", str(tmp_path / "configs"))
    vit = f"{experiment}: mine/vit: "
    for entries, words in {
        "defaults: [override /modle: vgg16]": f"{vit}defaults: unknown group 'modle'; valid: model",
        "epochs: -1": f"{vit}epochs=-1: must be above 0",
        "grid: {method: {a: [strategy=dsinc]}}": f"{vit}unknown strategy 'dsinc'; nearest: dsync",
        "testbeds: [mine]": f"{testbed}: unknown option 'testbed.gama_s_per_byte'; nearest: testbed.gamma_s_per_byte",
    }.items():
        testbed.write_text(f"{virtual}\ngama_s_per_byte: 1\n")
        experiment.write_text(f"paper: mine\nexperiment: vit\nscales: {{quick: []}}\n{entries}\n")
        assert error_of(capsys, "show", "mine/vit", "batch=8").startswith(words)
    line = error_of(capsys, "show", "mine/vit", "testbed=virtual", "testbed.alpha_s=-1")
    assert line.startswith("testbed.alpha_s=-1")


def test_a_paper_s_file_that_cannot_be_used_costs_its_order(capsys, configs):
    path = configs / "papers" / "ibatch.yaml"
    for text, words in {
        "- {experiment: fig3, headlines: true}": "entry 1: unknown option 'headlines'; valid: headline",
        "- {experiment: fig3}": "entry 1: shows: is missing",
        "- {experiment: fig99, shows: x, headline: true, data: [], gpu: false}": "unknown experiment 'fig99'",
        "- fig3": "entry 1: ",
        "fig3: {}": "must be a list of entries, each with experiment, shows",
        "- [": "not a readable YAML file",
    }.items():
        path.write_text(text)
        line = error_of(capsys, "list", "ibatch")
        assert str(path) in line and words in line
    assert cli.main(["list", "experiments"]) == 0
    (warning,) = capsys.readouterr().err.splitlines()
    assert str(path) in warning and words in warning


def test_a_table_of_printed_numbers_that_is_not_there_is_named(capsys, configs):
    path = configs / "reference" / "pipesgd.csv"
    for text in (None, "place,row\n"):
        path.unlink()
        if text:
            path.write_text(text)
        with pytest.raises(InputError) as refusal:
            Quoted("pipesgd").text("Figure 4", "MNIST-MLP", "D-Sync", "final top-1")
        for line in (error_of(capsys, "show", FIG4), str(refusal.value)):
            assert str(path) in line and "place, row, variant, quantity, value, unit, source" in line
        path.touch()


def test_a_results_folder_that_is_a_file_is_refused(capsys, monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS", __file__)
    for command in ("results", "results pipesgd", f"run {FIG4}"):
        assert f"results folder {__file__}: " in error_of(capsys, *command.split())


@pytest.mark.parametrize(
    ("command", "variable", "value", "words"),
    [
        ("results", "REPRO_RESULTS", "{}/sealed", "results folder {}/sealed: Permission denied; set REPRO_RESULTS"),
        ("data list", "REPRO_DATA", "{}:{}/file", "$REPRO_DATA: {}/file is not a folder"),
        (f"show {FIG4}", "REPRO_DATA", "{}/file", "$REPRO_DATA: {}/file is not a folder"),
        ("submit pipesgd --dry-run", "REPRO_SITE", "{}/none", "$REPRO_SITE or --site: site file {}/none: No such file"),
        ("list", "REPRO_CONFIGS", "{}/file", "$REPRO_CONFIGS or --config-dir: {}/file is no file .yaml or .yml of an"),
        ("list", "REPRO_CONFIGS", "{},{}/none", "{},{}/none does not exist; several are separated by colons"),
    ],
)
def test_a_variable_that_names_a_wrong_place_is_named(capsys, monkeypatch, tmp_path, command, variable, value, words):
    (tmp_path / "file").write_text("hello")
    (tmp_path / "sealed").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: path.name != "sealed")  # root may read every folder
    monkeypatch.setenv(variable, value.replace("{}", str(tmp_path)))
    assert words.replace("{}", str(tmp_path)) in error_of(capsys, *command.split())


@pytest.mark.parametrize(
    ("file", "right", "wrong", "words"),
    [
        ("reports/mine/claims.yaml", "experiment: table1", "experiment: tabel1", "unknown experiment 'tabel1'"),
        (
            "reports/mine/claims.yaml",
            "{variant: SGD}",
            "{variant: SDG}",
            "unknown variant of table1 'SDG'; valid: SGD, ",
        ),
        ("reference/mine.csv", "variant", "varient", "has no column 'variant', but 'varient'; must be a table of"),
        ("reference/mine.csv", "0.0012,s", "fast,s", "line 2: value 'fast' must be a number of s"),
        ("reference/mine.csv", ',"a skeleton', "\n#", "line 2: has no source"),
    ],
)
def test_a_page_of_what_does_not_exist_is_refused_before_it_is_built(
    capsys, monkeypatch, tmp_path, file, right, wrong, words
):
    new.write_skeleton("paper", "mine", tmp_path / "own")
    path = tmp_path / "own" / "mine" / file
    text = path.read_text()
    assert right in text
    path.write_text(text.replace(right, wrong, 1))
    monkeypatch.setenv("REPRO_CONFIGS", str(tmp_path / "own" / "mine"))
    line = error_of(capsys, "report", "mine")
    assert line.startswith(f"{path}: ") and words in line
    assert not (tmp_path / "reports").exists() and not (tmp_path / "results").exists()
