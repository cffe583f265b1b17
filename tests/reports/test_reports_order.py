"""Pages follow their paper's order and mark what its best-known claims rest on."""

from __future__ import annotations

from repro.experiment import papers
from repro.reports import experiments, glance
from repro.reports.order import in_order, shown
from repro.reports.page import Section


def test_sections_stand_where_their_experiments_do():
    given = [Section("d", "two"), Section("c", "one"), Section("a"), Section("e", "two"), Section("b")]
    assert [section.title for section in in_order(["one", "two"], given)] == ["a", "b", "c", "d", "e"]


def test_several_files_of_one_experiment_stand_where_the_first_does(monkeypatch):
    def entry(name: str) -> papers.Entry:
        return papers.Entry(name, f"shows {name[:4]}", False, [], False, {})

    order = ("fig1", "fig2-a", "fig3", "fig2-b")
    monkeypatch.setattr("repro.reports.order.entries", lambda paper: tuple(map(entry, order)))
    found = shown("a-paper", {"fig2": ("fig2-a", "fig2-b")})
    assert list(found.items()) == [("fig1", "shows fig1"), ("fig2", "shows fig2"), ("fig3", "shows fig3")]


def test_what_has_been_run_marks_the_headline_experiments():
    rows = dict(zip(experiments.SHOWN, glance.runs({})["experiment"], strict=True))
    known = {entry.experiment: entry.headline for entry in papers.entries(experiments.PAPER)}
    assert {name: row.endswith(" (headline)") for name, row in rows.items()} == {name: known[name] for name in rows}
    assert any(known.values()) and not all(known.values())
