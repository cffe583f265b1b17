"""Runs at the ends of a testbed's assumed inputs."""

from __future__ import annotations

import pytest

from repro.common.errors import InputError
from repro.experiment import inputs, testbeds
from repro.launch import runs

SIMPLE = {
    "name": "paper/mine", "kind": "simulated", "launcher": "virtual", "alpha_s": 1e-5, "beta_s_per_byte": 1e-9,
    "gamma_s_per_byte": 0.0, "update_s_per_byte": 0.0, "sync_s": 0.0, "encode_s_per_byte": {"quantize8": 2.0},
    "decode_s_per_byte": {"quantize8": 4.0}, "device": {"iteration_s": 0.5, "batch": 32},
}  # fmt: skip


def ends(**bounds):
    return inputs.ends(testbeds.testbed_of(SIMPLE | {"bounds": bounds}))


def test_both_ends_of_each_input_and_what_is_guessed():
    beta = {"beta_s_per_byte": {"low": 0.5e-9, "high": 3e-9}}
    low, high = (f"testbed.beta_s_per_byte={value}" for value in ("5e-10", "3e-09"))
    assert ends(beta=beta) == {"base": [], "beta, low": [low], "beta, high": [high]}


def test_an_input_of_several_entries_moves_them_together_by_its_share():
    share = {"low": 0.5, "high": 3.0, "of": "share"}
    codecs = {"encode_s_per_byte.quantize8": share, "decode_s_per_byte.quantize8": share}
    assert ends(codecs=codecs)["codecs, high"] == [
        "testbed.encode_s_per_byte.quantize8=6.0", "testbed.decode_s_per_byte.quantize8=12.0"]  # fmt: skip


def test_an_entry_that_the_testbed_has_not_is_no_input():
    assert ends(rate={"device.utilisation": {"low": 0.1, "high": 0.2}}) == {"base": []}
    assert inputs.ends(testbeds.testbed_of(SIMPLE)) == {}


def test_bounds_that_cannot_be():
    with pytest.raises(InputError, match="high"):
        ends(beta={"beta_s_per_byte": {"low": 0.5e-9}})


def test_an_experiment_is_repeated_there_without_other_keys_for_its_own_runs():
    own, base, low, high = (
        [run for run in runs.expand("gtopk/fig10-alexnet", ["workers=4"], None, None, at_ends) if end in run.variant]
        for at_ends, end in ((False, ""), (True, "; base"), (True, "; gamma, low"), (True, "; gamma, high"))
    )
    assert len(own) == len(base) == len(low) == len(high) > 0
    for plain, guessed, less, more in zip(own, base, low, high):
        costs = [run.config.testbed.gamma_s_per_byte for run in (less, guessed, more)]
        assert costs == pytest.approx([0.5 * costs[1], costs[1], 4 * costs[1]])
        assert guessed.config.factors == plain.config.factors | {"input": "base"}
        assert runs.keyed(guessed.config) == runs.keyed(plain.config) != runs.keyed(more.config)
