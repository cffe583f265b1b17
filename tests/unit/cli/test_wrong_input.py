"""Invalid input: unknown options, values that lead out of the results folder, of a job script or of a line."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from repro.answers.pages.reference import Quoted
from repro.cli import main as cli
from repro.cli import new
from repro.core import user_files
from repro.core.errors import InputError
from repro.core.paths import PROJECT
from repro.experiment import files
from repro.experiment.expand import expand_runs
from repro.experiment.launched import config_digest
from repro.launch.slurm import prepared, site, submit
from tests.support.configs import copied

FIG4 = "pipesgd/fig4-mnist"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("REPRO_REPORTS", str(tmp_path / "reports"))


def error_of(capsys, *arguments: str) -> str:
    """The one line on stderr of a command that ends with status 2."""
    try:
        status = cli.main(arguments)
    except SystemExit as end:  # argparse
        status = end.code
    lines = capsys.readouterr().err.splitlines()
    assert status == 2 and len(lines) == 1 and lines[0].startswith("repro: error: "), lines
    return lines[0].removeprefix("repro: error: ")


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("+x=1", ["unknown option 'x'; nearest: "]),
        ("+testbed.rank=4", ["unknown option 'testbed.rank'; nearest: testbed.ranks, "]),
        ("~optimizer=1", ["override '~optimizer=1': must be key=value"]),
        ("hydra.run.dir=x", ["unknown option 'hydra.run.dir'"]),
        ("scale=paper", ["--scale paper"]),
        ("grid=5", ["grid=5: must be factors with their values"]),
        ("+grid.method.a=['epochs=-1']", ["epochs=-1: must be above 0"]),
        ("+grid.method.a=b", ["grid.method.a=b: must be a list of overrides"]),
        ("testbeds=here", ["testbeds=here: must be names"]),
        ("testbeds=[]", ["testbeds=[]: must be entries, as {name: value}"]),
        ("exclude={a: 1}", ["exclude={a: 1}: must be a list"]),
        ("+testbeds.nowhere=[]", ["unknown testbed 'nowhere'"]),
        ("optimizer=5", ["optimizer=5: must be entries"]),
        ("testbed.ranks=9", ["testbed.ranks=9", "4 workers"]),
        ("title=Ünïcode", ["title=Ünïcode", "needs quotes"]),
        ("strategy.name=pipe_sgd", ["strategy.name=pipe_sgd", "use strategy=pipe_sgd"]),
        ("paper=../../x", ["paper=../../x: must be a plain name"]),
        ("paper=Slurm", ["paper=Slurm: must be another name"]),
        ("experiment=../../../x", ["experiment=../../../x", "an experiment is named first"]),
        (f"paper={'x' * 300}", ["must be a plain name"]),
        ("title=${oc.env:HOME}", ["oc.env", "another value of the configuration"]),
        ("+grid.method.a=['title=${now:%Y}']", ["now"]),
        ("testbeds.here=['title=${oc.env:HOME}']", ["oc.env"]),
        ("model=lstm_ptb", ["model lstm_ptb takes text, and mnist is images; models for it: alexnet, "]),
        ("dataset=ptb", ["model mnist_mlp takes images, and ptb is text; models for it: lstm_ptb"]),
        ("title=a\nb", ["override 'title=a\\nb': has a line break"]),
        ("title=" + "[" * 10_000, ["[[ ... [["]),
        ("optimizer.lr=nan", ["optimizer.lr=nan: must be a finite number"]),
        ("testbed.kind=[a]", ["unknown testbed.kind '['a']'; valid: measured"]),
        ("testbed.alpha_s=-1", ["testbed.alpha_s=-1: must be"]),
        ("testbed.device.utilisation=50", ["testbed.device.utilisation=50: must be 1 or less"]),
        ("+testbed.encode_s_per_byte.x=no", ["testbed.encode_s_per_byte.x=no: must be"]),
        ("breakdown=5", ["breakdown=5: must be true or false"]),
        ("seeds=1000000", [" testbeds x 1,000,000 seeds): ", ",000,000; must be 10,000 or less"]),
    ],
)
def test_an_override_that_cannot_be_is_one_line_of_show_too(capsys, override, words):
    on = ["testbed=virtual"] if override.lstrip("+").startswith("testbed.") and "rank" not in override else []
    line = error_of(capsys, "show", FIG4, *on, override)
    assert all(word in line for word in words), line
    assert "+x=1" not in line.replace("unknown option 'x'", "") and len(line) < 5000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", FIG4, "strategy=pipesgd"], ["unknown strategy 'pipesgd'", "nearest: pipe_sgd"]),
        (["show", FIG4, "strategy.codek=none"], ["unknown option 'strategy.codek'", "valid: strategy.codec"]),
        (["show", FIG4, "testbed=paper/pipe"], ["unknown testbed", "nearest: paper/pipesgd"]),
        (["show", FIG4, "--scale", "papr"], ["unknown scale 'papr'", "valid: paper"]),
        (["show", FIG4, "epochs"], ["must be key=value"]),
        (["show", FIG4, "epochs=1,"], ["override 'epochs=1,': its value cannot be read", "must be a value, several"]),
        (["show", "pipesgd/fig4-mnits"], [f"nearest: {FIG4}, ", "(repro list names all)"]),
        (["report", "pipesdg"], ["unknown paper", "pipesgd"]),
        (["report", "--out", __file__], [f"--out {__file__}: must be a folder"]),
        (["report", "--out", f"{__file__}/pages"], [f"--out {__file__}/pages: must be a folder"]),
        (["rnu"], ["unknown command 'rnu'", "nearest: run"]),
        (["show", FIG4, "--jsno"], ["unknown option '--jsno'", "valid: --json"]),
        (["data", "fetch"], ["needs a name: cifar10"]),
        (["run", "pipesgd", "--scale", "ful"], ["unknown scale 'ful'", "full"]),
        (["run", "pipesgd", "--scale", "ful", "--draws", "4"], ["unknown scale 'ful'", "full"]),
        (["queue", "nothing"], ["override 'nothing': must be key=value"]),
        (["results", "pipesgd", "--where", "workers"], ["where workers: must be COLUMN"]),
        (["run", FIG4, "--draws", "x"], ["x: must be a power of two, 2 to "]),
        (["run", FIG4, "--draws", "3"], ["3: must be a power of two, 2 to "]),
    ],
)
def test_bad_words_are_named_with_the_valid_ones(capsys, tmp_path, arguments, words):
    line = error_of(capsys, *arguments)
    assert all(word in line for word in words) and not (tmp_path / "results").exists(), line


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", FIG4, "strategy=dsync", "imbalance=trace", "imbalance.file={}"],
        ["show", "ibatch/measured-vgg", "strategy=ibatch", "strategy.profile={}"],
        ["submit", FIG4, "--site", "{}"],
        ["partition", "{}", "--machines", "2", "--bandwidth", "1e9"],
        ["batches", "{}"],
    ],
    ids=lambda arguments: f"{arguments[0]} {arguments[-1]}",
)
def test_only_files_that_end_and_are_not_too_large_are_read(capsys, monkeypatch, tmp_path, arguments):
    monkeypatch.setenv("REPRO_SITE", "")  # `submit --site` sets it for what it starts
    os.mkfifo(tmp_path / "pipe")
    with open(tmp_path / "large", "wb") as file:
        file.truncate(user_files.LARGEST_FILE + 1)
    for path, words in (("/dev/zero", "not a regular file"), (tmp_path / "pipe", "not a regular file"),
                        (tmp_path / "large", f"must be {user_files.LARGEST_FILE:,} or less")):  # fmt: skip
        line = error_of(capsys, *(argument.format(path) for argument in arguments))
        assert str(path) in line and words in line


@pytest.mark.parametrize(
    "command", ["profile mnist_mlp --out", "price topk --out", "results --parquet"], ids=lambda each: each.split()[0]
)
def test_a_file_is_written_only_in_the_place_of_a_file(capsys, tmp_path, command):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("nothing")
    os.mkfifo(tmp_path / "pipe")
    before = {path: path.lstat().st_mode for path in tmp_path.iterdir()}
    for path, words in (
        *((tmp_path / name, "is a link, pipe or device") for name in ("pipe", "link", "dangling")),
        (tmp_path, "is a folder"),
        (tmp_path / "no" / "file", "there is no folder"),
        ("", "is a folder; must be a file"),
    ):
        *words_of_it, option = command.split()
        line = error_of(capsys, *words_of_it, option, str(path))
        assert f"{option}: {path or '.'}: {words}" in line
    assert before == {path: path.lstat().st_mode for path in tmp_path.iterdir()}


ADDRESSES = {"nope://x": "unknown scheme 'nope'", "sqlite:////nowhere/x.db": "there is no folder /nowhere"}


@pytest.mark.parametrize(
    "command", [f"run {FIG4} strategy=dsync", "track sync", "ui"], ids=lambda each: each.split()[0]
)
@pytest.mark.parametrize(("address", "words"), ADDRESSES.items())
def test_a_wrong_address_of_mlflow_is_told_before_anything_starts(
    capsys, monkeypatch, tmp_path, address, words, command
):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    line = error_of(capsys, *command.split())
    assert line.startswith(f"MLFLOW_TRACKING_URI={address}: {words}") and not [*tmp_path.iterdir()]


@pytest.mark.parametrize("command", [f"run {FIG4} epochs=x", f"run {FIG4} --draws 4 epochs=x", "report nope"])
def test_a_refused_command_makes_no_folder(capsys, tmp_path, command):
    error_of(capsys, *command.split())
    assert not [*tmp_path.iterdir()]


LONG = "x" * 300


@pytest.mark.parametrize(
    "command",
    [
        f"new strategy {LONG}",
        f"recommend ./{LONG}.py:Net --bandwidth 1g --workers 4",
        f"profile mnist_mlp --out {LONG}",
        f"show {FIG4} model=./{LONG}.py:Net",
        f"run {FIG4} strategy=./{LONG}.py:Mine",
        f"show {FIG4} dataset=./{LONG}.npz",
        f"list --config-dir {LONG}",
        f"run-prepared {LONG}=0",
    ],
    ids=lambda each: each.split()[0],
)
def test_a_name_that_no_file_can_have_is_one_line(capsys, monkeypatch, tmp_path, command):
    monkeypatch.chdir(tmp_path)
    line = error_of(capsys, *command.split())
    assert "x ... x" in line and line.endswith(": File name too long") and len(line) < 300
    assert not [path for path in tmp_path.rglob("*") if path.stat().st_size and not path.is_dir()]


@pytest.mark.parametrize(("variable", "command"), [("REPRO_RESULTS", "results"), ("REPRO_DATA", "data list")])
def test_a_folder_of_such_a_name_is_one_line_too(capsys, monkeypatch, variable, command):
    monkeypatch.setenv(variable, LONG)
    assert error_of(capsys, *command.split()).endswith(": File name too long")


# --- files of paper_configs/


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
    assert cli.main(["show", FIG4]) == 0 and not capsys.readouterr().err


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


PROFILE = str(PROJECT / "paper_configs" / "profile" / "measured-vgg.json")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("profile mnist_mlp --threads 100000000", "--threads: 100,000,000; must be 1,024 or less"),
        ("profile mnist_mlp model.hidden=" + "[" * 10_000, "its value cannot be read"),
        (f"show {FIG4} workers=100000 batch=100000", "workers=100000: must be 1,024 or less"),
        ("schedule 1-1-1-1 --minibatches 100000000", "800,000,000; must be 200,000 or less"),
        ("schedule 100000000-1", "ranks: 100,000,001; must be 1,024 or less"),
        (f"partition {PROFILE} --machines 1000000 --bandwidth 1e8", "machines: 1,000,000; must be 1,024 or less"),
        (f"partition {PROFILE} --machines -4 --bandwidth 1e8", "machines=-4: must be whole numbers, 1 or more"),
        ("bench collective ring --ranks 100000", "workers=100000: must be 1,024 or less"),
        ("price powersgd --steps 0", "--steps: 0: must be a whole number, 1 or more"),
        ("price powersgd --device tpu", "--device: tpu: must be auto, "),
    ],
)
def test_a_size_that_cannot_be_is_answered_at_once(capsys, command, words):
    assert words in error_of(capsys, *command.split())


# --- job scripts


def test_nothing_leaves_its_line_of_a_job_script(tmp_path, monkeypatch, capsys):
    evil = "x\n#SBATCH --uid=0"
    assert "line break" in error_of(capsys, "submit", FIG4, f"+grid.method.new=['title={evil}']", "--dry-run")
    (tmp_path / "site.yaml").write_text("")
    monkeypatch.setenv("REPRO_SITE", str(tmp_path / "site.yaml"))
    runs, _ = submit.find_runs(FIG4, ["dataset.standin=always", "strategy=dsync"], "quick")
    options = site.load_site()

    def refused():
        with pytest.raises(InputError, match=r"^job script: .*\\n.* has a line break"):
            submit.array_scripts(runs, options, tmp_path, False)

    with monkeypatch.context() as patch:
        patch.setattr(sys, "argv", ["repro", "submit", f"title={evil}"])
        refused()
    with monkeypatch.context() as patch:
        patch.setenv("REPRO_RESULTS", str(tmp_path / evil))
        refused()
    with monkeypatch.context() as patch:
        patch.setenv("REPRO_SITE", str(tmp_path / evil))
        refused()
    ((_, _, text),) = submit.array_scripts(runs, options, tmp_path, False)
    assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0
    runs[0].variant = evil
    refused()


def test_a_prepared_run_cannot_lead_out_of_the_results(tmp_path):
    for text, words in (
        ("[" * 100_000, "not a readable configuration"),
        ("a: [", "not a readable configuration"),
        ("5", "must be entries"),
        ("key: other", "has changed since the launch"),
        ("key: k", "is missing"),
    ):
        (tmp_path / "config.yaml").write_text(text)
        with pytest.raises(InputError, match=words) as refusal:
            prepared.load_prepared([f"{tmp_path}={config_digest({'key': 'k'}, {})}"])
        assert "\n" not in str(refusal.value)
    configured = expand_runs(FIG4, ["strategy=dsync", "testbed=virtual"])[0].config.plain() | {"experiment": "../../x"}
    files.write_resolved(tmp_path / "config.yaml", configured)
    with pytest.raises(InputError, match=r"experiment=../../x: must be a plain name"):
        prepared.load_prepared([f"{tmp_path}={config_digest(configured, {})}"])
