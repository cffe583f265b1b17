"""`repro verify --rerun`: repeated simulated runs have the published numbers, or it names those that differ."""

from __future__ import annotations

import pytest

from repro.cli.main import main
from repro.core import paths
from repro.launch import rerun
from repro.records import reference
from repro.records.record import Record


def with_numbers(record, **result):
    plain = record.plain()
    return Record.of(plain | {"result": plain["result"] | result})


@pytest.fixture(scope="module")
def sampled():
    return rerun.sample_runs(reference.read("validation"))


@pytest.fixture(scope="module")
def cheap(sampled):
    return min(sampled, key=lambda record: record.wall["total_s"])


def test_a_sample_has_one_simulated_run_of_every_strategy(sampled):
    assert sampled and all(record.kind == "simulated" for record in sampled)
    groups = [(record.identity.experiment, record.identity.strategy.name) for record in sampled]
    assert len(groups) == len(set(groups)) > 1


@pytest.mark.usefixtures("pooled")
def test_equal_numbers_pass_and_a_different_one_ends_with_status_1(cheap, tmp_path, monkeypatch, capsys):
    for module in (paths, reference):
        monkeypatch.setattr(module, "reference_root", lambda: tmp_path)
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "workspace"))
    altered = with_numbers(cheap, bytes_sent=1.5).model_copy(update={"run": "altered", "key": "altered"})
    reference.write("validation", [cheap], tmp_path)
    assert main(["verify", "--rerun"]) == 0
    repeated = "1 of 1 runs repeated (the cheapest simulated one of each strategy), all numbers equal\n"
    assert capsys.readouterr().out == repeated
    reference.write("validation", [altered], tmp_path)
    assert main(["verify", "--rerun", "validation"]) == 1
    out = capsys.readouterr().out
    assert "bytes_sent: 1.5 published" in out and "altered" in out
    assert not (tmp_path / "workspace").exists()


def test_a_configuration_is_made_of_the_record_alone(cheap):
    config = rerun.config_of(cheap)
    values, published = config.identity.values, cheap.identity.values
    assert {path: values[path] for path in published} == published


def test_additional_entries_of_newer_code_are_no_difference(cheap):
    assert rerun.record_differences(cheap, with_numbers(cheap, counters={"new": 1})) == []
    [difference] = rerun.record_differences(with_numbers(cheap, counters={"old": 1}), cheap)
    assert difference.startswith("counters.old: 1 ")


@pytest.mark.parametrize(
    "changes", [{"hardware": {"class": "another"}}, {"provenance": {"versions": {"torch": "0.1"}}}]
)
def test_arithmetic_is_compared_only_on_the_same_hardware_and_torch(changes):
    published = next(
        record
        for record in reference.read("pipesgd")
        if record.kind == "simulated" and record.identity.testbed.options.get("arithmetic", "none") != "none"
    )
    plain = published.plain()
    assert "torch" in rerun.why_not(Record.of(plain | {part: plain[part] | new for part, new in changes.items()}))


def test_times_are_compared_only_for_the_same_data(cheap):
    """They depend on the lengths of sequences, even without arithmetic."""
    plain = cheap.plain()
    plain["result"]["dataset"] |= {"checksum": "another"}
    assert rerun.why_not(cheap) is None and "data" in rerun.why_not(Record.of(plain))
