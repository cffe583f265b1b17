"""Runs of experiments: numbers that papers print of them, programs, testbeds' overrides, states."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import pytest

from repro import probes
from repro.cli.main import main
from repro.core.errors import InputError, NotHere
from repro.core.paths import CONFIGS
from repro.experiment import code_digest, config, files, needs
from repro.experiment import config as configs
from repro.experiment import quoted as module
from repro.experiment.expand import expand_runs
from repro.experiment.grid import Variant
from repro.experiment.identify import identify_runs
from repro.experiment.key import Keys
from repro.experiment.quoted import quoted_numbers, quoted_with_places
from repro.experiment.run import Standing, add_standings, count_states, run_states
from repro.experiment.versions import roots_of
from repro.fabric.virtual import fabric as virtual
from repro.rank.programs import run_probe
from repro.records.record import Found
from repro.records.variants import REFERENCE
from tests.support import records
from tests.support.cli import EXPERIMENT
from tests.support.configs import first_variant_alone, own_variants

# --- numbers that papers print of experiments' variants: entries that point into the tables of printed numbers


QUOTING = [name for name in config.experiment_names() if module.own_file(name).get("quoted")]
ENTRY = {"column": "final", "place": "Figure 4", "row": "MNIST-MLP", "quantity": "final top-1"}


def test_each_paper_has_experiments_with_printed_numbers_of_their_variants():
    assert {name.split("/")[0] for name in QUOTING} == {"pipesgd", "pipedream", "gtopk", "eagersgd", "ibatch"}
    for name in QUOTING:
        labels = {variant.label for variant in own_variants(name)}
        for column, values in quoted_numbers(name).items():
            assert values and values.keys() <= labels, name
            assert column in ("final", "ms") or column.removeprefix("over ") in labels, name


def test_the_number_is_the_tables_in_our_unit():
    with (CONFIGS / "reference" / "pipesgd.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if (row["row"], row["quantity"]) == ("MNIST-MLP", "final top-1")]
    assert quoted_numbers("pipesgd/fig4-mnist") == {"final": {row["variant"]: float(row["value"]) for row in rows}}
    steps_a_second = 1.64  # section 6.2.1, of eager-SGD (solo) with 200 ms
    assert quoted_numbers("eagersgd/fig10")["ms"]["eager-SGD (solo) 200 ms"] == pytest.approx(1e3 / steps_a_second)
    assert quoted_numbers("validation/shaped") == {}
    places = {column: place for column, (_, place) in quoted_with_places("pipedream/table1-vgg16-4a").items()}
    assert places == {
        "over single": "Table 1, VGG16, 4 (A); Figure 13, VGG16, 4 (A)",
        "over bsp": "Table 1, VGG16, 4 (A)",
    }


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"row": "MNIST"}, "has nothing of any variant in Figure 4, MNIST, final top-1"),
        ({"column": "over"}, "`over` names a variant"),
        ({"column": "ms"}, "unit '' is none of column ms: s, steps/s"),
        ({"colum": "ms"}, "unknown option 'quoted.colum'"),
    ],
)
def test_an_entry_that_cannot_be_is_one_line_with_file_and_entry(changes, says, monkeypatch):
    monkeypatch.setattr(module, "own_file", lambda experiment: {"quoted": [ENTRY, ENTRY | changes]})
    with pytest.raises(InputError) as caught:
        quoted_numbers("pipesgd/fig4-mnist")
    line = str(caught.value)
    assert says in line and "fig4.yaml: pipesgd/fig4-mnist: quoted, entry 2: " in line and "\n" not in line


# --- programs (training and probes) and overrides that hold on one testbed


def test_a_list_of_testbeds_has_no_overrides_of_their_own():
    plain = {"strategy": {"name": "dsync"}, "grid": {"method": {"A": []}}, "testbed": {"name": "here"}}
    plain["testbeds"] = ["here", "x"]
    assert configs.read_axes(plain, []) == ([Variant("A", {"method": "A"})], {"here": [], "x": []})
    assert configs.read_axes(plain, ["testbed=here"])[1] == {"here": []}


def test_a_chosen_testbed_keeps_what_the_experiment_says_of_it():
    mapped = {"strategy": {"name": "dsync"}, "grid": {"method": {"A": []}}, "testbed": {"name": "x"}}
    mapped["testbeds"] = {"here": None, "x": ["batch=256", "epochs=0.01"]}
    assert configs.read_axes(mapped, [])[1] == {"here": [], "x": ["batch=256", "epochs=0.01"]}
    assert configs.read_axes(mapped, ["testbed=x"])[1] == {"x": ["batch=256", "epochs=0.01"]}
    assert configs.read_axes(mapped, ["testbed=y"])[1] == {"x": ["batch=256", "epochs=0.01"]}  # Hydra resolved it to x


def test_a_testbeds_overrides_yield_to_the_users_and_win_over_the_scales():
    runs = expand_runs("pipesgd/fig4-alexnet", ["method=Pipe-SGD"], "full")
    batch = {(run.testbed, run.config.batch) for run in runs}
    assert batch == {("here", 64), ("paper/pipesgd-alexnet", 256), ("emulated/pipesgd-alexnet", 256)}
    warm_up = {(run.testbed, run.config.strategy.options.warmup_epochs) for run in runs}
    assert warm_up == {("here", 4), ("paper/pipesgd-alexnet", 0), ("emulated/pipesgd-alexnet", 0)}
    assert {run.config.batch for run in expand_runs("pipesgd/fig4-alexnet", ["batch=32", "method=D-Sync"], "full")} == {
        32
    }


def experiment_of(program: str) -> str:
    """An experiment that runs a program."""
    for name in configs.experiment_names():
        if files.own_file(name).get("program") == program:
            return name
    raise AssertionError(f"no experiment runs the probe {program}")


@pytest.mark.parametrize("name", needs.PROBES.names())
def test_a_probe_says_how_many_ranks_it_needs_and_its_code_counts(name, monkeypatch):
    first_variant_alone(monkeypatch)
    run, *_ = expand_runs(experiment_of(name), [], "quick", lacking=[])  # some testbeds need GPUs
    roots = roots_of(run.config)
    assert needs.count_ranks(run.config) >= run.config.workers and f"repro.probes.{name}" in roots
    assert set(roots) <= set(code_digest.imported_modules(roots))


def test_a_probe_that_ran_here_is_done(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    run = expand_runs("pipesgd/fig3-ring", ["testbed=virtual"], "quick")[0]
    run.key = "0" * 16
    run.folder.mkdir(parents=True)
    config = run.config.model_copy(update={"key": run.key, "hardware": {"class": "none"}, "provenance": {}})
    assert not run.finished

    finding = probes.Finding({"variants": [], "overheads": []}, {}, "a line")
    monkeypatch.setattr("repro.probes.ring.run", lambda fabric, config, folder: finding)

    def rank(fabric: virtual.VirtualFabric) -> None:
        run_probe(fabric, config, run.folder)

    virtual.run(2, rank, virtual.Network(0, 0))
    assert run.finished
    (run.folder / "events.jsonl").unlink()  # as in a clone, where summaries are committed and event logs are not
    assert not run.finished


# --- which runs of an experiment are done, stale or missing


TIMING = ["testbed=paper/pipesgd", "testbed.arithmetic=none"]


@pytest.fixture(scope="module")
def made_runs():
    runs = expand_runs(EXPERIMENT, TIMING, "quick")
    keys = Keys()
    for run in runs:
        keys.assign(run)
    return runs


def finished(run, **changes):
    return Found(REFERENCE, records.finished(run, **changes))


def test_a_run_is_done_by_its_key_and_stale_by_its_place(made_runs):
    first, second, *rest = made_runs
    assert count_states(made_runs, []) == Standing(0, 0, len(made_runs))
    others = [finished(first), finished(first, key="older"), finished(second, key="older")]
    assert count_states(made_runs, others) == Standing(1, 1, len(rest))
    reasons = {
        "made on another-cpu, this machine is ": {"hardware": {"class": "another-cpu"}},
        "made with torch 1.0, here is ": {"provenance": {"versions": {"torch": "1.0"}}, "hardware": second.hardware},
        "made with another version of fabric/virtual": {"provenance": {"parts": {"fabric/virtual": 0}}},
    }
    testbed = second.config.testbed.model_copy(update={"arithmetic": "real"})
    by_arithmetic = replace(second, config=second.config.model_copy(update={"testbed": testbed}))
    for words, changed in reasons.items():
        run = second if "version of" in words else by_arithmetic
        (state,) = run_states([run], [finished(run, key="older", **changed)])
        assert state.name == "stale" and state.reason.startswith(words), state
    here = {"name": "here", "kind": "measured", "launcher": "mpirun"}
    for changed in ({"seed": 9}, {"scale": "paper"}, {"testbed": here}, {"breakdown": True}, {"paper": "other"}):
        assert count_states([second], [finished(second, key="older", **changed)]) == Standing(0, 0, 1)
    assert add_standings([Standing(1, 2, 3, 1), Standing(1, 0, 0)]) == (2, 2, 3, 1)
    assert str(Standing(1, 2, 3)) == "1 done, 2 stale, 3 missing"


def test_a_run_is_stale_only_by_one_of_the_same_configuration(made_runs):
    run, *_ = made_runs
    optimizer = run.config.plain()["optimizer"] | {"lr": 7.0}
    changes = ({"epochs": 9}, {"model": {"name": "softmax"}}, {"optimizer": optimizer}, {"accumulate": 5})
    others = [finished(run, key="older", **change) for change in changes]
    assert count_states([run], others) == Standing(0, 0, 1)
    assert count_states([run], [*others, finished(run, key="older")]) == Standing(0, 1, 0)
    without_later_entries = {"numerics": {}, "eval_train": 0}
    assert count_states([run], [finished(run, key="older", **without_later_entries)]) == Standing(0, 1, 0)


def test_a_run_says_where_overrides_changed_it():
    def changed(*overrides):
        return [run.config.changed for run in expand_runs(EXPERIMENT, [TIMING[0], *overrides], "quick")]

    assert not any(changed()) and changed("seeds=2")[0] == []
    of_one = changed("strategy=pipe_sgd", "strategy.K=3", "epochs=9")
    assert of_one and all(sorted(each) == ["epochs", "strategy.K"] for each in of_one)
    assert all({"model.name", "workers"} <= {*each} for each in changed("model=softmax", "workers=2"))


def test_the_keys_are_those_under_which_it_would_be_run(made_runs):
    again = expand_runs(EXPERIMENT, TIMING, "quick")
    identify_runs(again)
    assert [run.key for run in again] == [run.key for run in made_runs]
    assert len({run.key for run in made_runs}) == len(made_runs)


def test_show_prints_the_states_and_why_runs_cannot_run_here(capsys, monkeypatch):
    chosen = [EXPERIMENT, "strategy=dsync", *TIMING]
    assert main(["show", *chosen, "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert sum(shown["standing"].values()) == shown["runs"] > 0 and shown["config"]["scale"] == "quick"
    assert main(["show", *chosen]) == 0
    out = capsys.readouterr().out
    assert str(Standing(**shown["standing"])) in out and "\n  optimizer.lr = " in out

    def gone(keys, run):
        raise NotHere("no data here")

    monkeypatch.setattr(Keys, "assign", gone)
    assert main(["show", *chosen]) == 0
    assert "no data here" in capsys.readouterr().out


def test_options_belong_to_each_of_several_strategies_and_the_one_without_them_is_named():
    runs = expand_runs(EXPERIMENT, ["strategy=gtopk,topk", "strategy.density=0.01", "testbed=virtual"])
    assert {(run.config.strategy.name, run.config.strategy.options.density) for run in runs} == {
        ("gtopk", 0.01),
        ("topk", 0.01),
    }
    for several in ("dsync,pipe_sgd", "pipe_sgd,dsync"):
        with pytest.raises(InputError, match=r"^strategy dsync: unknown option 'strategy\.K'; valid: "):
            expand_runs(EXPERIMENT, [f"strategy={several}", "strategy.K=3", "testbed=virtual"])
