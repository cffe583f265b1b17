"""A grid of factors: its combinations, their overrides and labels, what a user's words do, and the errors."""

from __future__ import annotations

import pytest

from repro.core.errors import InputError
from repro.experiment import grid
from repro.experiment.compose import Composer
from repro.experiment.expand import expand_runs
from repro.experiment.key import keyed_values

METHODS = {"Dense": ["strategy=dsync"], "Top-k": ["strategy=topk", "strategy.thread=false"]}
GRID = {"method": METHODS, "workers": {1: ["batch=64"], 2: ["batch=128"]}}
FIG4 = "pipesgd/fig4-mnist"


def variants(of: object = GRID, exclude: object = None, label: object = None, overrides: tuple[str, ...] = ()):
    config = {"grid": of, "exclude": exclude, "label": label, "workers": 4, "batch": 8, "strategy": {"name": "dsync"}}
    return grid.list_variants(config, overrides)


def test_every_combination_is_a_variant_the_first_factor_outermost():
    every = variants()
    assert [v.label for v in every] == ["Dense, 1", "Dense, 2", "Top-k, 1", "Top-k, 2"]
    assert every[3].factors == {"method": "Top-k", "workers": 2}
    assert every[3].overrides == ("strategy=topk", "strategy.thread=false", "workers=2", "batch=128")


def test_a_factor_that_is_a_key_sets_it_unless_its_overrides_do():
    assert [v.overrides for v in variants({"workers": [1, 2]})] == [("workers=1",), ("workers=2",)]
    assert variants({"strategy.K": {3: None}})[0].overrides == ("strategy.K=3",)
    assert variants({"batch": {"large": ["batch=512"]}})[0].overrides == ("batch=512",)
    assert variants({"method": {"plain": []}})[0].overrides == ()


def test_several_grids_follow_one_another_with_factors_of_their_own():
    every = variants([{"method": {"single": ["workers=1"]}}, GRID], label=["{method} on {workers}", "{method}"])
    assert [v.label for v in every][:2] == ["single", "Dense on 1"]
    assert every[0].factors == {"method": "single"}


def test_a_factor_of_value_none_is_left_out_of_a_label():
    codecs = {"method": {"D-Sync": []}, "codec": {"none": [], "T": ["strategy.codec=truncate16"]}}
    assert [v.label for v in variants(codecs, label=["{method} + {codec}", "{method}"])] == ["D-Sync", "D-Sync + T"]
    assert [v.label for v in variants(codecs)] == ["D-Sync", "D-Sync, T"]


def test_an_experiment_without_factors_is_called_by_its_label_or_strategy():
    assert [(v.label, v.factors) for v in variants(None)] == [("dsync", {})]
    assert [v.label for v in variants(None, label="2 workers")] == ["2 workers"]


def test_exclusions_take_combinations_out():
    every = variants(exclude=[{"method": "Top-k", "workers": 1}])
    assert [v.label for v in every] == ["Dense, 1", "Dense, 2", "Top-k, 2"]
    assert [v.label for v in variants(exclude=[{"workers": [1]}])] == ["Dense, 2", "Top-k, 2"]


