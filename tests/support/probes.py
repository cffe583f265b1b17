"""Helpers of the probes' tests: a made-up testbed, and runs of probes in this process."""

from __future__ import annotations

import functools
from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import nn

from repro.core.fields import check_fields
from repro.experiment import config as configs
from repro.experiment import needs
from repro.experiment.schema import RunConfig
from repro.experiment.testbeds import testbed_of
from repro.fabric.virtual import modelled
from tests.support import virtual_runs

TESTBED = {
    "name": "made up",
    "kind": "simulated",
    "launcher": "virtual",
    "arithmetic": "none",
    "alpha_s": 3e-5,
    "beta_s_per_byte": 2e-8,
    "gamma_s_per_byte": 7e-9,
    "sync_s": 2e-5,
    "encode_s_per_byte": {"truncate16": 3e-9, "quantize8": 5e-9, "ternary": 4e-8},
    "decode_s_per_byte": {"truncate16": 2e-9, "quantize8": 4e-9, "ternary": 2e-8},
    "update_s_per_byte": 6e-9,
    "device": {"name": "made up", "peak_flops": 2e8, "utilisation": 0.5, "launch_s": 2e-5},
    "sources": {"all": "made up", "fair": "closed forms add up messages one after the other"},
}
PARAMETERS = 18840 + 900 + 444  # divisible by 12, and each layer's too: every ring has equal blocks


def divisible(*_: Any, **__: Any) -> nn.Sequential:
    with torch.device("meta"):
        layers = [nn.Linear(784, 24), nn.Linear(24, 36), nn.Linear(36, 12)]
    return nn.Sequential(OrderedDict((f"fc{i}", nn.Sequential(nn.Flatten(), fc)) for i, fc in enumerate(layers)))


@functools.cache
def composed(experiment: str) -> dict[str, Any]:
    return configs.compose(f"pipesgd/{experiment}", ["dataset.standin=always"])


def planned(config: dict[str, Any], workers: int, batch: int = 0, **probe: Any) -> dict[str, Any]:
    """A composed configuration with these options of its probe, and the entries that a plan adds."""
    record = {"variant": "s", "key": "k", "hardware": {"class": "none"}, "provenance": {}}
    options = (config["probe"] or {}) | probe
    return config | record | {"workers": workers, "batch": batch or workers, "probe": options}


def configuration(experiment: str, workers: int, **probe: Any) -> dict[str, Any]:
    """An experiment on the made-up testbed, with digits for data."""
    return planned(composed(experiment), workers, 4 * workers, **probe) | {"testbed": TESTBED}


def check(config: dict[str, Any]) -> RunConfig:
    """The configuration, checked as before a run."""
    typed = check_fields(RunConfig, config)
    needs.check_program(typed)
    return typed


def run(config: dict[str, Any], folder, testbed: dict[str, Any] | None = None) -> dict[str, Any]:
    """The summary of a probe's run, all ranks in this process.

    testbed: the one that they run on, if it differs from the configuration's.
    """
    typed = check(config)
    place = testbed_of(testbed or config["testbed"])
    costs, network = modelled.virtual_costs(place), modelled.virtual_network(place)
    return virtual_runs.ended(typed, folder, network, costs)


def exactly(value: float) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-13)
