"""README.md, docs/ and their neighbours: links lead somewhere, commands exist, examples run, numbers are on a page."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import nbclient
import nbformat
import pytest
import torch

from repro.cli import workloads
from repro.cli.main import build_parser, config_folder
from repro.core import config_folders
from repro.core.registry import PLUGINS
from repro.experiment import config
from repro.experiment.expand import expand_runs
from repro.fabric.base import Fabric
from repro.launch.slurm import site
from repro.strategies import load_strategy
from repro.strategies.base import Strategy
from repro.testing import small
from tests.reports.data.summaries import make
from tests.support import foreign_package
from tests.support.records import found_of

PROJECT = Path(__file__).resolve().parents[3]
EXAMPLE = PROJECT / "examples" / "powersgd"
PAGES = [PROJECT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")] + sorted(PROJECT.glob("docs/*.md"))

pytestmark = pytest.mark.skipif(not (PROJECT / "docs").is_dir(), reason="not a checkout")

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def prose(page: Path) -> str:
    """The page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """What headings are called in links, as GitHub has it."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


@each_page
def test_links_lead_to_files_and_headings(page):
    text = re.sub(r"`[^`\n]*`", "", prose(page))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        target_file = (page.parent / name).resolve() if name else page
        assert target_file.exists(), f"{target} leads nowhere"
        assert PROJECT in target_file.parents, f"{target} leads out of the project"
        assert not anchor or anchor in anchors(target_file), f"{target}: no such heading"


def test_every_page_can_be_reached():
    links = "".join(page.read_text() for page in (PROJECT / "README.md", PROJECT / "docs" / "README.md"))
    for page in PROJECT.glob("docs/*.md"):
        assert page.name in links, f"nothing leads to docs/{page.name}"


def test_every_kind_of_plugin_has_the_page_that_errors_name():
    assert all((PROJECT / "docs" / f"{kind}.md").is_file() for kind in PLUGINS)


def commands(page: Path, program: str) -> Iterator[list[str]]:
    """The words behind a program's name in the page's shell blocks; without comments and variables that are set."""
    for line in "".join(blocks(page, "sh")).splitlines():
        for command in re.split(r"&&|\|", line.partition(" #")[0]):
            words = [word for word in shlex.split(command) if not re.match(r"[A-Z_]+=", word)]
            if words and words[0].rpartition("/")[2] == program:
                yield words[1:]


expanded: set[tuple[str, ...]] = set()  # commands of other pages


@each_page
def test_commands_of_repro_exist_with_their_options(page, tmp_path, monkeypatch):
    """Each is parsed, and its runs are expanded: experiments, overrides, plugins, what does not go together."""
    monkeypatch.chdir(tmp_path)  # where skeletons are written
    foreign_package.install_copy(EXAMPLE, tmp_path / "example", monkeypatch)
    for words in commands(page, "repro"):
        folders, words = config_folder().parse_known_args(words)
        args, rest = build_parser().parse_known_args(words)
        if words[0] == "new":
            args.command(args)
        overrides = [*getattr(args, "overrides", ()), *rest]
        overrides = [each for each in overrides if not each.startswith("device=")]  # tests have no GPU
        if getattr(args, "experiment", None):
            with config_folders.using_folders(folders.config_dir):
                names, scale = config.experiment_names(args.experiment), getattr(args, "scale", None)
                config.compose(names[0], (), scale)  # tests/unit/experiment/test_compositions expands it
                for experiment in names if overrides else ():
                    if (command := (experiment, *overrides, scale)) not in expanded:
                        expand_runs(experiment, overrides, scale, lacking=[])
                        expanded.add(command)
        else:
            assert not rest or overrides, f"{words}: {rest}"


@each_page
def test_targets_of_make_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    inline = [shlex.split(code) for code in re.findall(r"`make ([^`]*)`", prose(page))]
    for words in [*commands(page, "make"), *inline]:
        named = [word for word in words if "=" not in word and not word.startswith("-")]
        assert set(named) <= targets, words


@each_page
def test_commands_named_in_the_text_exist(page):
    actions = next(action for action in build_parser()._actions if action.choices)
    for name in re.findall(r"`(?:[A-Z_]+=\S+ )*repro ([a-z]+)[^`]*`", prose(page)):
        assert name in actions.choices, name


@each_page
def test_files_named_in_the_text_exist(page):
    """Those of the project's folders; capitals stand for a name of one's own, and examples for a file to be written."""
    own = re.findall(r"^# ((?:strategies|repro|paper_configs)/\S+)$", page.read_text(), re.MULTILINE)
    folders = r"(?:repro|strategies|reports|examples|paper_configs|setup|tests|results/reference|\.ci)"
    for name in re.findall(rf"`({folders}/[\w./-]+)`", prose(page)):
        if not re.search(r"[A-Z]{3}|my", name) and name not in own:
            assert (PROJECT / name).exists(), name


def public(kind: type, instance: object = None) -> set[str]:
    """The names that a class and its annotations have for others, and an instance's own."""
    own = {name for base in kind.__mro__ for name in (*vars(base), *vars(base).get("__annotations__", {}))}
    return {name for name in own | set(vars(instance) if instance else ()) if not name.startswith("_")}


