"""Predictions of `repro recommend`: closed forms against the simulator, invariants, and inputs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from repro.algorithms.pipeline import profile as profiles
from repro.algorithms.timing.collective_forms import hierarchical_seconds
from repro.algorithms.timing.setting import coarsen_profile
from repro.answers.ranking import (
    answer,
    draws,
    forms,
    gpus,
    links,
    question,
    simulate,
    workload,
)
from repro.answers.ranking.arguments import Question
from repro.answers.ranking.candidates import read_candidates
from repro.core.errors import InputError
from repro.fabric.virtual import fabric as virtual
from repro.fabric.virtual.network import Network
from repro.fabric.virtual.two_levels import TwoLevelFabric
from tests.unit.answers.ranking.settings import LAYERS, PROFILE, points_of, rows, seconds, setting

BITS = (1e9, 1e10, 1e11)
TIMES = (
    *("alpha_s", "beta_s_per_byte", "gamma_s_per_byte", "update_s_per_byte", "merge_s_per_byte", "sum_s_per_byte"),
    *("local_alpha_s", "local_beta_s_per_byte"),
)
REPLICATED = ("gpipe_data", "one_f_one_b_data", "pipedream")  # which ranks are late in a row matters there

MODELLED = [name for name, one in read_candidates().items() if one.modelled]


@pytest.mark.parametrize("name", MODELLED)
@pytest.mark.parametrize("bits", BITS)
def test_the_closed_form_agrees_with_the_simulator(name, bits):
    where = setting(bits=bits, name=name)
    simulated = simulate.simulate_step(read_candidates()[name], where).seconds
    assert seconds(name, where) == pytest.approx(simulated, rel=0.02)


def test_1f1b_hides_the_stages_behind_a_slow_one_in_the_middle():
    layers = tuple(replace(one, forward_s=0.02 if n == 2 else 0.005, backward_s=0.04 if n == 2 else 0.01)
                   for n, one in enumerate(LAYERS[:5]))  # fmt: skip
    where = replace(setting(5, 1e11), profile=replace(PROFILE, layers=layers))
    for name in ("gpipe", "one_f_one_b_flush"):
        assert seconds(name, where) == pytest.approx(
            simulate.simulate_step(read_candidates()[name], where).seconds, rel=1e-3
        )
    assert seconds("one_f_one_b_flush", where) < 0.95 * seconds("gpipe", where)


@pytest.mark.parametrize("name", MODELLED)
def test_a_late_worker_costs_as_much_as_in_the_simulator(name):
    late, one = setting(late=1.0, name=name), read_candidates()[name]
    rel = 0.16 if name in REPLICATED else 0.1
    assert seconds(name, late) == pytest.approx(simulate.simulate_step(one, late).seconds, rel=rel)


@pytest.mark.parametrize("workers", [1, 4, 6])
def test_the_lower_bound_of_a_long_form_is_one(workers):
    bounded = set()
    for bits in BITS:
        where = setting(workers, bits, late=0.25)
        for name, one in read_candidates().items():
            least, step = (forms.closed_form_step(one, where, least=least) for least in (True, False))
            assert (least is None and step is None) or least.seconds <= step.seconds * (1 + 1e-9), name
            bounded |= {name} if least and least.bound else set()
    assert "gpipe" in bounded


@pytest.mark.parametrize("name", read_candidates())
def test_more_bandwidth_never_makes_a_step_longer(name):
    times = [seconds(name, setting(8, bits, name)) for bits in (1e8, 1e9, 1e10, 1e11)]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize(
    "name",
    [name for name, one in read_candidates().items() if one.keeps == "synchronous" and one.link == "ring"],
)
def test_one_worker_is_plain_sgd(name):
    where = setting(1)
    plain = where.computation_s + where.nbytes * where.testbed.update_s_per_byte
    assert seconds(name, where) == pytest.approx(plain)


def test_the_order_does_not_depend_on_the_unit_of_time():
    usual = setting(8)
    bed = usual.testbed
    times = {name: getattr(bed, name) for name in TIMES}
    coded = {kind: getattr(bed, kind) for kind in ("encode_s_per_byte", "decode_s_per_byte", "select_s_per_byte")}
    slow = usual.slower(1000.0).with_entries(
        **{name: 1000 * value for name, value in times.items()},
        **{kind: {name: 1000 * value for name, value in costs.items()} for kind, costs in coded.items()},
    )
    for name in points_of(usual) - {"horovod"}:  # whose cycle is a time of its own
        assert seconds(name, slow) == pytest.approx(1000 * seconds(name, usual), rel=1e-6)


def test_the_interval_is_wider_where_less_is_given():
    def width(known):
        return sum(row.high_s / row.low_s for row in rows(known))

    little, much = width(["computation"]), width(["computation", "alpha", "skew", "gamma", "update"])
    assert width([]) > little > much


def test_an_interval_holds_nine_in_ten_of_the_draws():
    where = setting(8)
    points = {name: forms.closed_form_step(read_candidates()[name], where) for name in points_of(where)}
    at = answer.at_draws(read_candidates(), points, where, [*draws.drawn_settings(where, [])])
    for row in rows([]):
        inside = [row.low_s <= seconds <= row.high_s for seconds in at[row.candidate.name]]
        assert 0.85 <= sum(inside) / len(inside) < 1, row.candidate.name


def test_several_gpus_of_a_machine_share_its_network_card():
    alone, shared = setting(8), setting(8, gpus_per_node=4)
    assert seconds("eager_solo", shared) > seconds("eager_solo", alone)  # every rank sends at once
    assert seconds("allreduce", shared) == pytest.approx(seconds("allreduce", alone), rel=0.01)  # one message there
    assert seconds("ps_after", shared) < seconds("ps_after", alone)  # a machine speaks once for its GPUs


@pytest.mark.parametrize("gpus", [2, 3, 4])
@pytest.mark.parametrize("machines", [2, 3, 5])
def test_an_allreduce_in_two_levels_takes_what_its_form_says(machines, gpus):
    def summed(fabric):
        vector = torch.arange(1000, dtype=torch.float32) + fabric.rank
        fabric.native_allreduce(vector).wait()
        return fabric.now(), vector

    link, local, gamma = (1e-4, 1e-8), (1e-5, 2e-9), 1e-9
    network = Network(*link, fair=True, hosts=machines, local_alpha=local[0], local_beta=local[1], local_links=True)
    costs = setting().with_entries(gamma_s_per_byte=gamma).costs
    ranks = virtual.run(machines * gpus, summed, network, costs, kind=TwoLevelFabric)
    expected = machines * gpus * torch.arange(1000.0) + sum(range(machines * gpus))
    assert all(torch.equal(vector, expected) for _, vector in ranks)
    form = hierarchical_seconds(machines, gpus, 4000, link, local, gamma)
    assert max(now for now, _ in ranks) == pytest.approx(form, rel=0.02)


def test_an_allreduce_in_two_levels_sends_a_machine_s_gradient_once():
    """Over a slow network a ring of all ranks takes 2 (p - 1) / p of the gradient, two levels take 2 (m - 1) / m."""
    slow = setting(16, 1e8, gpus_per_node=8)
    ring, two_levels = (seconds(name, slow) - slow.computation_s for name in ("ddp", "ddp_two_levels"))
    assert ring / two_levels == pytest.approx((15 / 16) / (1 / 2), rel=0.1)
    assert "ddp_two_levels" not in points_of(setting(8)) | points_of(setting(8, gpus_per_node=8))


def test_gradients_of_several_minibatches_are_exchanged_at_once():
    where = setting(8, 1e9)
    shared = [seconds(name, where) - where.computation_s for name in ("ddp", "ddp_accumulate")]
    assert shared[0] == pytest.approx(4 * shared[1])
    row = next(row for row in rows([]) if row.candidate.name == "ddp_accumulate")
    assert row.fastest is None, "an update of several minibatches is another batch"


def test_a_ring_s_latency_is_that_of_its_hops():
    """Of 15 hops one is between two machines of eight GPUs."""
    slow = setting(16, 1e12, gpus_per_node=8).with_entries(alpha_s=1.0, local_alpha_s=0.0, local_beta_s_per_byte=1e-12)
    assert seconds("allreduce", slow) == pytest.approx(2.0, rel=0.05)


def test_a_coarse_profile_keeps_the_sums():
    fine = replace(PROFILE, layers=LAYERS * 6)
    rough = coarsen_profile(fine)
    assert len(rough.layers) < len(fine.layers)
    assert rough.seconds == pytest.approx(fine.seconds)
    assert sum(one.parameter_bytes for one in rough.layers) == sum(one.parameter_bytes for one in fine.layers)


def test_the_messages_of_a_deep_network_are_not_merged():
    def latency_s(layers):
        where = replace(setting(8), profile=replace(PROFILE, layers=layers))
        slow = where.with_entries(alpha_s=1.0)
        return forms.closed_form_step(read_candidates()["layerwise"], slow).seconds

    assert latency_s(LAYERS * 8) == pytest.approx(8 * latency_s(LAYERS), rel=0.05)  # 64 layers, a ring for each


def test_pipelines_are_cut_from_few_layers():
    where = replace(setting(4), profile=replace(PROFILE, layers=LAYERS * 8))
    assert len(where.stages.layers) < 64 and where.stages.seconds == pytest.approx(where.profile.seconds)
    assert where.slower(2.0).stages.seconds == pytest.approx(2 * where.profile.seconds)


def test_horovod_sends_what_is_ready_in_one_buffer():
    def messages(**options):
        one = read_candidates()["horovod"].model_copy(update={"options": {"cycle_ms": 0.0} | options})
        slow = setting(8).with_entries(alpha_s=1.0, beta_s_per_byte=1e-15, gamma_s_per_byte=0.0)
        return round(forms.closed_form_step(one, slow).seconds / (2 * 7))

    assert messages(fusion_mb=64) == 2  # the last layer's gradient, then all that became ready meanwhile
    assert messages(fusion_mb=0) == len(LAYERS)


def test_a_line_delivers_what_lines_like_it_delivered():
    slow, fast = links.goodput_of("tcp", 1e11), links.goodput_of("rdma", 1e11)
    share = 8 / slow.at(0.5) / 1e11
    assert 0.1 < share < 0.6 < 8 / fast.at(0.0) / 1e11 * 2
    assert slow.at(0.0) <= slow.at(0.3) <= slow.at(0.9) <= slow.at(1.0)
    assert links.goodput_of("tcp", 5e11).values[0] == pytest.approx(slow.values[0] / 5)  # the nearest line's shares
    assert links.inside_of("nvlink").at(0.5) < links.inside_of(None).at(0.5) < links.inside_of("pcie3").at(0.5)


def test_goodput_replaces_the_line_and_is_not_drawn():
    line, measured = (
        question.parse_question(Question("resnet20", *rates, step_ms=10.0))[0]
        for rates in ((10e9, 4), (None, 4, "9.4g"))
    )
    assert set(line.links) == {"goodput"} and not measured.links
    assert measured.testbed.beta_s_per_byte == pytest.approx(8 / 9.4e9)
    drawn = {where.testbed.beta_s_per_byte for where in draws.drawn_settings(line, [])}
    assert len(drawn) > 10 and min(drawn) >= 8 / 10e9
    assert len({where.testbed.beta_s_per_byte for where in draws.drawn_settings(measured, [])}) == 1


def test_an_estimate_for_a_gpu_is_drawn():
    known = question.parse_question(Question("resnet50", "10g", 4, step_ms=50.0))
    guessed = question.parse_question(Question("bert_base", "10g", 4, gpu="P100"))
    spans = [
        [where.computation_s for where in draws.drawn_settings(setting, inputs)]
        for setting, _, inputs, _ in (known, guessed)
    ]
    assert max(spans[0]) == pytest.approx(min(spans[0])) and max(spans[1]) > 2 * min(spans[1])


def test_a_gpu_s_published_steps_are_drawn_from():
    def computation(model, **asked):
        where, load, known, _ = question.parse_question(Question(model, "10g", 4, gpu="V100", **asked))
        return where.computation_s, [drawn.computation_s for drawn in draws.drawn_settings(where, known)], load.timed

    rates = [each.per_s for each in gpus.rates_of("v100", "fp32")]
    middle, drawn, source = computation("resnet50")
    assert 32 / max(rates) <= min(drawn) < middle < max(drawn) <= 32 / min(rates) and "published" in source
    assert computation("resnet50", precision="fp16")[0] < middle / 2
    of_others = computation("bert_base")
    assert max(of_others[1]) / min(of_others[1]) > 2 * max(drawn) / min(drawn) and "estimated" in of_others[2]


def test_the_link_inside_a_machine_decides_its_step():
    def step_s(intra):
        where = question.parse_question(Question("resnet50", None, 8, gpus_per_node=8, intra=intra, step_ms=50.0))[0]
        return seconds("ddp", where)

    assert step_s("nvlink") < step_s("pcie4") < step_s("pcie3") < step_s("0.5")
    assert step_s("12GB/s") == step_s(12)


def test_what_does_not_fit_the_memory_comes_last():
    fits = [row.fits for row in rows(["computation"], 3 * setting(8).nbytes + 1e8 + 1)]
    assert any(fits) and not all(fits) and fits == sorted(fits, reverse=True)
    with pytest.raises(InputError, match="memory"):
        rows([], 1e3)


def test_a_profiles_file_keeps_its_seconds(tmp_path):
    profiles.write_profile(tmp_path / "a.json", PROFILE)
    load = workload.workload_of(str(tmp_path / "a.json"), 32)
    assert load.profile.seconds == pytest.approx(PROFILE.seconds) and "estimated" in load.timed
