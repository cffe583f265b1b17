"""A run's identity: what differs in configuration is a row, a group and a label of its own, and is never averaged."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from repro.answers.mlflow.format import name_group, tags
from repro.answers.mlflow.source import of_record
from repro.cli.publishing import put_into_reference
from repro.cli.results import format_experiments
from repro.core import paths
from repro.core.registry import PLUGINS
from repro.experiment import testbeds
from repro.experiment.optimizer import Optimizer
from repro.experiment.schema import Numerics
from repro.records import catalogue, comparison, neutral, printed, reference, variants
from repro.records.record import Found
from repro.records.results import results
from repro.records.tables import build_table
from repro.records.units import check_units
from repro.records.variants import REFERENCE, WORKSPACE, but_strategy, same_work
from tests.reports.data.summaries import make
from tests.support.records import record_of
from tests.unit.mlflow.made import planned

CONFIG = {
    "strategy": {"name": "diloco", "H": 10, "outer_lr": 0.7},
    "model": {"name": "mnist_mlp"},
    "dataset": {"name": "mnist", "standin": "auto"},
    "testbed": {"name": "here", "kind": "measured", "launcher": "mpirun"},
    "workers": 4,
    "batch": 100,
    "epochs": 5,
    "optimizer": {"lr": 0.1},
    "imbalance": {"name": "none"},
    "numerics": {"precision": "fp32"},
    "targets": [0.97],
}
DSYNC: dict = {"variant": "dsync", "strategy": {"name": "dsync"}}
# one configured value each, in as many parts
CHANGES: list[dict] = [
    {},
    {"strategy": {"name": "diloco", "H": 40, "outer_lr": 0.7}},
    {"epochs": 9},
    {"optimizer": {"lr": 0.2}},
    {"model": {"name": "tiny_vit"}, "dataset": {"name": "shapes16", "standin": "auto"}},
    {"imbalance": {"name": "random_one", "delay_s": 0.1}},
    {"numerics": {"precision": "bf16"}},
    {"accumulate": 5},
    {"workers": 2},
    {"min_compute_s": 0.5},
    {"testbed": {"name": "here", "kind": "measured", "launcher": "mpirun", "threads_per_rank": 2}},
]


def run(*, seed=0, step_s=0.1, origin=WORKSPACE, variant="diloco", summary=None, **config) -> Found:
    """A run with that configuration, of MNIST on this machine."""
    whole = {**CONFIG, **config}
    own = {name: whole[name] for name in ("workers", "batch", "epochs")}
    own |= {"variant": variant, "seed": seed, "step": {"mean_s": step_s}}
    made = make("D-Sync", run=f"run-{seed}-{step_s}") | own
    return Found(origin, record_of(made | (summary or {}), whole))


def table(*runs: Found) -> pd.DataFrame:
    return build_table("runs", runs)


def test_runs_that_differ_in_one_value_are_rows_with_labels_of_their_own():
    runs = table(*(run(**change) for change in CHANGES))
    assert runs["variant"].nunique() == runs["configuration"].nunique() == len(CHANGES)
    text = format_experiments(runs)
    assert all(label in text for label in runs["variant"])
    for label, words in zip(runs["variant"], ([], ["H=40"], ["9 epochs"], ["lr=0.2"], ["tiny_vit on shapes16"])):
        assert label.startswith("diloco") and all(word in label for word in words)


def test_runs_of_the_experiments_own_configuration_have_the_variants_name():
    changes = zip(CHANGES[:3], ([], ["strategy.H"], ["epochs"]))
    runs = table(*(run(**change, changed=changed) for change, changed in changes))
    assert list(runs["variant"]) == ["diloco", "diloco, H=40", "diloco, 9 epochs"]
    runs = table(run(seed=0), run(seed=1), run(**DSYNC, epochs=9))
    assert list(runs["variant"]) == ["diloco", "diloco", "dsync"]


def test_a_median_over_variants_never_covers_two_configurations(monkeypatch, tmp_path):
    """docs/api.md groups by these columns; K=2 and K=3 were both `pipe_sgd`."""
    of_k = [
        run(
            variant="pipe_sgd",
            strategy={"name": "pipe_sgd", "K": K},
            changed=["strategy.K"],
            summary={"final": {"top1": K / 10, "train_s": 1.0}},
            seed=seed,
        )
        for K in (2, 3)
        for seed in (0, 1)
    ]
    older = run(variant="pipe_sgd", strategy={"name": "pipe_sgd", "K": 4})  # says nothing of changes
    monkeypatch.setattr(catalogue, "papers", lambda paper: [paper])
    monkeypatch.setattr(catalogue, "runs", lambda paper, *_: [*of_k, older])
    runs = results("pipesgd")
    medians = runs.groupby(["kind", "dataset", "scale", "variant"])["final"].median().droplevel([0, 1, 2])
    assert medians["pipe_sgd, K=2"] == 0.2 and medians["pipe_sgd, K=3"] == 0.3 and len(medians) == 3
    assert set(runs["variant_name"]) == {"pipe_sgd"}
    written = reference.write("pipesgd", [each.record for each in [*of_k, older]], tmp_path)
    assert pd.read_parquet(written / "runs.parquet")["variant"].nunique() == 3


def test_what_ran_before_an_edit_of_the_experiment_s_file_counts_no_more():
    """Draws of both, of an own paper, were pooled: 1.29 times in place of 2.56."""

    def at(hour, step_s, **config):
        made = run(step_s=step_s, **config)
        record = made.record
        ended = record.provenance | {"finished_at": f"2026-11-28T{hour:02}:00:00+00:00"}
        return replace(made, record=record.model_copy(update={"provenance": ended}))

    before = at(1, 0.1, model={"name": "resnet20"}, workers=8)
    seeds = [at(2, 0.2, seed=0), at(3, 0.3, seed=1)]
    by_user = at(4, 0.4, epochs=9, changed=["epochs"])
    assert variants.find_superseded([*seeds, before, by_user]) == {before.record.name}
    committed = replace(before, origin=REFERENCE)
    assert not variants.find_superseded([*seeds, committed, by_user])


def test_a_published_run_replaces_none_of_another_model(monkeypatch, tmp_path):
    """iBatch's Figure 5 has one variant for four networks: a publish of one removed the others."""
    monkeypatch.setattr(reference, "reference_root", lambda: tmp_path)
    monkeypatch.setattr(paths, "reference_root", lambda: tmp_path)
    of_models = [run(model={"name": name}, summary={"run": name}).record for name in ("mnist_mlp", "vgg19")]
    for record in of_models:
        put_into_reference(SimpleNamespace(paper="pipesgd", archives=[], replace=False), [record], [])
    assert len(reference.read("pipesgd", tmp_path)) == 2


