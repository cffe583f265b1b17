"""How runs are grouped on a page, and which group it shows."""

from __future__ import annotations

import pytest

from repro.answers.claims.drawn import Drawn
from repro.answers.pages import provenance
from repro.answers.tables.results import arrange
from repro.answers.tables.runs import Runs
from repro.answers.tables.selection import keys_of
from repro.core.errors import InputError
from repro.records import catalogue
from repro.records.sweep import Draw
from repro.reports import baselines
from tests.reports.data.planned import NOWHERE, shown
from tests.reports.data.probes import probe, timing_result, timings
from tests.reports.data.summaries import ALEXNET, FIG4, alexnet, all_runs, make, taken_by_others, timing_only
from tests.support.records import found_of, write_summary


def chosen(runs, experiment=FIG4):
    """(kind -> runs, the groups that no figure shows)"""
    results = arrange("pipesgd", map(found_of, runs), NOWHERE)
    return results.of(experiment.name), results.others


def first(runs, kind="measured"):
    return chosen(runs)[0][kind].first


def test_a_figure_never_mixes_machines_lengths_data_or_testbeds():
    mine = all_runs(["measured"], 1)
    changes = [{"hardware": {"class": "gpu-1x-h200"}}, {"epochs": 30}, {"testbed": "shaped"}, {"launcher": "torchrun"},
               {"dataset": {"name": "mnist-standin-digits", "standin": True}}, {"batch": 200}, {"workers": 8},
               {"optimizer": {"lr": 0.2}}, {"model": {"parameters": 7}}, {"dataset": {"checksum": "b"}}]  # fmt: skip
    strangers = [make("D-Sync", seed=9, **change) for change in changes]
    strangers.append(make("D-Sync", seed=9) | {"experiment": "elsewhere"})
    found, others = chosen([*strangers, *mine])
    assert set(found["measured"].frame["seed"]) == {0} and found["measured"].frame["variant"].nunique() == 7
    assert len(others) == len(strangers) == len(provenance.others(others))


def test_runs_of_a_busy_machine_give_way_to_those_of_an_idle_one():
    busy = [
        run | {"cpu_taken": taken_by_others(0.5)} for run in all_runs(["measured"], 3, finished="2027-01-01T00:00:00")
    ]
    idle = [run | {"cpu_taken": taken_by_others(0.05)} for run in all_runs(["measured"], 1)]
    found, others = chosen([*busy, *idle])
    assert set(found["measured"].frame["cpu_taken_share"]) == {0.05} and len(others) == 1
    assert len(chosen(busy)[0]["measured"]) == len(busy), "they are shown where there are no others"


def test_of_one_variant_with_two_sets_of_options_those_with_more_seeds_count():
    runs = [make("Pipe-SGD", seed=seed) for seed in range(2)]
    found, others = chosen([*runs, make("Pipe-SGD", seed=7, options={"K": 3})])
    assert sorted(found["measured"].seeds("Pipe-SGD")) == [0, 1] and len(others) == 1
    assert "K=3" in provenance.others(others)["options"].iloc[0]


def test_a_run_that_is_not_as_its_experiment_has_it_is_a_variant_of_its_own(tmp_path):
    config = {"strategy": {"name": "pipe_sgd", "K": 3}, "changed": ["strategy.K"]}
    for name, run, more in (("own", make("Pipe-SGD", options={"K": 3}), config), ("planned", make("Pipe-SGD"), None)):
        folder = tmp_path / "pipesgd" / FIG4.name / name
        folder.mkdir(parents=True)
        write_summary(folder, run | {"run": name}, more)
    shown = arrange("pipesgd", catalogue.runs("pipesgd", tmp_path), NOWHERE).of(FIG4.name)["measured"]
    assert list(shown.frame["variant"]) == ["Pipe-SGD", "Pipe-SGD, K=3"]


