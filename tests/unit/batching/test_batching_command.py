"""`repro batches`: what it prints for people and as JSON, and one clear line for what it refuses."""

from __future__ import annotations

import json

import pytest

from repro.batching.modes import MODES
from repro.batching.profile import PullProfile, write
from repro.cli import main
from tests.support.batching import in_ms

# the second example of test_batching_greedy.py
TWO = in_ms(1, [2, 1, 2, 3, 6, 4], [2, 3, 4, 6, 3, 1])


@pytest.fixture
def two(tmp_path):
    write(tmp_path / "two.json", TWO)
    return str(tmp_path / "two.json")


@pytest.mark.parametrize(
    ("mode", "batches", "exetime", "executed", "meets"),
    [
        ("greedy", [[1, 3], [4, 5], [6, 6]], 0.022, 0.026, False),
        ("algorithm1", [[1, 3], [4, 5], [6, 6]], 0.022, 0.026, False),
        ("algorithm2", [[1, 2], [3, 4], [5, 6]], 0.025, 0.025, True),
        ("exact", [[1, 2], [3, 4], [5, 5], [6, 6]], 0.023, 0.024, False),
        ("default", [[1, 6]], 0.038, 0.038, True),
        ("layerwise", [[layer, layer] for layer in range(1, 7)], 0.025, 0.025, True),
    ],
)
def test_json_of_every_mode(two, capsys, mode, batches, exetime, executed, meets):
    assert main(["batches", two, "--mode", mode, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["mode"], found["batches"]) == (mode, batches)
    assert (found["exetime_s"], found["executed_s"], found["meets_constraint"]) == (exetime, executed, meets)
    assert found["exact_s"] == 0.024 and found["gap"] == pytest.approx(executed / 0.024 - 1)
    assert (found["model"], found["hardware"], found["layers"]) == (None, "", ["1", "2", "3", "4", "5", "6"])
    assert found["exetime_optimum"] == {"batches": [[1, 2], [3, 4], [5, 6]], "exetime_s": 0.025, "executed_s": 0.025}


def test_for_people(two, capsys):
    assert main(["batches", two]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "profile    6 layers" and lines[1] == "batches    [1, 3], [4, 5], [6, 6]"
    cells = [line.split() for line in lines]
    assert ["1", "1", "3", "6", "15"] in cells and ["3", "6", "6", "21", "26"] in cells  # pulled by and computed by, ms
    rows = {line.split("  ")[0]: line.split()[-5:] for line in lines}
    assert rows["greedy"] == ["22", "26", "no", "8.33", "%"]
    assert rows["default"] == ["38", "38", "yes", "58.33", "%"]
    assert rows["layerwise"] == ["25", "25", "yes", "4.17", "%"]
    assert rows["exact"] == ["23", "24", "no", "0.00", "%"]
    assert rows["(4) under (5)"] == ["25", "25", "yes", "4.17", "%"]


def test_no_batches_meet_the_constraint(tmp_path, capsys):
    path = tmp_path / "p.yaml"
    path.write_text("startup_s: 1e-3\ntransfer_s: [1e-3, 1e-3, 1e-3]\nforward_s: [9e-3, 8e-3, 9e-3]\n")
    assert main(["batches", str(path)]) == 0
    text = capsys.readouterr().out
    assert text.endswith("that meet the constraint: none do\n") and "[1, 1], [2, 3]" in text
    assert main(["batches", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["exetime_optimum"] is None


def test_what_is_known_of_a_profile(tmp_path, capsys):
    names = ("pool", "conv", "fc")
    known = {"layers": names, "model": "some", "workers": 4, "servers": 2, "hardware": "here", "source": "measured"}
    write(tmp_path / "p.json", PullProfile(0.0, (0.0, 1.0, 1.0), (1.0, 1.0, 1.0), **known))
    (tmp_path / "summary.json").write_text(
        json.dumps({"pipeline": {"profile": json.loads((tmp_path / "p.json").read_text())}})
    )
    for name in ("p.json", "summary.json"):
        assert main(["batches", str(tmp_path / name)]) == 0
        text = capsys.readouterr().out
        assert "some, 3 layers, 2 with parameters; 4 workers and 2 servers of their own; here; measured" in text
        assert "1 pool" in text and "3 fc" in text
        assert main(["batches", str(tmp_path / name), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["model"], found["hardware"], found["layers"]) == ("some", "here", list(names))
        assert found["batches"] == [[1, 1], [2, 2], [3, 3]]


def test_batch_0_is_not_pulled(tmp_path, capsys):
    path = tmp_path / "p.json"
    path.write_text('{"startup_s": 0.1, "transfer_s": [0, 1, 1], "forward_s": [3, 0.5, 0.5]}')
    assert main(["batches", str(path), "--mode", "exact"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "batches    [1, 1], [2, 3]"
    cells = [line.split() for line in lines]  # pulled by (but batch 0) and computed by, ms
    assert ["0", "1", "1", "3000"] in cells and ["1", "2", "3", "2100", "4000"] in cells
    rows = {line.split("  ")[0]: line.split() for line in lines}
    assert rows["exact"][1] == "1" and rows["layerwise"][1] == "2"  # pulls


@pytest.mark.parametrize("mode", MODES)
def test_edges(tmp_path, capsys, mode):
    """One layer; nothing at all to pull or to compute; no startup time."""
    for transfers, forwards in (([1], [1]), ([0, 0], [0, 0]), ([1, 0], [1, 1])):
        path = tmp_path / "p.json"
        path.write_text(json.dumps({"startup_s": 0, "transfer_s": transfers, "forward_s": forwards}))
        assert main(["batches", str(path), "--mode", mode, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["batches"] == [[1, len(transfers)]] and found["gap"] == 0
        assert main(["batches", str(path), "--mode", mode]) == 0
        assert capsys.readouterr().err == ""


def test_many_layers_do_not_widen_the_table(tmp_path, capsys):
    write(tmp_path / "p.json", in_ms(1, [1] * 100, [1] * 100))
    assert main(["batches", str(tmp_path / "p.json")]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("layerwise")]
    assert "[1, 1], [2, 2]" in row and " ... " in row and len(row) < 150


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"startup_s": 1, "transfer_s": [1, -2], "forward_s": [1, 1]}', "transfer_s of layer 2=-2"),
        ('{"startup_s": NaN, "transfer_s": [1], "forward_s": [1]}', "startup_s='NaN'"),
        ("startup_s: 1\ntransfer_s: [.inf]\nforward_s: [1]", "transfer_s of layer 1=inf"),
        ("startup_s: 1\ntransfer_s: [1]", "lacks forward_s"),
        ("startup_s: 1\ntransfer_s: [1]\nforward_s: [1, 2]", "forward_s: has 2 layers"),
        ("", "not a profile: must be a mapping with startup_s, transfer_s, forward_s"),
        ("{", "neither JSON nor YAML"),
        ('{"pipeline": {"profile": null}}', "measured no profile"),
    ],
)
def test_refuses_what_is_no_profile(tmp_path, capsys, text, words):
    (tmp_path / "bad").write_text(text)
    assert main(["batches", str(tmp_path / "bad")]) == 2
    said = capsys.readouterr()
    assert said.out == "" and words in said.err and said.err.count("\n") == 1
    assert said.err.startswith(f"repro: error: {tmp_path / 'bad'}: ")


def test_refuses_other_modes_and_no_file(two, tmp_path, capsys):
    for arguments, words in (
        ([two, "--mode", "optimal"], "unknown mode 'optimal'; valid: "),
        ([str(tmp_path / "none.json")], "none.json: no such profile"),
        ([str(tmp_path)], "not a readable profile"),
    ):
        assert main(["batches", *arguments]) == 2
        said = capsys.readouterr()
        assert said.out == "" and words in said.err and said.err.count("\n") == 1
