"""The driver of timed communication: whose turn it is, which turns count, and which ranks measure."""

from __future__ import annotations

from functools import partial
from typing import Any

from repro.fabric.virtual import fabric as virtual
from repro.probes.shared.driver import measure_settings, run_in_turns
from repro.testing.small import NETWORK


def test_calls_take_turns_and_the_first_turn_does_not_count():
    order: list[str] = []
    turns: list[int] = []

    def call(name: str) -> str:
        order.append(name)
        return f"{name}{len(order)}"

    calls = {name: partial(call, name) for name in "ABC"}
    counted = run_in_turns(calls, 2, alternate=True, after_turn=turns.append)
    assert "".join(order) == "ABCCBAABC" and turns == [0, 1, 2]
    assert counted == {"A": ["A6", "A7"], "B": ["B5", "B8"], "C": ["C4", "C9"]}


def test_the_first_ranks_measure_a_setting_and_the_others_wait():
    def measure(group: Any, label: str) -> list[dict[str, Any]]:
        return [{"label": label, "ranks": group.size, "sum": sum(group.exchange(group.rank))}]

    def main(fabric: virtual.VirtualFabric) -> list[dict[str, Any]]:
        return measure_settings(fabric, [(2, "two"), (3, "three")], measure)

    first, _, last = virtual.run(3, main, NETWORK)
    three = {"label": "three", "ranks": 3, "sum": 3}
    assert first == [{"label": "two", "ranks": 2, "sum": 1}, three] and last == [three]