def test_draws_of_a_testbed_that_was_edited_before_the_newest_run_count_no_more():
    """A page kept the range of the old numbers until draws of the new ones were made."""
    old = found_of(make("D-Sync", "simulated", seed=1, finished="2026-02-03T00:00:00", testbed_model={"alpha_s": 1.0}))
    draws = [Draw(0, {}, {})]

    def left(*runs):
        return [each.run.label for each in arrange("pipesgd", runs, NOWHERE, [Drawn(old, draws)]).sweeps]

    later = {"seed": 0, "finished": "2026-02-03T01:00:00"}
    assert left(found_of(make("D-Sync", "simulated", testbed_model={"alpha_s": 1.0}, **later))) == ["D-Sync"]
    assert left(found_of(make("Pipe-SGD", "simulated", testbed_model={"alpha_s": 2.0}, **later))) == ["D-Sync"]
    assert left(found_of(make("D-Sync", "simulated", testbed_model={"alpha_s": 2.0}, **later))) == []


def test_simulated_results_group_by_testbed_parameters_and_not_by_machine():
    one = make("D-Sync", "simulated", hardware={"class": "cpu-64core"})
    two = make("PS-Sync", "simulated")
    two["testbed_model"]["sources"] = {"alpha_s": "the same number in other words"}
    changed = make("Pipe-SGD", "simulated", testbed_model={"alpha_s": 1.0})
    found, others = chosen([one, two, changed])
    assert list(found["simulated"].frame["variant"]) == ["PS-Sync", "D-Sync"] and len(others) == 1


def test_runs_without_arithmetic_are_a_group_of_their_own_with_a_breakdown_and_no_accuracies():
    group = chosen(alexnet(1), ALEXNET)[0]["simulated"]
    assert group.timing_only and group.frame["variant"].nunique() == 7 and group.frame["final"].isna().all()
    # never with runs that compute: those win if they cover as much
    real = make("D-Sync", "simulated", finished="2020-01-01")
    found, others = chosen([timing_only(make("D-Sync", "simulated")), real])
    assert not found["simulated"].timing_only and len(others) == 1


def test_warm_up_may_differ_between_kinds():
    found, others = chosen(alexnet(2), ALEXNET)
    assert {run.identity.strategy.options["warmup_epochs"] for run in found["measured"].seeds("Pipe-SGD").values()} == {
        4
    } and not others


def test_a_constant_schedule_is_no_difference_and_another_one_is():
    plain, constant, falling = (
        make("D-Sync", optimizer={"lr": 0.1, "momentum": 0.0, "weight_decay": 0.0, **more})
        for more in ({}, {"schedule": "constant", "milestones": [], "decay": 0.1}, {"schedule": "inverse"})
    )
    mirrored = plain | {"dataset": plain["dataset"] | {"augmentation": {"flip": True}}}
    whole = make("D-Sync", optimizer={"lr": 0.1, "momentum": 0, "weight_decay": 0})
    keys = keys_of(dict(enumerate(map(found_of, [plain, constant, whole, falling, mirrored]))))
    assert keys[0] == keys[1] == keys[2] and len({keys[0], keys[3], keys[4]}) == 3
    shown_as = provenance.of_groups({("a", "measured"): Runs.of([found_of(falling)])}, lambda *_: "")["optimizer"].iloc[
        0
    ]
    assert "schedule inverse" in shown_as


def test_most_variants_win_then_the_latest_and_the_latest_of_a_seed():
    early, late = "2026-01-01T00:00:00+00:00", "2026-03-01T00:00:00+00:00"
    few_but_late = [make("D-Sync", finished=late, epochs=9)]
    many = [make("D-Sync", finished=early), make("PS-Sync", finished=early)]
    assert first([*few_but_late, *many]).identity.epochs == 2
    smoke = [run | {"scale": "quick", "epochs": 1} for run in many]
    assert first([*smoke, *few_but_late]).identity.epochs != 1
    assert first(smoke).identity.epochs == 1
    assert first([*few_but_late, many[0]]).identity.epochs == 9
    again = make("D-Sync", finished=late, key="again")
    assert chosen([again, *many])[0]["measured"].seeds("D-Sync")[0].record.key == "again"
    rough = make("D-Sync", "simulated", finished=late, testbed="virtual")
    paper = make("D-Sync", "simulated", finished=early)
    assert first([paper, rough], "simulated").identity.testbed.name == "paper/pipesgd"


def test_breakdown_runs_give_phases_and_never_times():
    final = {"train_s": 99.0, "top1": 0.5, "test_loss": 1}
    slow = make("D-Sync", breakdown=True, phases={"communicate": 1.0}, final=final)
    group = chosen([make("D-Sync"), slow, make("PS-Sync")])[0]["measured"]
    assert group.seeds("D-Sync", breakdown=True)[0] == found_of(slow)
    assert group.seeds("D-Sync")[0].training.final["train_s"] < 99
    assert group.seeds("PS-Sync", breakdown=True) == group.seeds("PS-Sync")
    assert not chosen([slow])[0]  # breakdown runs alone are no figure