def test_a_label_names_overrides_even_without_other_runs():
    (label,) = table(run(epochs=9, changed=["epochs", "strategy.H"]))["variant"]
    assert label == "diloco, H=10, 9 epochs"
    both = table(run(epochs=9, changed=["epochs"]), run(epochs=9, seed=1))  # the second is of an older version
    assert both["variant"].nunique() == 1 and "9 epochs" in both["variant"][0]


def test_compare_averages_nothing_that_differs_and_pairs_what_differs_in_strategy_alone():
    runs = table(
        run(step_s=0.1, **CHANGES[1]),
        run(step_s=0.2, seed=1),
        run(step_s=0.4, seed=2),
        run(step_s=5.0, epochs=9),
        run(**DSYNC, step_s=1.0),
        run(**DSYNC, step_s=2.0, epochs=10),
    )
    compared = comparison.compare(runs, "diloco", "dsync").set_index("variant A")
    assert sorted(compared["ms A"]) == pytest.approx([100, 300])  # none of 9 epochs beside 5 or 10
    assert list(compared["ms B"]) == pytest.approx([1000, 1000])
    (two_seeds,) = compared[compared["range A"].notna()].index
    assert compared.loc[two_seeds, "range A"] == "200 to 400" and "H=10" in two_seeds


def test_compare_separates_what_differs_in_any_value():
    mine = [run(step_s=0.1 * (i + 1), **change) for i, change in enumerate(CHANGES)]
    runs = table(*mine, *(run(**change | DSYNC, step_s=5.0) for change in CHANGES))
    compared = comparison.compare(runs, "diloco", "dsync")
    assert sorted(compared["ms A"]) == pytest.approx([100 * (i + 1) for i in range(len(CHANGES))])
    assert compared["range A"].isna().all() and (compared["ms B"] == 5000).all()


