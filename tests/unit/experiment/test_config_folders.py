"""Other people's papers and experiments: by $REPRO_CONFIGS, --config-dir, an installed package, or a file alone."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from repro.answers.pages import build, overview
from repro.answers.site.build import Site
from repro.cli import new, pages
from repro.cli.main import main
from repro.core import config_folders
from repro.core.errors import InputError
from repro.core.input_names import describe_names
from repro.experiment import config, files, inputs, papers
from repro.experiment.quoted import quoted_numbers
from tests.reports.data.undrawn import without_drawing
from tests.support import foreign_package

TABLE1 = "mine/table1"
SEVERAL = """
paper: mine
testbeds: [virtual]
scales: {quick: [epochs=0.1, eval_every=0.1], full: []}
each:
  a: {experiment: small}
  b: {experiment: large, batch: 200, defaults: [override /model: softmax]}
"""


@pytest.fixture
def package(tmp_path):
    """A paper in a package of its own, as `repro new` writes it; the folder beside its pyproject.toml."""
    new.write_skeleton("paper", "mine", tmp_path)
    return tmp_path


@pytest.fixture
def folder(package, monkeypatch):
    monkeypatch.setenv("REPRO_CONFIGS", str(package / "mine"))
    return package / "mine"


@pytest.mark.usefixtures("folder")
def test_a_folder_has_experiments_testbeds_numbers_and_pages():
    assert config.experiment_names("mine") == [TABLE1] and "paper/mine" in files.group_names("testbed")
    composed = config.compose(TABLE1, ["testbed=paper/mine"])
    assert composed["title"].startswith("Mine") and composed["testbed"]["device"]["name"] == "a GPU"
    assert papers.read_entries("mine")[0].headline and quoted_numbers(TABLE1)["ms"] == {"SGD": 1.2, "Compressed": 1.0}
    assert overview.papers()["mine"] == "Mine" and list(overview.papers())[-1] == "mine"


def test_config_dir_is_for_one_command(package, capsys):
    for arguments in (["--config-dir", str(package / "mine"), "list", "mine"], ["list", "mine", "--config-dir"]):
        assert main(arguments if len(arguments) == 4 else [*arguments, str(package / "mine")]) == 0
        assert TABLE1 in capsys.readouterr().out
    assert main(["list", "mine"]) == 2


def test_an_installed_package_needs_no_option(package, monkeypatch):
    foreign_package.register(package)
    monkeypatch.syspath_prepend(str(package))
    assert config.experiment_names("mine") == [TABLE1] and "mine" in overview.papers()


def test_a_package_that_is_gone_costs_a_warning(package, monkeypatch, capsys):
    foreign_package.register(package)
    (package / "mine").rename(package / "other")
    monkeypatch.syspath_prepend(str(package))
    assert main(["list", "pipesgd"]) == 0
    assert "warning: paper mine: there is no package mine" in capsys.readouterr().err


def test_draws_alone_are_results_and_no_other_paper_s_page_is_built(folder, tmp_path, monkeypatch):
    reports = tmp_path / "reports"
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("REPRO_REPORTS", str(reports))
    monkeypatch.setattr(pages, "build_site", lambda out: Site(out / "index.html", []))
    without_drawing(monkeypatch)
    assert main(["run", "mine", "--draws", "4"]) == 0 == main(["results", "mine"])
    assert "No results yet" not in (reports / "mine.md").read_text()
    assert all(path.stem == "index" or path.stem.startswith("mine") for path in reports.glob("*.md"))


@pytest.mark.parametrize(
    ("place", "words"),
    [("nowhere", "does not exist"), ("empty", "has none of"), ("above", "above/mine is one")],
)
def test_what_is_no_such_folder_is_one_line(tmp_path, capsys, place, words):
    (tmp_path / "empty").mkdir()
    (tmp_path / "above" / "mine" / "experiment").mkdir(parents=True)
    assert main(["--config-dir", str(tmp_path / place), "list"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert place in line and words in line


def test_a_part_that_there_is_not_is_one_line_with_the_nearest_first(folder):
    path = folder / "experiment" / "mine" / "table1.yaml"
    path.write_text(path.read_text().replace("override /model: mnist_mlp", "override /model: mnist_mpl"))
    with pytest.raises(InputError, match=r"^unknown model 'mnist_mpl'; nearest: mnist_mlp, "):
        config.compose(TABLE1, [])


def test_the_projects_own_comes_first(folder):
    (folder / "testbed" / "virtual.yaml").write_text("name: another\n")
    assert files.group_file("testbed", "virtual")["name"] == "virtual"
    assert config.compose(TABLE1, ["testbed=virtual"])["testbed"]["name"] == "virtual"


def test_its_own_inputs_change_none_of_the_projects(folder):
    before = {name: list(inputs.draw_quantiles(name, 16)) for name in describe_names()}
    (folder / "inputs.yaml").write_text('alpha: "the same"\nrank: "columns of a factor"\n')
    assert {name: list(inputs.draw_quantiles(name, 16)) for name in before} == before
    assert describe_names()["alpha"] != "the same" and list(inputs.draw_quantiles("rank", 16)) not in before.values()


def test_a_page_that_cannot_be_built_is_a_warning_and_an_error_where_it_is_asked_for(folder, tmp_path, capsys):
    template = folder / "reports" / "mine" / "page.md.j2"
    start = "{% block answer %}"
    template.write_text(template.read_text().replace(start, start + "{{ nothing.at_all }}"))
    line = "building the page of mine ..."
    with pytest.raises(InputError, match=r"page\.md\.j2:\d+: UndefinedError"):
        build.build("mine", tmp_path, tmp_path / "pages", lambda line: print(line))
    assert build._pages(["mine"], tmp_path, tmp_path / "pages", lambda line: print(line), partial) == {}
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [line, line] and "the page is left out" in shown.err


# --- an experiment's file alone


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "table3.yaml"
    path.write_text(SEVERAL)
    return path


@pytest.mark.usefixtures("pooled")
def test_a_file_runs_and_its_group_needs_no_page(file, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    chosen = ["testbed=virtual", "strategy=dsync,pipe_sgd", "testbed.arithmetic=none", "epochs=0.01", "eval_every=0.01"]
    assert main(["run", str(file), *chosen, "--no-mlflow"]) == 0
    shown = capsys.readouterr()
    assert "repro results mine" in shown.out and "error" not in shown.err
    assert {path.name for path in (tmp_path / "results" / "mine").iterdir()} == {"small", "large"}
    assert main(["results", "mine", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 4
    assert main(["list", "mine"]) == 2  # the file is forgotten with its command


def test_a_file_names_its_experiments(file):
    with config_folders.using_folders([]):
        assert config.experiment_names(str(file)) == ["mine/small", "mine/large"] == config.experiment_names(str(file))
        large = config.compose("mine/large")
        assert (large["batch"], large["model"]["name"]) == (200, "softmax") and config.paper_of(str(file)) == "mine"


def test_a_file_of_the_project_is_what_it_is():
    path = files.config_file("experiment", "pipesgd/fig4-mnist")
    assert "pipesgd/fig4-mnist" in config.experiment_names(str(path))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("title: nameless\n", "must have a name"),
        ("paper: pipesgd\nexperiment: fig4-mnist\n", "has an experiment pipesgd/fig4-mnist"),
        ("each: 5\n", "must be entries"),
    ],
)
def test_a_file_that_does_not_say_which_it_is(tmp_path, text, words):
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(InputError, match=words):
        config.experiment_names(str(tmp_path / "mine.yaml"))


# --- the overview


@pytest.mark.usefixtures("folder")
def test_the_overview_counts_and_shows_it(tmp_path, monkeypatch):
    without_drawing(monkeypatch)
    shown = {"method": "What it proposes.", "own": 0, "runs": 0, "of": 0, "open": 0, "trust": {}}
    shown |= {"about_accuracy": 0, "headlines": [], "accuracies": [], "targets": [], "untried": []}
    overview.build({"pipesgd": shown, "mine": shown}, tmp_path / "pages")
    title, *rest = Path(tmp_path / "pages" / "index.md").read_text().splitlines()
    assert title.startswith("# 2 papers") and any("(mine.md)" in line for line in rest)
