"""Stored workloads are what a trace gives."""

from __future__ import annotations

import pytest

from repro.answers.ranking import stored_workloads
from repro.answers.ranking.stored_workloads import find_workload, listed_models
from repro.answers.ranking.workload import workload_of

BATCH = 5


def test_every_listed_model_is_stored():
    assert list(stored_workloads.stored_workloads()) == listed_models()


@pytest.mark.parametrize("model", listed_models())
def test_a_stored_workload_is_that_of_a_fresh_trace(model, monkeypatch):
    monkeypatch.delenv("REPRO_DATA", raising=False)  # sequences have the mean length of the data at hand
    stored, fresh = find_workload(model, BATCH), workload_of(model, BATCH)
    for own, traced in zip(stored.profile.layers, fresh.profile.layers, strict=True):
        assert own.name == traced.name
        sizes = [
            (each.forward_s, each.backward_s, each.activation_bytes, each.parameter_bytes) for each in (own, traced)
        ]
        assert sizes[0] == pytest.approx(sizes[1])
    assert stored.flops == pytest.approx(fresh.flops) and stored.matrices == fresh.matrices
    assert stored.products == fresh.products and fresh.parameters and fresh.profile.model == model
    assert stored.activations == pytest.approx(fresh.activations)
    assert stored.profile.input_bytes == fresh.profile.input_bytes and stored.profile.batch == BATCH


def test_a_model_with_a_state_is_traced_with_any_batch():
    assert [workload_of("lstm_ptb", batch).profile.batch for batch in (2, 1)] == [2, 1]