@pytest.mark.parametrize(
    "given, words",
    [
        ({"exclude": [{"methd": "Dense"}]}, "unknown factor in exclude 'methd'; valid: method, workers"),
        ({"exclude": [{"method": "dense"}]}, "unknown value of factor method in exclude 'dense'; valid: Dense, Top-k"),
        ({"exclude": [{"workers": [1, 2]}]}, "leaves no combination"),
        ({"label": "{method}, {nodes}"}, "unknown factor in label 'nodes'; valid: "),
        ({"label": "{method}"}, "label 'Dense' is of two combinations, "),
        ({"of": 5}, "grid=5: must be factors with their values"),
        ({"of": {"method": {"Dense": "strategy=dsync"}}}, "grid.method.Dense=strategy=dsync: must be a list of over"),
        ({"of": {"workers": [1, 1]}}, "must be different values"),
        ({"of": {"method": {"a\nb": []}}}, "must be a text on one line"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(given, words):
    with pytest.raises(InputError) as caught:
        variants(**given)
    assert words in str(caught.value) and "\n" not in str(caught.value)


# --- the user's words


def test_a_strategy_of_the_users_replaces_the_factors_that_set_one():
    every = variants(overrides=("strategy=pipe_sgd",), label="{method}, P={workers}")
    assert [(v.label, v.factors) for v in every] == [
        ("pipe_sgd, 1", {"strategy": "pipe_sgd", "workers": 1}),
        ("pipe_sgd, 2", {"strategy": "pipe_sgd", "workers": 2}),
    ]
    assert every[0].overrides == ("workers=1", "batch=64")


def test_a_value_of_the_users_keeps_what_the_grid_says_of_it():
    (one,) = variants({"workers": GRID["workers"]}, overrides=("workers=2",))
    assert one.factors == {"workers": 2} and "batch=128" in one.overrides
    (other,) = variants({"workers": GRID["workers"]}, overrides=("workers=7",))
    assert other.factors == {"workers": 7} and other.overrides == ()


@pytest.mark.parametrize(("experiment", "word"), [
    (FIG4, "workers=2,4"), (FIG4, "seeds=0,1"), ("gtopk/fig10-measured", "workers=2"),
])  # fmt: skip
def test_plus_signs_before_a_key_change_nothing_but_that_it_may_be_new(experiment, word):
    plain, added = (
        [(each.variant, each.testbed, each.seed, each.config.changed, each.config.factors)
         for each in expand_runs(experiment, [override, "dataset.standin=always"], "quick")]
        for override in (word, f"++{word}")
    )  # fmt: skip
    assert plain == added


def test_several_values_multiply_the_runs_and_are_factors():
    every = variants(overrides=("strategy=dsync,pipe_sgd", "optimizer.lr=0.1,0.2", "workers=2"))
    assert [v.label for v in every] == [
        "dsync, 2, optimizer.lr=0.1",
        "dsync, 2, optimizer.lr=0.2",
        "pipe_sgd, 2, optimizer.lr=0.1",
        "pipe_sgd, 2, optimizer.lr=0.2",
    ]
    assert every[3].factors == {"strategy": "pipe_sgd", "workers": 2, "optimizer.lr": 0.2}
    assert every[3].swept == ("strategy=pipe_sgd", "optimizer.lr=0.2")


def test_a_number_with_an_exponent_is_a_number_as_in_every_file():
    every = variants(overrides=("strategy=dsync", "workers=2", "optimizer.lr=1e-4,2e-4"))
    assert [each.factors["optimizer.lr"] for each in every] == [1e-4, 2e-4]


def test_only_lists_of_values_are_several():
    words = ["targets=[0.1,0.2]", "title='a,b'", "seeds=0,2", "epochs=3", "strategy=dsync,topk", "workers=choice(32)"]
    plain, swept = grid.split_overrides(words)
    assert swept == {"seeds": ["0", "2"], "strategy": ["dsync", "topk"], "workers": ["32"]}
    assert plain == ["targets=[0.1,0.2]", "title='a,b'", "epochs=3"]
    assert grid.choose_seeds(swept, 0, 1) == [0, 2] and grid.choose_seeds({}, 5, 2) == [5, 6]
    with pytest.raises(InputError, match="'x' is no seed"):
        grid.choose_seeds({"seeds": ["0", "x"]}, 0, 1)


def test_a_sweep_makes_runs_with_their_factors_in_the_configuration():
    words = ["strategy=dsync,pipe_sgd", "seeds=0,2", "testbed=virtual", "epochs=1,2", "dataset.standin=always"]
    every = expand_runs(FIG4, words, "quick")
    assert {(c.config.strategy.name, c.config.epochs, c.seed) for c in every} == {
        (name, epochs, seed) for name in ("dsync", "pipe_sgd") for epochs in (1, 2) for seed in (0, 2)
    }
    assert every[0].config.factors == {"strategy": "dsync", "epochs": 1}
    assert every[0].variant == "dsync, epochs=1" and len({(c.variant, c.seed) for c in every}) == len(every)


def test_factors_change_no_key():
    (run,) = expand_runs(FIG4, ["strategy=dsync", "testbed=virtual"], "quick")
    assert run.config.factors and not {"grid", "exclude", "label", "factors"} & keyed_values(run.config).keys()


def test_a_testbeds_choice_leaves_the_variants_that_it_names_in_quotes_too():
    every = variants(
        {"method": {"eager-SGD (solo)": [], "D-Sync": [], "Horovod": []}, "workers": {2: [], 4: []}}, overrides=()
    )
    _, leaves = grid.split_overrides(["method='eager-SGD (solo)',D-Sync", "workers=choice(4)"])
    assert [v.label for v in grid.select_variants(every, leaves)] == ["eager-SGD (solo), 4", "D-Sync, 4"]


def test_a_factor_that_is_no_key_chooses_among_the_variants():
    name, on = "pipedream/table1-vgg16-8b", "testbed=paper/pipedream-b"
    every = {run.variant: run.config for run in expand_runs(name, [on], "full")}
    for method, labels in (("single,bsp", ["single", "bsp"]), ("bsp", ["bsp"])):
        some = expand_runs(name, [f"method={method}", on], "full")
        assert [run.variant for run in some] == labels
        assert all(
            keyed_values(run.config) == keyed_values(every[run.variant]) and not run.config.changed for run in some
        )
    with pytest.raises(InputError, match=r"method=\[bsp\]: .* method=A,B"):
        expand_runs(name, ["method=[bsp]"], "full")
    with pytest.raises(InputError, match=r"value of factor method 'bps'.*bsp"):
        expand_runs(name, ["method=single,bps"], "full")


@pytest.mark.parametrize("given", ["method='B c',single", "method=B c,single"])
def test_variants_without_the_factor_stay_and_keys_are_no_choices(given):
    own = {"grid": [{"method": {"A": [], "B c": []}, "workers": {1: [], 2: []}}, {"method": {"single": []}}]}
    rest, chosen = grid.split_choices(own, ["workers"], ["workers=2", given, "epochs=1"])
    assert rest == ["workers=2", "epochs=1"]
    every = grid.select_variants(grid.list_variants({**own, "workers": 1, "strategy": {"name": "dsync"}}, rest), chosen)
    assert [each.label for each in every] == ["B c, 2", "single"]


def test_a_plugin_that_is_chosen_replaces_the_one_that_the_experiment_names():
    """eagersgd/quorum says `imbalance: {name: shifting, ...}`, which Hydra puts over a chosen file's entries."""
    composer = Composer("eagersgd/quorum", "quick")
    assert composer.compose(["imbalance=none"])["imbalance"] == {"name": "none"}
    chosen = composer.compose(["imbalance=random_one", "imbalance.delay_s=0.2"])["imbalance"]
    assert chosen == {"name": "random_one", "delay_s": 0.2}
    assert composer.compose()["imbalance"]["name"] == "shifting"
