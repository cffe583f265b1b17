"""The testbeds of the iBatch paper: their derivations, from closed forms, and what they say of where they come from."""

from __future__ import annotations

import pytest

from repro import models
from repro.experiment import config, testbeds
from repro.rank import factory
from repro.timing import closed_forms as forms
from repro.timing.device import block_flops, block_seconds, compute_seconds
from tests.support.virtual import close

NODES, SPEEDUP, IMAGES = 72, 26, 4
IMAGE, CLASSES = (3, 224, 224), 21_841


def of_paper(name: str) -> dict:
    return config.compose("ibatch/fig3", [f"testbed=paper/{name}"])["testbed"]


def vgg19_22k():
    return models.build("vgg19", IMAGE, CLASSES, 0, "meta")


def communication_s(of: dict) -> float:
    """Of a default step of 72 nodes: pull, push and the servers' sums, one after the other."""
    n = 4 * sum(p.numel() for p in vgg19_22k().parameters())
    network = (of["alpha_s"], of["beta_s_per_byte"], of["hosts"], of["local_alpha_s"], of["local_beta_s_per_byte"])
    one_way = forms.all_pull(NODES, n, *network)
    sums = (NODES - 1) * forms.largest_block(NODES, n) * of["gamma_s_per_byte"]
    return of["startup_s"] + of["alpha_s"] + 2 * one_way + sums


NO_NUMBERS = ("name", "kind", "launcher", "arithmetic", "sources", "claims", "implied")


def test_every_number_says_where_it_comes_from():
    for name in ("ibatch", "ibatch-implied"):
        found = of_paper(name)
        numbers = {key for key in found if key not in NO_NUMBERS}
        assert numbers <= {source.split(".")[0] for source in found["sources"]}
        assert factory.virtual_network(testbeds.testbed_of(found)).hosts == 8
    assert of_paper("ibatch-implied")["sources"]["device"].startswith("implied: 26x")


def test_the_node_is_a_ninth_of_a_blade():
    device, blade = of_paper("ibatch")["device"], 2 * 4 * 2.4e9 * 8
    assert device["peak_flops"] == pytest.approx(blade / 9, rel=1e-3)
    memory = 2 * 25.6e9 * 0.7 / 9
    assert of_paper("ibatch")["gamma_s_per_byte"] == pytest.approx(3 / memory, rel=0.01)


def test_the_implied_rate_is_that_of_one_published_speedup():
    """72 / 26 = 1 + C / T1."""
    found = of_paper("ibatch-implied")
    seconds = communication_s(found)
    assert seconds == pytest.approx(15.113, abs=1e-3)
    step = seconds / (NODES / SPEEDUP - 1)
    assert step == close(seconds * 26 / 46) and step == pytest.approx(8.542, abs=1e-3)
    rate = IMAGES * 3 * sum(block_flops(vgg19_22k(), IMAGE, 1)) / step
    assert found["device"]["peak_flops"] * found["device"]["utilisation"] == pytest.approx(rate, rel=1e-3)
    compute = compute_seconds(block_seconds(vgg19_22k(), IMAGE, IMAGES, testbeds.testbed_of(found).device))
    assert NODES * compute / (compute + seconds) == pytest.approx(SPEEDUP, rel=1e-3)


def test_and_more_than_the_node_can_do():
    """Which the file says: 3.2 times the peak of a ninth of a blade."""
    ratio = of_paper("ibatch-implied")["device"]["peak_flops"] / of_paper("ibatch")["device"]["peak_flops"]
    assert ratio == pytest.approx(3.2, abs=0.05)


def test_which_claims_went_in_is_no_part_of_a_run():
    found = testbeds.testbed_of(of_paper("ibatch-implied"))
    assert found.claims and found.implied and not {"claims", "implied"} & found.model_dump().keys()