INTERNAL = {  # members that only the harness uses
    "Worker": {"blocks", "compute", "loss_function", "accumulate", "imbalance", "min_compute_s", "first_updates"},
    "ModelShard": {
        *("forward_backward", "forward", "backward", "update", "keep", "state_dict", "load_state_dict"),
        *("configured", "numerics", "calls"),
    },
    "Clock": {
        *("start", "paused", "activity", "take", "middle", "state_dict", "load_state_dict", "wall", "compress_s"),
    },
    "Fabric": {"observed", "close", "state_dict", "load_state_dict"},
}


def test_the_page_for_authors_names_every_public_member_and_no_other():
    """Except those of the harness. Each is once before a list entry's colon, with parameters by their names; the
    examples use no others."""
    fabric = small.virtual.run(1, lambda fabric: fabric, small.NETWORK)[0]
    shard = small.ModelShard(small.model(), small.SGD, torch.device("cpu"))
    worker = small.Worker(1, fabric, small.Clock(fabric), shard, small.NoBatches(), 1, 0)
    kinds = {
        "Worker": (small.Worker, worker),
        "ModelShard": (small.ModelShard, shard),
        "Clock": (small.Clock, worker.clock),
        "Fabric": (Fabric, None),
        "Costs": (small.Costs, small.COSTS),
        "Strategy": (Strategy, load_strategy("dsync")()),
    }
    text = (PROJECT / "docs" / "authors.md").read_text()
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE))
    assert sections.keys() == kinds.keys()
    for title, (kind, instance) in kinds.items():
        entries = re.findall(r"^- ((?:`[^`]+`,?\s+)*`[^`]+`): ", sections[title], re.MULTILINE)
        named = re.findall(r"`(\w+)(?:\(([^)]*)\))?`", " ".join(entries))
        internal = INTERNAL.get(title, set())
        assert internal <= public(kind, instance), title
        assert sorted(name for name, _ in named) == sorted(public(kind, instance) - internal), title
        for name, parameters in named:
            given = [each.strip() for each in parameters.split(",") if each.strip()]
            known = inspect.signature(getattr(kind, name)).parameters if given else ()
            assert set(given) <= set(known), f"{title}.{name}({parameters})"
    called = {"worker": "Worker", "shard": "ModelShard", "model_shard": "ModelShard"}
    called |= {"clock": "Clock", "fabric": "Fabric"}
    for owner, name in re.findall(r"\b(worker|shard|model_shard|clock|fabric|costs)\.([a-z_]+)", text):
        assert name in public(*kinds[called.get(owner, "Costs")]), f"{owner}.{name}"


