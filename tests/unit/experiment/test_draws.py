"""Assumed inputs as distributions, drawn together: what a draw sets, how draws extend one another, what is refused."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from repro.cli.draws import BUDGET_S, SIZES, allotted_draws, time_deciding_runs
from repro.cli.main import main
from repro.core.errors import InputError, NotHere
from repro.core.fields import check_fields
from repro.core.input_names import describe_names
from repro.experiment import draws, inputs, testbeds
from repro.experiment.compose import Composer
from repro.experiment.config import compose
from repro.experiment.expand import expand_runs
from repro.experiment.files import group_names
from repro.experiment.inputs import Input, Range
from repro.experiment.key import keyed_values
from repro.experiment.schema import RunConfig
from repro.launch import sweeps
from repro.rank.draws import simulate_draw
from repro.records import sweep
from repro.records.sweep import Draw

FIG4 = "pipesgd/fig4-alexnet"
EVEN = np.linspace(0, 1, 1001)


def an_input(**entries):
    return check_fields(Input, {"source": "made up"} | entries)


# --- distributions


def test_the_first_draws_are_those_of_the_sequence():
    for draws_ in (2, inputs.KEPT_DRAWS, 2 * inputs.KEPT_DRAWS):
        kept = [inputs.draw_quantiles(name, draws_) for name in list(describe_names())[:3]]
        numbers = [inputs._dimension(name) for name in list(describe_names())[:3]]
        assert np.array_equal(np.array(kept).T, inputs.make_sequence(draws_)[:, numbers])


def test_half_of_a_range_lies_below_the_best_guess_on_a_log_scale():
    values = np.array([Range(low=1.0, high=100.0).at(q, 4.0) for q in EVEN])
    assert values[0] == pytest.approx(1) and values[500] == pytest.approx(4) and values[-1] == pytest.approx(100)
    assert (np.diff(values) > 0).all() and values[250] == pytest.approx(2) and values[750] == pytest.approx(20)


def test_a_share_is_of_the_guess_and_one_without_a_beginning_is_linear():
    assert Range(low=0.5, high=2.0, of="share").at(0.0, 6.0) == pytest.approx(3)
    assert Range(low=0.0, high=8.0).at(0.25, 4.0) == pytest.approx(2)


def test_a_guess_at_an_end_is_no_median():
    assert Range(low=1.0, high=4.0).at(0.5, 1.0) == pytest.approx(2)


def test_an_input_of_several_entries_moves_them_together():
    share = {"low": 0.5, "high": 3.0, "of": "share"}
    both = an_input(entries={"a.x": share, "b": share}).drawn(1.0, {"a": {"x": 2.0}, "b": 4.0})
    assert both == pytest.approx({"a.x": 6.0, "b": 12.0})


def test_a_share_of_a_cost_that_is_not_charged_is_not_drawn():
    share, value = {"low": 0.5, "high": 2.0, "of": "share"}, {"low": 0.0, "high": 0.1}
    assert an_input(entries={"merge": share}).drawn(0.5, {"merge": 0.0}) == {}
    assert an_input(entries={"merge": value}).drawn(0.5, {"merge": 0.0}) == pytest.approx({"merge": 0.05})
    assert an_input(entries={"merge": value}).drawn(0.5, {}) == {}


def test_hypotheses_are_drawn_as_often_as_they_weigh():
    choices = [{"weight": weight, "sets": {"batch": n}, "source": "s"} for n, weight in ((1, 0.25), (2, 0.75))]
    one = an_input(choices=choices)
    drawn_values = [one.drawn(q, {})["batch"] for q in inputs.draw_quantiles("minibatch", 64)]
    assert drawn_values.count(1) == 16 and drawn_values.count(2) == 48


@pytest.mark.parametrize(
    "given",
    [
        {"entries": {"a": {"low": 2.0, "high": 2.0}}, "source": "s"},
        {"entries": {"a": {"low": -1.0, "high": 2.0}}, "source": "s"},
        {"entries": {"a": {"low": 1.0, "high": 2.0}}},
        {"entries": {"a": {"low": 1.0, "high": 2.0}}, "source": "  "},
        {"choices": [{"weight": 0.5, "sets": {"a": 1}, "source": "s"}]},
        {"choices": [{"weight": 1.0, "sets": {"a": 1}, "source": ""}]},
        {"source": "s"},
    ],
)
def test_what_is_no_distribution(given):
    with pytest.raises(InputError):
        check_fields(Input, given)


# --- draws


def test_more_draws_extend_the_fewer_and_cover_every_input_evenly():
    for name in describe_names():
        many = inputs.draw_quantiles(name, 64)
        assert (inputs.draw_quantiles(name, 16) == many[:16]).all()
        assert sorted((16 * many[:16]).astype(int)) == [*range(16)]  # one in each sixteenth
    own = {tuple(inputs.draw_quantiles(name, 16)) for name in describe_names()}
    assert len(own) == len(describe_names())


@pytest.mark.parametrize("number", ["3", "1", "0", "-1", "-2", "8192"])
def test_a_number_of_draws_that_is_no_power_of_two(number, capsys):
    for command in ("run", "show"):
        assert main([command, FIG4, "--draws", number]) == 2
        assert f"--draws {number}: must be a power of two, 2 to 4096\n" in capsys.readouterr().err


def test_draws_of_a_testbed_that_is_measured_are_refused(capsys):
    assert main(["run", "pipesgd/fig4-mnist", "testbed=here", "--draws", "16"]) == 2
    assert "here is measured" in capsys.readouterr().err
    with pytest.raises(NotHere, match="no inputs"):
        expand_runs(FIG4, ["testbed=virtual", "model=mnist_mlp", "dataset=mnist"], None, None, 4)


def swept(number):
    """The sweeps of the experiment's simulated variants."""
    return expand_runs(FIG4, ["method=D-Sync,Pipe-SGD", "testbed=paper/pipesgd-alexnet"], None, None, number)


