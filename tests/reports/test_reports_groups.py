"""Which summaries the reports room puts together, and the frames made from them."""

from __future__ import annotations

import math

from repro.answers.claims import compute
from repro.answers.pages import provenance
from repro.answers.tables import groups
from repro.reports.pipesgd.results import FIGURE4, TRAINING
from tests.reports.data.summaries import BY_NAME, FIG4, all_runs, labels, make, rows, timing_only

ALEXNET = BY_NAME["fig4-alexnet"]

# --- groups


def test_a_figure_never_mixes_machines_lengths_data_or_testbeds():
    mine = all_runs(["measured"], 1)
    strangers = [make("D-Sync", seed=9, hardware={"class": "gpu-1x-h200"}), make("D-Sync", seed=9, epochs=30),
                 make("D-Sync", seed=9, dataset={"name": "mnist-standin-digits", "standin": True}),
                 make("D-Sync", seed=9, testbed="shaped"), make("D-Sync", seed=9, launcher="torchrun"),
                 make("D-Sync", seed=9, batch=200), make("D-Sync", seed=9, workers=8),
                 make("D-Sync", seed=9, optimizer={"lr": 0.2}), make("D-Sync", seed=9) | {"experiment": "elsewhere"},
                 make("Pipe-SGD", seed=9, options={"K": 3}), make("D-Sync", seed=9, model={"parameters": 7}),
                 make("D-Sync", seed=9, dataset={"checksum": "other pixels"})]  # fmt: skip
    chosen, others = groups.choose([*strangers, *mine], FIG4)
    others += groups.strangers([*strangers, *mine], TRAINING)
    assert chosen["measured"].seeds() == [0] and len(chosen["measured"].covered()) == 7
    assert len(others) == len(strangers)
    assert len(provenance.others(others)) == len(strangers) and "K=3" in " ".join(provenance.others(others)["options"])


def test_simulated_results_group_by_testbed_parameters_and_not_by_machine():
    one = make("D-Sync", "simulated", hardware={"class": "cpu-64core"})
    two = make("PS-Sync", "simulated")
    changed = make("Pipe-SGD", "simulated", testbed_model={"alpha_s": 1.0})
    chosen, others = groups.choose([one, two, changed], FIG4)
    assert chosen["simulated"].covered() == ["PS-Sync", "D-Sync"] and len(others) == 1


def test_runs_without_arithmetic_are_a_group_of_their_own_with_a_breakdown_and_no_accuracies():
    runs = [run for run in rows(1) if run["experiment"] == ALEXNET.name]
    group = groups.choose(runs, ALEXNET)[0]["simulated"]
    assert group.timing_only and len(group.covered()) == 7 and math.isnan(compute.final(group.first))
    # never with runs that compute: those win if they cover as much
    real = make("D-Sync", "simulated", finished="2020-01-01")
    chosen, others = groups.choose([timing_only(make("D-Sync", "simulated")), real], FIG4)
    assert not chosen["simulated"].timing_only and len(others) == 1


def test_warm_up_may_differ_between_kinds_and_never_within_a_variant():
    runs = [run for run in rows(2) if run["experiment"] == ALEXNET.name]
    chosen, others = groups.choose(runs, ALEXNET)
    assert {c["options"]["warmup_epochs"] for c in chosen["measured"].runs("Pipe-SGD").values()} == {4} and not others
    other = make("Pipe-SGD", seed=7, experiment=ALEXNET, best=0.48)
    other |= {key: chosen["measured"].first[key] for key in ("dataset", "epochs")}
    other["options"] = other["options"] | {"warmup_epochs": 1}
    mixed, others = groups.choose([*runs, other], ALEXNET)
    assert sorted(mixed["measured"].runs("Pipe-SGD")) == [0, 1] and len(others) == 1
    # the paper has none for small models
    assert not groups.belongs(make("Pipe-SGD") | {"options": {"warmup_epochs": 5}}, FIG4)


def test_every_variant_of_the_page_has_its_options_and_the_experiments_files_name_the_same():
    for experiment in TRAINING:
        named = set(labels(f"pipesgd/{experiment.name}"))
        assert named == set(experiment.variants), experiment.name
    for name, row in FIGURE4.items():
        assert ("Pipe-SGD + Q" in BY_NAME[name].variants) == (row in ("MNIST-MLP", "AlexNet"))


def test_a_constant_schedule_is_no_difference_and_another_one_is():
    plain, constant, falling = (
        make("D-Sync", root="workspace", optimizer={"lr": 0.1, "momentum": 0.0, "weight_decay": 0.0, **more})
        for more in ({}, {"schedule": "constant", "milestones": [], "decay": 0.1}, {"schedule": "inverse"})
    )
    assert groups.key_of(plain) == groups.key_of(constant) != groups.key_of(falling)
    mirrored = plain | {"dataset": plain["dataset"] | {"augmentation": {"flip": True}}}
    assert groups.key_of(mirrored) != groups.key_of(plain)
    assert (
        "schedule inverse"
        in provenance.of_groups({("a", "measured"): groups.groups([falling], ["D-Sync"])[0]})["optimizer"].iloc[0]
    )


def test_most_variants_win_then_the_latest_and_the_latest_of_a_seed():
    early, late = "2026-01-01T00:00:00+00:00", "2026-03-01T00:00:00+00:00"
    few_but_late = [make("D-Sync", finished=late, epochs=9)]
    many = [make("D-Sync", finished=early), make("PS-Sync", finished=early)]
    assert groups.choose([*few_but_late, *many], FIG4)[0]["measured"].first["epochs"] == 2
    smoke = [run | {"scale": "quick", "epochs": 1} for run in many]
    assert groups.choose([*smoke, *few_but_late], FIG4)[0]["measured"].first["epochs"] != 1
    assert groups.choose(smoke, FIG4)[0]["measured"].first["epochs"] == 1
    assert groups.choose([*few_but_late, many[0]], FIG4)[0]["measured"].first["epochs"] == 9
    again = make("D-Sync", finished=late, key="again")
    assert groups.choose([again, *many], FIG4)[0]["measured"].runs("D-Sync")[0]["key"] == "again"
    paper, rough = (
        make("D-Sync", "simulated", finished=early),
        make("D-Sync", "simulated", finished=late, testbed="virtual"),
    )
    assert groups.choose([paper, rough], FIG4)[0]["simulated"].first["testbed"] == "paper/pipesgd"


def test_breakdown_runs_give_phases_and_never_times():
    slow = make(
        "D-Sync", breakdown=True, phases={"communicate": 1.0}, final={"train_s": 99.0, "top1": 0.5, "test_loss": 1}
    )
    group = groups.choose([make("D-Sync"), slow, make("PS-Sync")], FIG4)[0]["measured"]
    assert group.phase_runs("D-Sync")[0] is slow and group.runs("D-Sync")[0]["final"]["train_s"] < 99
    assert group.phase_runs("PS-Sync") == group.runs("PS-Sync")
    alone = groups.choose([slow], FIG4)[0]
    assert not alone  # breakdown runs alone are no figure
