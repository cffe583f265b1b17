"""Commits that runs name and that the history no longer has."""

from __future__ import annotations

import subprocess

import pytest

from repro.answers.pages import provenance
from repro.answers.tables.runs import Runs
from repro.records import rebased, reference
from tests.reports.data.summaries import make
from tests.support.records import found_of, record_of


@pytest.fixture
def checkout(tmp_path):
    """A repository of two commits, and its reference, whose runs name the first commit and another one."""

    def git(*command):
        by = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
        return subprocess.run([*by, *command], capture_output=True, text=True, check=True).stdout.strip()

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    first = git("rev-parse", "HEAD")
    git("commit", "-q", "--allow-empty", "-m", "second")
    runs = [record_of(make("D-Sync", seed=seed, run=f"d-sync-{seed}")) for seed in (0, 1)]
    for run, commit in zip(runs, (first, "f" * 40), strict=True):
        run.provenance["commit"] = commit
    reference.write("pipesgd", runs, tmp_path / "reference")
    return tmp_path


def test_commits_that_the_history_lacks_are_listed(checkout):
    root = checkout / "reference"
    assert rebased.read_rebased(root) == set()
    rebased.write_rebased(root, checkout)
    assert rebased.read_rebased(root) == {"f" * 40}


def test_a_part_of_the_history_and_no_history_leave_the_list_as_it_is(checkout, tmp_path_factory):
    root, elsewhere = checkout / "reference", tmp_path_factory.mktemp("elsewhere")
    (root / rebased.FILE).write_text('["before"]')
    subprocess.run(["git", "clone", "-q", "--depth=1", checkout.as_uri(), str(elsewhere / "shallow")], check=True)
    for there in (elsewhere / "shallow", elsewhere):
        rebased.write_rebased(root, there)
        assert rebased.read_rebased(root) == {"before"}


def test_rows_of_provenance_say_how_many_of_their_runs_name_such_a_commit(monkeypatch):
    runs = [found_of(make("D-Sync", seed=seed, run=f"d-sync-{seed}")) for seed in range(9)]
    for number, run in enumerate(runs):
        run.provenance["commit"] = f"{number}" * 40
    monkeypatch.setattr(provenance, "read_rebased", lambda: frozenset({"3" * 40, "4" * 40}))
    groups = {("causes", "measured"): Runs.of(runs[:2]), ("fig4", "measured"): Runs.of(runs)}
    rows = provenance.of_groups(groups, lambda name, kind: "C1" if name == "fig4" else provenance.DASH)
    assert rows[provenance.REBASED].tolist() == [provenance.DASH, "2 of 9"]
    shown = provenance.for_page(rows, provenance.ON_PAGE)
    assert shown["experiment"].tolist() == ["fig4", "causes"]  # those of claims first
    assert shown["commit"].iloc[0].endswith(" and 6 more") and rows["commit"].iloc[1].count(provenance.BETWEEN) == 8