def test_without_an_equal_partner_the_difference_is_named_and_epochs_are_never_mixed():
    rate = run(**DSYNC, step_s=1.0, optimizer={"lr": 0.5}, changed=["optimizer.lr"])
    longer = run(**DSYNC, step_s=1.0, epochs=10, changed=["epochs"])
    compared = comparison.compare(table(run(), rate, longer), "diloco", "dsync")
    assert list(compared["variant B"]) == ["dsync, lr=0.5"]


def test_the_workspace_and_its_latest_run_take_precedence():
    old = {"provenance": {"finished_at": "2026-01-01T00:00:00+00:00"}}
    dsync = run(**DSYNC, step_s=1.0)
    runs = table(run(step_s=0.3), run(step_s=0.2, summary=old), run(step_s=0.1, origin=REFERENCE), dsync)
    assert list(comparison.compare(runs, "diloco", "dsync")["ms A"]) == pytest.approx([300])


def test_the_table_after_a_run_shows_published_runs_of_the_same_configuration():
    runs = table(run(step_s=0.1), run(step_s=0.2, **CHANGES[1]), run(step_s=0.4, origin=REFERENCE))
    own, reference = (runs[runs["origin"] == origin] for origin in (WORKSPACE, REFERENCE))
    ((title, ended),) = both = comparison.tabulate_ending(own, reference)
    assert list(ended["ms"]) == pytest.approx([100, 200])
    assert ended["ms, reference"].iloc[0] == pytest.approx(400) and pd.isna(ended["ms, reference"].iloc[1])
    assert "H=40" in ended.index[1] and title in comparison.format_tables(both)


@pytest.mark.parametrize(
    ("summary", "warned"),
    [
        ({}, True),
        ({"ranks": 2}, False),
        ({"kind": "simulated"}, False),
        ({"launcher": "srun"}, False),
        ({"hardware": {"class": "x"}}, False),
    ],
)
def test_ranks_that_share_cores_are_reported(summary, warned):
    runs = table(run(summary=summary), run(**DSYNC, step_s=1.0, summary=summary))
    ended, compared = comparison.tabulate_ending(runs, table()), comparison.compare(runs, "diloco", "dsync")
    for text in (comparison.format_tables(ended), printed.text(compared)):
        assert ("4 ranks share 2 cores" in text) is ("share" in text) is warned


def test_threads_of_ranks_share_cores_too():
    threads = {"testbed": {"name": "here", "kind": "measured", "launcher": "mpirun", "threads_per_rank": 3}}
    (row,) = table(run(summary={"ranks": 1}, **threads)).to_dict("records")
    assert row["shared"] == "1 ranks of 3 threads share 2 cores"


def test_a_busy_machine_is_named_beside_the_numbers_measured_on_it():
    taken = {"cpu_taken": {"processes_s": 5.0, "hypervisor_s": 1.2, "available_s": 20.0}}
    runs = table(run(), run(seed=1, summary=taken), run(**DSYNC, step_s=1.0))
    ended, compared = comparison.tabulate_ending(runs, table()), comparison.compare(runs, "diloco", "dsync")
    for text in (comparison.format_tables(ended), printed.text(compared), format_experiments(runs)):
        assert text.count("31 % taken by others") == 1
    warned = runs.assign(warnings=[None, "a sum is not divided", None])
    assert [
        text.endswith(": a sum is not divided") for text in comparison.compare(warned, "diloco", "dsync")["warnings"]
    ] == [True]