def test_an_input_without_a_place_in_the_sequence_is_refused(monkeypatch):
    first, *_ = swept(4)
    monkeypatch.setattr(inputs, "describe_names", lambda: {"alpha": ""})
    with pytest.raises(InputError, match=r"inputs\.yaml"):
        draws.inputs_of(first.config)


def test_every_testbed_of_the_project_can_be_drawn():
    """Two on other links had the paper's 10 Gbit/s as a printed number, which excluded their own."""
    for name in group_names("testbed"):
        testbed = testbeds.testbed_of(compose("pipesgd/fig4-alexnet", [f"testbed={name}"])["testbed"])
        inputs.check_inputs(getattr(testbed, "inputs", {}), name)


PATH = "beta_s_per_byte"
SLOWER = {"weight": 0.5, "sets": {PATH: 9e-10}, "source": "s"}


@pytest.mark.parametrize("least", [8e-10, 2e-10])
@pytest.mark.parametrize(
    "distribution",
    [
        {"choices": [SLOWER, {"weight": 0.5, "sets": {PATH: 5e-10}, "source": "s"}]},
        {"entries": {PATH: {"low": 5e-10, "high": 9e-10}}, "source": "s"},
    ],
)
def test_a_value_that_a_printed_number_excludes_is_one_line_with_place_and_entry(distribution, least):
    config, limit = swept(4)[0].config, {"low": least, "source": "section 4: 10 Gbit/s"}
    beta = check_fields(Input, distribution | {"printed": {PATH: limit}})
    config = config.model_copy(update={"testbed": config.testbed.model_copy(update={"inputs": {"beta": beta}})})
    if least < 5e-10:
        draws.inputs_of(config)
        return
    message = r"testbed paper/pipesgd-alexnet: input beta: beta_s_per_byte=5e-10 is excluded by .*: section 4"
    with pytest.raises(InputError, match=message):
        draws.inputs_of(config)


