"""The kind of a run's numbers: by what the run did, the same from its summary and from its configuration."""

from __future__ import annotations

import json

import pytest

from repro.common.errors import InputError
from repro.launch import runs
from repro.records import kinds, reference, store
from repro.records.kinds import EMULATED, MEASURED, PADDED, SIMULATED
from tests.reports.data.summaries import make

SLEPT, MULTIPLIED = {"result": {"computation": "sleep"}}, {"result": {"computation": "multiply"}}


@pytest.mark.parametrize(
    ("testbed", "did", "kind"),
    [
        (MEASURED, {}, MEASURED),
        (MEASURED, MULTIPLIED, MEASURED),
        (MEASURED, {"min_compute_s": 0.0}, MEASURED),
        (MEASURED, {"min_compute_s": 0.61}, PADDED),
        (MEASURED, SLEPT, EMULATED),
        (MEASURED, SLEPT | {"min_compute_s": 0.61}, EMULATED),
        (MEASURED, {"imbalance": {"name": "random_one", "delay_s": 0.3}}, MEASURED),
        (SIMULATED, {}, SIMULATED),
        (SIMULATED, SLEPT, SIMULATED),
        (SIMULATED, {"min_compute_s": 0.61}, SIMULATED),
    ],
)
def test_a_record_says_what_the_run_did(testbed, did, kind, tmp_path):
    run = make("D-Sync", kind=testbed) | did
    store.write_summary(tmp_path, run)
    assert json.loads((tmp_path / "summary.json").read_text())["kind"] == kind
    found = store.read_summary(tmp_path)
    assert found["kind"] == kind and kinds.of_summary(found) == kind


def test_an_older_record_has_the_kind_of_its_testbed(tmp_path):
    (tmp_path / "summary.json").write_text(json.dumps(make("D-Sync") | {"kind": MEASURED, "min_compute_s": 0.61}))
    assert store.read_summary(tmp_path)["kind"] == PADDED


@pytest.mark.parametrize("computation", [7, ["sleep"], None])
def test_a_computation_that_is_none_is_not_slept(computation, tmp_path):
    store.write_summary(tmp_path, make("D-Sync") | {"result": {"computation": computation}})
    assert store.read_summary(tmp_path)["kind"] == MEASURED


def test_a_result_that_is_none_is_one_line(tmp_path):
    (tmp_path / "summary.json").write_text(json.dumps(make("D-Sync") | {"result": ["sleep"]}))
    with pytest.raises(InputError, match=r"summary\.json: not a readable summary \(result is not an object"):
        store.read_summary(tmp_path)


@pytest.mark.parametrize(
    ("experiment", "overrides", "expected"),
    [
        ("pipesgd/fig4-alexnet-emulated", [], {EMULATED}),
        ("validation/contention", [], {MEASURED}),
        ("eagersgd/fig9-measured", [], {MEASURED}),  # the skew is slept, and nothing is computed
        ("eagersgd/fig10", ["testbed=here"], {MEASURED}),  # so are delays
        ("eagersgd/fig10-padded", [], {PADDED, SIMULATED}),
    ],
)
def test_a_configuration_says_it_before_the_run(experiment, overrides, expected):
    planned = runs.expand(experiment, overrides, lacking=[])
    assert {kinds.of_config(run.config.plain()) for run in planned} == expected


@pytest.mark.parametrize("paper", reference.papers())
def test_the_committed_runs_have_theirs(paper):
    for summary, config in reference.read(paper):
        assert summary["kind"] == kinds.of_summary(summary) == kinds.of_config(config), summary["cell"]