def test_an_older_record_is_of_the_same_configuration():
    """It lacks entries of a configuration and options of a plugin that were introduced later."""
    older = {"strategy": {"name": "pipe_sgd", "K": 2}, "testbed": {"name": "t", "encode_s_per_byte": {"a": 1e-9}}}
    newer = {
        "strategy": {"name": "pipe_sgd", **PLUGINS["strategy"].defaults("pipe_sgd")},
        "optimizer": {"lr": 0.1, **{name: field.get_default(call_default_factory=True)
                                    for name, field in Optimizer.model_fields.items() if name != "lr"}},
        "accumulate": 1, "eval_train": 0, "min_compute_s": None, "numerics": Numerics().model_dump(), "epochs": 5.0,
    }  # fmt: skip
    newer["testbed"] = older["testbed"]
    runs = table(run(**newer), run(**older, numerics={}))
    assert runs["configuration"].nunique() == runs["variant"].nunique() == 1
    both = [run(**newer).identity, run(**older, numerics={}).identity]
    assert len({*same_work(both)}) == len({*but_strategy(both)}) == len({*map(name_group, both)}) == 1
    other = table(run(**newer), run(**older | {"strategy": {"name": "pipe_sgd", "K": 3}}))
    assert other["configuration"].nunique() == 2


def test_the_defaults_of_parts_are_neutral():
    for model, prefix in (
        (Numerics, "numerics."), (Optimizer, "optimizer."),
        (testbeds.Measured, "testbed."), (testbeds.Simulated, "testbed."), (testbeds.Emulated, "testbed."),
    ):  # fmt: skip
        for name, field in model.model_fields.items():
            path = f"{prefix}{name}"
            if field.is_required() or path == "testbed.network":
                continue
            default = field.get_default(call_default_factory=True)
            emulated = model is testbeds.Emulated and path == "testbed.arithmetic"  # required by its kind
            assert emulated or neutral.is_neutral(path, default), path


# --- MLflow's groups


def test_runs_that_differ_in_one_value_are_groups_of_their_own_and_seeds_are_not():
    """Before the run, of a configuration, and of a finished one."""
    for made in (lambda **change: planned(**{**CONFIG, **change}), mirrored):
        assert len({tags(made(**change))["group"] for change in CHANGES}) == len(CHANGES)
        assert len({tags(made(seed=seed))["group"] for seed in range(3)}) == 1
    assert "H=10, 9 epochs" in tags(planned(**{**CONFIG, "epochs": 9, "changed": ["epochs", "strategy.H"]}))["group"]


def mirrored(**config):
    return of_record(run(**config).record, Path())


def test_runs_of_stand_in_data_are_another_group():
    runs = (mirrored(summary={"dataset": {"name": "mnist", "standin": standin}}) for standin in (True, False))
    assert len({tags(one)["group"] for one in runs}) == 2


# --- what is printed of records


def test_a_terminal_gets_no_control_character_of_a_record():
    bad = "\x1b[31mred\x07"
    runs = table(run(variant=bad, summary={"factors": {bad: bad}}), run())
    for text in (
        format_experiments(runs),
        printed.text(runs),
        comparison.format_tables(comparison.tabulate_ending(runs, table())),
    ):
        assert "red" in text and text.replace("\n", "").isprintable()
    assert "\x1b" not in printed.csv(runs) and "\x07" not in printed.csv(runs)


def test_a_spreadsheet_gets_no_formula_of_a_record():
    runs = table(run(variant="=cmd|' /C calc'!A0", summary={"factors": {"@x": "+1", "lr": -0.5}}))
    text = printed.csv(runs)
    read = pd.read_csv(io.StringIO(text))
    assert read["variant"][0].startswith("'=cmd") and read["factors.@x"][0] == "'+1" and read["factors.lr"][0] == -0.5


def test_records_from_before_distributions_are_read():
    check_units({"testbed": {"bounds": {"gamma": {"gamma_s_per_byte": {"low": 0.5, "high": 3.0, "of": "share"}}}}})
