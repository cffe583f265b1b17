"""Programs (training and probes) and overrides that hold on one testbed."""

from __future__ import annotations

import pytest

from repro import probes
from repro.common.errors import InputError
from repro.experiment import cache_key, files
from repro.experiment import config as configs
from repro.experiment.grid import Variant
from repro.fabric import virtual
from repro.launch import runs
from repro.rank import programs


def test_a_list_of_testbeds_has_no_overrides_of_their_own():
    plain = {"strategy": {"name": "dsync"}, "grid": {"method": {"A": []}}, "testbed": {"name": "here"}}
    plain["testbeds"] = ["here", "x"]
    assert configs.axes(plain, []) == ([Variant("A", {"method": "A"})], {"here": [], "x": []})
    assert configs.axes(plain, ["testbed=here"])[1] == {"here": []}


def test_a_chosen_testbed_keeps_what_the_experiment_says_of_it():
    mapped = {"strategy": {"name": "dsync"}, "grid": {"method": {"A": []}}, "testbed": {"name": "x"}}
    mapped["testbeds"] = {"here": None, "x": ["batch=256", "epochs=0.01"]}
    assert configs.axes(mapped, [])[1] == {"here": [], "x": ["batch=256", "epochs=0.01"]}
    assert configs.axes(mapped, ["testbed=x"])[1] == {"x": ["batch=256", "epochs=0.01"]}
    assert configs.axes(mapped, ["testbed=y"])[1] == {"x": ["batch=256", "epochs=0.01"]}  # Hydra resolved it to x


def test_a_testbeds_overrides_yield_to_the_users_and_win_over_the_scales():
    found = runs.expand("pipesgd/fig4-alexnet", [], "full")
    batch = {(run.testbed, run.config.batch) for run in found}
    assert batch == {("here", 64), ("paper/pipesgd-alexnet", 256)}
    warm_up = {(c.testbed, c.config.strategy.options.warmup_epochs) for c in found if "Pipe" in c.variant}
    assert warm_up == {("here", 4), ("paper/pipesgd-alexnet", 0)}
    assert {run.config.batch for run in runs.expand("pipesgd/fig4-alexnet", ["batch=32"], "full")} == {32}


def test_an_unknown_program_is_named_with_the_valid_ones():
    with pytest.raises(InputError, match=r"unknown program 'nonsense'; valid: .*train"):
        runs.expand("pipesgd/fig4-mnist", ["program=nonsense"])


def experiment_of(program: str) -> str:
    """An experiment that runs a program."""
    for name in configs.experiment_names():
        if files.own_file(name).get("program") == program:
            return name
    raise AssertionError(f"no experiment runs the probe {program}")


@pytest.mark.parametrize("name", programs.PROBES.names())
def test_a_probe_says_how_many_ranks_it_needs_and_its_code_counts(name):
    found = runs.expand(experiment_of(name), [], "quick")
    for run in found:
        assert programs.ranks(run.config) >= run.config.workers
        roots = runs.code_roots(run.config)
        assert f"repro.probes.{name}" in roots
        assert all(isinstance(cache_key.fingerprint([root]), str) for root in roots)


def test_training_depends_on_its_strategy_alone():
    found = {run.variant: runs.code_roots(run.config) for run in runs.expand("pipesgd/fig4-mnist", [], "quick")}
    assert "repro.strategies.ps_sync" in found["PS-Sync"] and "repro.strategies.ps_sync" not in found["D-Sync"]


def test_a_probe_that_ran_here_is_done(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    run = runs.expand("pipesgd/fig3-ring", ["testbed=virtual"], "quick")[0]
    run.key = "0" * 16
    run.folder.mkdir(parents=True)
    config = run.config.model_copy(update={"key": run.key, "hardware": {}, "provenance": {}})
    assert not run.finished

    def rank(fabric: virtual.VirtualFabric) -> None:
        probes.finish(fabric, config, run.folder, {}, {}, {}, "a line")

    virtual.run(2, rank, virtual.Network(0, 0))
    assert run.finished
    (run.folder / "events.jsonl").unlink()  # as in a clone, where summaries are committed and event logs are not
    assert not run.finished
