"""The curve of a run that was cut off."""

from __future__ import annotations

from repro.records import unfinished


def test_a_curve_has_every_score_that_was_evaluated():
    """Also one of a metric that a user declares, which no list here knows."""
    point = {"event": "evaluation", "iteration": 10, "epoch": 1.0, "train_s": 2.0, "wall_s": 3.0, "loss": 0.5}
    events = [point | {"top1": 0.1}, point | {"iteration": 20, "top1": 0.2, "train_f1": 0.3}, {"event": "steps"}]
    first, last = unfinished.curve(events, "top1")
    assert list(first) == list(last) and first["train_f1"] is None and last["train_f1"] == 0.3
    assert "wall_s" not in last and "event" not in last and last["test_loss"] is None