def test_shares_are_of_what_a_hypothesis_sets():
    (run,) = expand_runs("pipedream/table1-vgg16-8a", ["testbed=paper/pipedream-a", "method=bsp"], None, None, 64)
    time = "testbed.device.iteration_s"
    drawn_values = {True: [], False: []}
    for draw in draws.draw_entries(run.config, 64):
        gpu, computation = draw["gpu"], draw["computation"]
        drawn_values["Maxwell" in gpu["testbed.device.name"]].append(computation[time] / gpu[time])
        assert draws.change_entries(run.config, gpu | computation).testbed.device.iteration_s == computation[time]
    share = run.config.inputs["computation"].entries[time]
    for shares in drawn_values.values():
        assert len(shares) == 32 and share.low <= min(shares) < 1 < max(shares) <= share.high


def test_a_sweep_of_each_simulated_variant_with_the_same_draws():
    plain = [run for run in expand_runs(FIG4, ["method=D-Sync,Pipe-SGD"]) if run.simulated]
    sweeps = swept(8)
    assert [run.variant for run in sweeps] == list(dict.fromkeys(run.variant for run in plain)) and len(sweeps) > 1
    values = [draws.draw_entries(run.config, 8) for run in sweeps]
    assert all(one == values[0] for one in values) and len({str(one) for one in values[0]}) == 8
    drawn = draws.change_entries(sweeps[0].config, {k: v for one in values[0][0].values() for k, v in one.items()})
    assert drawn.testbed.beta_s_per_byte == values[0][0]["beta"]["testbed.beta_s_per_byte"]
    assert drawn.timing_only and not drawn.draws


def test_the_key_of_a_sweep_holds_its_distributions_and_not_their_number_nor_their_sources():
    sixteen, four, plain = (swept(number)[0].config for number in (16, 4, 0))
    assert keyed_values(sixteen) == keyed_values(four) != keyed_values(plain)
    beta = sixteen.testbed.inputs["beta"]

    def key(**change):
        other = {"beta": beta.model_copy(update=change)}
        testbed = sixteen.testbed.model_copy(update={"inputs": sixteen.testbed.inputs | other})
        return keyed_values(sixteen.model_copy(update={"testbed": testbed}))

    assert key(source="another") == key(printed={}) == keyed_values(four)
    assert key(entries={"beta_s_per_byte": Range(low=9e-10, high=2e-9)}) != keyed_values(four)


def test_an_experiment_has_inputs_of_the_whole_configuration_and_impossible_hypotheses_are_named():
    def run(batches):
        choices = [{"weight": 0.5, "sets": {"batch": n}, "source": "s"} for n in batches]
        config = check_fields(RunConfig, Composer(FIG4).compose(["testbed=paper/pipesgd-alexnet", "strategy=dsync"]))
        one = {"minibatch": check_fields(Input, {"choices": choices})}
        return config.model_copy(update={"inputs": one, "draws": 4})

    config = run((128, 256))
    assert {one["minibatch"]["batch"] for one in draws.draw_entries(config, 4)} == {128, 256}
    draws.check_draws(config)
    with pytest.raises(InputError, match=r"minibatch.*does not divide"):
        draws.check_draws(run((3, 256)))


def test_a_training_is_cut_to_its_first_iterations_and_has_no_warm_up():
    config = check_fields(RunConfig, Composer(FIG4).compose(["testbed=paper/pipesgd-alexnet", "strategy=pipe_sgd"]))
    options = type(config.strategy.options)(warmup_epochs=5)
    long = config.model_copy(
        update={"strategy": type(config.strategy)("strategy", "pipe_sgd", options), "epochs": 90.0}
    )
    short = draws.cut_training(long, 100)
    assert short.iterations(100) == draws.ITERATIONS and short.strategy.options.warmup_epochs == 0
    assert draws.cut_training(config.model_copy(update={"epochs": 0.1}), 100).epochs == 0.1