# --- of probes


def timing(**changes):
    return probe("timing", "timing-model", "p = 4", timing_result(4, 1e-9), **changes)


def test_testbeds_of_probes_are_an_axis_machines_and_scales_are_not():
    group = shown("pipesgd", timings(1), "gradient-communication")["simulated"]
    assert group.frame["testbed"].nunique() == 4
    measured = [timing(workers=p) for p in (2, 3)]
    stranger = timing(workers=2, hardware={"class": "gpu-1x-h200"}, seed=5)
    smoke = timing(workers=2, scale="quick", seed=6)
    rough = timing(kind="simulated", testbed="virtual")
    every = [*measured, stranger, smoke, rough, timing(kind="simulated")]
    results = arrange("pipesgd", map(found_of, every), NOWHERE)
    of_kinds = results.of("timing-model")
    assert list(of_kinds["measured"].frame["workers"]) == [2, 3]
    assert of_kinds["simulated"].first.identity.testbed.name == "paper/pipesgd" and len(results.others) == 3
    assert set(provenance.others(results.others)["experiment"]) == {"timing-model"}


def test_of_each_run_the_latest_counts_and_of_a_testbed_its_latest_parameters():
    old, new = timing(key="old"), timing(key="new")
    new["provenance"] = new["provenance"] | {"finished_at": "2027-01-01T00:00:00+00:00"}
    of_kinds = shown("pipesgd", [new, old], "timing-model")
    assert [run.record.key for run in of_kinds["measured"].records.values()] == ["new"]
    before = timing(kind="simulated", workers=2)
    after = timing(kind="simulated", workers=4, testbed_model={"alpha_s": 1.0})
    after["provenance"] = new["provenance"]
    assert list(shown("pipesgd", [before, after], "timing-model")["simulated"].frame["workers"]) == [4]


@pytest.mark.parametrize("description", ["sources", "inputs", "implied"])
def test_other_words_about_a_testbed_leave_its_older_runs_beside_a_new_number_of_workers(description):
    before = timing(kind="simulated", workers=2)
    described = before["testbed_model"] | {description: {"alpha_s": "in other words"}}
    after = timing(kind="simulated", workers=4, testbed_model=described)
    after["provenance"] = after["provenance"] | {"finished_at": "2027-01-01T00:00:00+00:00"}
    assert set(shown("pipesgd", [before, after], "timing-model")["simulated"].frame["workers"]) == {2, 4}


def test_a_baseline_is_of_the_same_machine_and_number_of_workers():
    def of(variant, cores, workers, seconds):
        changes = {"hardware": {"class": f"cpu-{cores}core"}, "workers": workers, "step": {"mean_s": seconds}}
        changes |= {"changed": ["workers"]} if workers != 4 else {}
        return found_of(make(variant, **changes))

    runs = [of("D-Sync", 2, 4, 8.0), of("D-Sync", 64, 4, 1.0), of("D-Sync", 2, 8, 20.0)]
    runs += [of("Pipe-SGD", 2, 4, 4.0), of("Pipe-SGD", 64, 4, 0.5), of("Pipe-SGD", 2, 8, 10.0)]
    table = baselines.run_table(runs)
    assert list(table.loc[table["strategy"] == "pipe_sgd", "over"]) == [2.0] * 3


def test_runs_of_several_experiments_are_not_taken_for_seeds_of_one():
    both = Runs.of(map(found_of, [make("D-Sync"), make("D-Sync") | {"experiment": "elsewhere"}]))
    with pytest.raises(InputError, match=f"{FIG4.name}.*elsewhere.* have the same seed"):
        both.seeds("D-Sync")
    assert both.seeds("D-Sync", experiment="elsewhere")[0].identity.experiment == "elsewhere"


def test_runs_on_links_of_a_known_rate_count_before_those_within_a_machine():
    lan = make("D-Sync", testbed="lan", testbed_model={"rate_gbit": 1})
    runs = [make("D-Sync", finished="2027-01-01T00:00:00"), lan]
    assert first(runs).identity.testbed.name == "lan"