def test_a_workloads_line_says_what_records_do_and_no_more():
    def run(seed, score, standin=False, gpu=None, **more):
        names = {"paper": "p", "variant": "D-Sync", "seed": seed, "hardware": {"gpu": gpu}}
        result = {"final": {"top1": score}, "dataset": {"name": "mnist", "standin": standin}}
        return found_of(make(**names | result | more) | {"experiment": "e"})

    real, made_up = [run(0, 0.97), run(1, 0.98)], run(0, 0.99, standin=True, gpu="H200")
    assert workloads.best_runs([made_up, *real], "D-Sync") == real, "real data come before a GPU"
    on_gpu = run(0, 0.985, gpu="H200", scale="quick")
    assert workloads.best_runs([*real, on_gpu], "D-Sync") == [on_gpu]
    assert workloads.best_runs([*real, run(0, 0.9, variant="Pipe-SGD")], "D-Sync") == real
    assert workloads.target_reached(real, 0.98) == "no: 0.9750, 2 seeds, scale full"
    assert workloads.target_reached([on_gpu], 0.98) == "yes: 0.9850, 1 seed, scale quick"
    assert workloads.target_reached([made_up], 0.98) == "not judged"
    assert workloads.best_trained([], "D-Sync", 0.98) == "never"
    assert workloads.best_trained([run(0, None), made_up, *real], "D-Sync", 0.98).startswith("no: 0.9750")
    stood_in = workloads.best_trained([made_up, run(0, None)], "D-Sync", 0.98)
    assert stood_in.startswith("not judged") and "p/e" in stood_in and "stand-in" in stood_in
    for targets, aims in (({}, False), ({"0.97": None}, False), ({"0.97": None, "0.98": None}, True)):
        assert workloads.aims_at(found_of(make() | {"targets": targets}), 0.98) == aims


def test_steps_on_a_gpu_count_apart_from_trainings():
    def run(gpu, iterations, kind="measured"):
        return found_of(make(kind=kind, hardware={"gpu": gpu}, iterations=iterations))

    every = [run("H100", 100), run("H100", 7), run("H200", 3), run(None, 999), run("H100", 999, kind="simulated")]
    assert workloads.format_steps(every) == "H100: 100 steps, H200: 3 steps"
    assert workloads.format_steps([run(None, 999)]) == "never run"


def test_gpu_hours_follow_the_work():
    chosen = ["model=lstm_ucf101", "dataset=ucf101", "testbed=virtual", "batch=16", "workers=2"]
    once, twice = (
        workloads.estimate_gpu_hours(config.compose("pipesgd/fig4-mnist", [*chosen, f"epochs={epochs}"]))
        for epochs in (1, 2)
    )
    assert once > 0 and twice == pytest.approx(2 * once)
    assert [workloads.format_hours(hours) for hours in (0.002, 0.149, 3.12, 59.6)] == ["< 0.1", "0.1", "3.1", "60"]


def test_the_picture_shows_every_room():
    (picture,) = blocks(PROJECT / "docs" / "architecture.md", "mermaid")
    rooms = {path.parent.name for path in PROJECT.glob("repro/*/__init__.py")}
    assert {room for room in rooms if not re.search(rf"\b{room}\b", picture)} == set()


def test_the_example_of_a_site_is_one(tmp_path):
    (code,) = blocks(PROJECT / "docs" / "clusters.md", "yaml")
    (tmp_path / "site.yaml").write_text(code)
    cluster = site.load_site(tmp_path / "site.yaml")
    assert (cluster.gpus_per_node, cluster.modules) == (4, ("cuda", "openmpi"))


def test_the_example_notebook_runs_and_shows_a_plot_a_table_of_records_and_a_bar(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")  # else jupyter_core warns
    notebook = nbformat.read(PROJECT / "examples" / "first_plot.ipynb", 4)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    shown = [output["data"] for output in outputs if "data" in output]
    assert any("image/png" in data for data in shown)
    (records,) = [data["text/html"] for data in shown if "pipe_sgd" in data.get("text/html", "")]
    assert records.count("<tr") == 1 + 4  # two strategies, two seeds
    assert "\r" in "".join(output["text"] for output in outputs if output.get("name") == "stderr")  # a bar, no lines
