"""`repro verify --rerun`: published simulated runs come out with the same numbers again, or it says which do not."""

from __future__ import annotations

import pytest

from repro.cli.main import main
from repro.core import paths
from repro.launch import rerun
from repro.records import reference
from repro.records.record import Record

PUBLISHED = reference.read("validation")


def with_numbers(record, **result):
    plain = record.plain()
    return Record.of(plain | {"result": plain["result"] | result})


@pytest.fixture(scope="module")
def cheap():
    return min(rerun.sample(PUBLISHED), key=lambda record: record.wall["total_s"])


def test_a_sample_is_cheap_simulated_and_of_every_strategy_once():
    chosen = rerun.sample(PUBLISHED)
    assert chosen and all(record.kind == "simulated" for record in chosen)
    which = [(record.identity.experiment, record.identity.strategy.name) for record in chosen]
    assert len(which) == len(set(which)) > 1


@pytest.mark.usefixtures("pooled")
def test_equal_runs_are_equal_and_another_number_ends_with_status_1(cheap, tmp_path, monkeypatch, capsys):
    for module in (paths, reference):
        monkeypatch.setattr(module, "reference_root", lambda: tmp_path)
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "workspace"))
    altered = with_numbers(cheap, bytes_sent=1.5).model_copy(update={"run": "altered", "key": "altered"})
    reference.write("validation", [cheap], tmp_path)
    assert main(["verify", "--rerun"]) == 0
    reference.write("validation", [altered], tmp_path)
    assert main(["verify", "--rerun", "validation"]) == 1
    out = capsys.readouterr().out
    assert "bytes_sent: 1.5 published" in out and "altered" in out
    assert not (tmp_path / "workspace").exists()


def test_a_configuration_is_made_of_the_record_alone(cheap):
    config = rerun.config_of(cheap)
    values, published = config.identity.values, cheap.identity.values
    assert {path: values[path] for path in published} == published


def test_what_newer_code_records_besides_is_no_difference(cheap):
    assert rerun.differences(cheap, with_numbers(cheap, counters={"new": 1})) == []
    [difference] = rerun.differences(with_numbers(cheap, counters={"old": 1}), cheap)
    assert difference.startswith("counters.old: 1 ")


@pytest.mark.parametrize("where", ["hardware", "torch"])
def test_arithmetic_is_compared_on_the_same_hardware_and_torch_alone(where):
    published = next(
        record for record in reference.read("pipesgd") if record.kind == "simulated" and not rerun_anywhere(record)
    )
    plain = published.plain()
    if where == "hardware":
        plain["hardware"] = plain["hardware"] | {"class": "another"}
    else:
        plain["provenance"] = plain["provenance"] | {"versions": {"torch": "0.1"}}
    assert "torch" in rerun.why_not(Record.of(plain))


def test_times_without_arithmetic_are_compared_of_the_same_data_alone(cheap):
    """As lengths of sequences make them."""
    plain = cheap.plain()
    plain["result"]["dataset"] |= {"checksum": "another"}
    assert rerun.why_not(cheap) is None and "data" in rerun.why_not(Record.of(plain))


def rerun_anywhere(record):
    return record.identity.testbed.options.get("arithmetic", "none") == "none"
