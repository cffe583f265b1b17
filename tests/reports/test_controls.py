"""The tables of the emulation's controls: a step beside its simulated twin, beside D-Sync's, by what is kept."""

from __future__ import annotations

import pytest

from repro.reports.validation import emulated

LINKS = {"alpha_s": 1e-4, "beta_s_per_byte": 8e-9, "slow_down": 40, "shrink": 8}


def control(
    method: str, kind: str, ms: float, experiment: str = "control-null", links: dict = LINKS, **factors
) -> dict:
    return {
        "experiment": experiment,
        "setting": ", ".join([method, *factors.values()]),
        "factors": {"method": method, **factors},
        "testbed": f"{kind}/made-up",
        "testbed_model": links | {"name": f"{kind}/made-up", "kind": kind},
        "kind": kind,
        "workers": 4,
        "seed": 0,
        "step": {"median_s": ms / 1e3},
    }


def test_an_emulated_step_has_the_simulated_one_of_the_same_constants_beside_it():
    simulated = control("D-Sync", "simulated", 380, links=LINKS | {"slow_down": None, "shrink": None, "fair": True})
    other_links = control("WFBP", "simulated", 300, links=LINKS | {"beta_s_per_byte": 1e-9})
    emulated_runs = [control("D-Sync", "emulated", 400), control("WFBP", "emulated", 330)]
    (row,) = emulated.pairs([simulated, other_links, *emulated_runs]).to_dict("records")
    assert (row["variant"], row["emulated"], row["simulated"]) == ("D-Sync", 400, 380)
    assert row["error"] == pytest.approx(-5.0)


def test_ratios_are_over_dsync_where_all_else_is_equal():
    runs = [control("D-Sync", "emulated", ms, dilation=dilation) for ms, dilation in ((400, "40, 8"), (410, "80, 8"))]
    runs += [
        control("Pipe-SGD", "emulated", 205, dilation="80, 8"),
        control("Pipe-SGD", "emulated", 1, dilation="9, 9"),
    ]
    found = emulated.ratios(runs).set_index("variant")["ratio"]
    assert found.to_dict() == {"D-Sync, 40, 8": 1, "D-Sync, 80, 8": 1, "Pipe-SGD, 80, 8": 0.5}


def test_steps_by_what_connections_keep_are_of_the_experiment_that_varies_it():
    runs = [
        control("iBatch", "emulated", ms, "control-buffers", buffer=kept) for ms, kept in ((392, "128"), (490, "2"))
    ]
    (row,) = emulated.buffers([*runs, control("iBatch", "emulated", 445)]).to_dict("records")
    assert row == {"method": "iBatch", "by 128": 392, "by 2": 490}
    assert emulated.buffers([control("iBatch", "emulated", 445)]).empty