# --- a sweep's file


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The command, whose draws are made in this process; those of a new paper are in several (`test_new`)."""
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    monkeypatch.setattr(sweeps, "worker_processes", lambda *_: ThreadPoolExecutor(1))
    return ["run", FIG4, "strategy=dsync", "testbed=paper/pipesgd-alexnet", "epochs=0.001", "--no-report"]


def test_sweeps_are_made_extended_and_resumed(tmp_path, run, capsys):
    run.append("--draws")
    assert main([*run, "2"]) == 0, capsys.readouterr().err
    (path,) = tmp_path.rglob(sweep.FILE)
    first = sweep.read(path.parent)
    assert [draw.number for draw in first.draws] == [0, 1]
    path.write_bytes(path.read_bytes()[:-20])  # a crash
    capsys.readouterr()
    assert main([*run, "4", "--json"]) == 0
    (made,) = json.loads(capsys.readouterr().out)
    assert made["drawn"] == made["draws"] == 4 and Path(made["file"]) == path
    whole = sweep.read(path.parent)
    assert whole.draws[:2] == first.draws and len(whole.draws) == 4
    times = [draw.result["step"]["mean_s"] for draw in whole.draws]
    assert len(set(times)) == 4
    before = path.read_bytes()
    assert main([*run, "4"]) == 0 and path.read_bytes() == before


def test_draws_say_what_they_make_and_how_long_it_takes(tmp_path, run, capsys):
    assert main([*run, "--json", "--draws", "--dry-run"]) == 0 and not [*tmp_path.iterdir()]
    (planned,) = json.loads(capsys.readouterr().out)
    assert planned["draws"] in SIZES and planned["drawn"] == 0 and planned["seconds"] != 0
    seconds = (0.0, BUDGET_S / 256, BUDGET_S / 65, BUDGET_S / 17, BUDGET_S)
    assert [*map(allotted_draws, seconds)] == [256, 256, 64, 16, 16]


def test_of_a_paper_only_what_a_claim_of_a_time_rests_on_is_drawn(capsys):
    simulated = expand_runs(FIG4, ["strategy=dsync", "testbed=paper/pipesgd-alexnet"], "full")
    accuracy = [run for run in expand_runs("pipesgd/accuracy", ["strategy=dsync"], "full") if run.simulated]
    assert accuracy and time_deciding_runs([*simulated, *accuracy], "pipesgd") == simulated
    assert "pipesgd/accuracy" in capsys.readouterr().err


def test_a_sweep_that_was_altered_is_refused_with_its_line(tmp_path):
    (tmp_path / sweep.FILE).write_text('{"key":"k","record":{},"crc":1}\n')
    with pytest.raises(InputError, match="line 1"):
        sweep.read(tmp_path)
    assert sweep.read(tmp_path / "none") is None
    assert sweep.line_of(Draw(0, {}, {"a": 1.0})) == sweep.line_of(Draw(0, {}, {"a": 1.0}))


def test_sweeps_of_two_networks_in_one_experiment_are_two():
    runs = [expand_runs(f"ibatch/fig5-{network}", ["method=single"], "full")[0] for network in ("vgg19", "vgg19-22k")]
    made = [SimpleNamespace(identity=run.config.identity, provenance={}) for run in runs]
    assert sweep.newest_sweeps(made[:1], made[1:]) == made
    again = SimpleNamespace(**vars(made[0]), again=True)
    assert sweep.newest_sweeps(made, [again]) == [made[1], again]


def test_a_draw_of_a_probe_has_its_seconds_so_that_the_next_ones_have_a_cost():
    small = [
        "testbed=paper/eagersgd",
        "probe.collectives=[solo]",
        "probe.ranks=[4]",
        "probe.bytes=[64]",
        "probe.calls=1",
        "workers=4",
        "batch=4",
    ]
    [run] = expand_runs("eagersgd/fig9", [*small, "seeds=1"])
    record = simulate_draw(run.config.model_copy(update={"key": "0" * 64, "hardware": {"class": "any"}}))
    assert record.wall["total_s"] > 0
