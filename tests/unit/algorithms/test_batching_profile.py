"""iBatch's profiles: valid values, files in JSON and YAML, layers without parameters."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given

from repro.algorithms.batching.profile import PullProfile, layer_groups, read_pulls, write_pulls
from repro.core.errors import InputError
from tests.support.batching import any_profiles, in_ms, small_profiles

GIVEN = {"startup_s": 0.001, "transfer_s": [0.002, 0.004], "forward_s": [0.01, 0.005]}
FACTS = {"model": "some", "workers": 4, "servers": 0, "batch": 32, "hardware": "here", "source": "measured"}
FULL = PullProfile(0.5, (1.0, 2.0), (3.0, 4.0), layers=("conv", "fc"), parameters=(10, 20), **FACTS)


def test_parse():
    found = PullProfile.parse(GIVEN, "here")
    assert found == PullProfile(0.001, (0.002, 0.004), (0.01, 0.005))
    assert found.names == ("1", "2") and found.model is None and found.layers == ()
    assert FULL.names == ("conv", "fc")


@given(any_profiles())
def test_as_dict_and_back(profile):
    assert PullProfile.parse(json.loads(json.dumps(profile.as_dict())), "here") == profile


def test_files(tmp_path):
    write_pulls(tmp_path / "p.json", FULL)
    assert read_pulls(tmp_path / "p.json") == FULL
    assert [path.name for path in tmp_path.iterdir()] == ["p.json"]
    (tmp_path / "p").write_text(
        "startup_s: 1e-3   # as nobody writes in YAML 1.1\ntransfer_s: [2e-3, .004]\nforward_s: [1E-2, 5.0e-3]\n"
    )
    assert read_pulls(tmp_path / "p") == PullProfile.parse(GIVEN, "here")
    (tmp_path / "q.yaml").write_text(json.dumps(GIVEN))
    assert read_pulls(str(tmp_path / "q.yaml")) == PullProfile.parse(GIVEN, "here")


def test_a_summary_has_a_profile(tmp_path):
    path = tmp_path / "summary.json"
    path.write_text(json.dumps({"result": {"pipeline": {"mode": "greedy", "profile": FULL.as_dict()}}}))
    assert read_pulls(path) == FULL
    for pipeline in ({"profile": None}, {"config": "2-1"}, None):
        path.write_text(json.dumps({"result": {"pipeline": pipeline}}))
        with pytest.raises(InputError, match="measured no profile of its pulls"):
            read_pulls(path)


def test_files_that_cannot_be_read_or_written(tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    for name, words in (("none", "no such profile"), ("bytes", "not a readable profile"), (".", "not a readable")):
        with pytest.raises(InputError, match=words):
            read_pulls(tmp_path / name)
    for name, words in (("no/p.json", "there is no folder"), (".", "is a folder")):
        with pytest.raises(InputError, match=words):
            write_pulls(tmp_path / name, FULL)


@pytest.mark.parametrize(
    "text", ["{", "a: [1\nb: {", "a: !!python/object:os.system 1", "d: 2024-13-45", "[" * 5000, "? [1]\n: 2"]
)
def test_text_that_is_neither_json_nor_yaml(tmp_path, text):
    (tmp_path / "p").write_text(text)
    with pytest.raises(InputError, match="neither JSON nor YAML") as refusal:
        read_pulls(tmp_path / "p")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"startup_s": -0.1}, "startup_s=-0.1"),
        ({"startup_s": True}, "startup_s=True"),
        ({"transfer_s": [math.nan, 1]}, "transfer_s.0=nan"),
        ({"forward_s": [1, "a\nb"]}, "forward_s.1='a\\nb'"),
        ({"transfer_s": [1e308, 1e308]}, "must together be a finite number"),
        ({"transfer_s": 1.5}, "transfer_s=1.5: must be a list"),
        ({"transfer_s": [], "forward_s": []}, "transfer_s: has no layers"),
        ({"forward_s": [1]}, "forward_s: must have an entry for each of 2 layers"),
        ({"layers": ["a"]}, "layers: must have an entry for each of 2 layers"),
        ({"parameters": [1, 2.5]}, "parameters.1=2.5"),
        ({"workers": 0}, "workers=0"),
        ({"model": 5}, "model=5"),
        ({"transfers": [1]}, "transfers: unknown entry"),
    ],
)
def test_wrong_entries(change, words):
    with pytest.raises(InputError) as refusal:
        PullProfile.parse(GIVEN | change, "some.yaml")
    assert str(refusal.value).startswith("some.yaml: ") and words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_missing_entries():
    for content, words in (
        ({"startup_s": 1, "transfer": [1], "forward_s": [1]}, "transfer_s: is missing"),
        ([1, 2], "must be a mapping with startup_s, transfer_s, forward_s"),
    ):
        with pytest.raises(InputError, match=words):
            PullProfile.parse(content, "here")


def test_layers_without_parameters_join_the_layer_before():
    assert layer_groups(in_ms(1, [0, 0, 3, 0, 4, 0, 0], [1] * 7)) == [
        (1, 2),
        (3, 4),
        (5, 7),
    ]  # the leading ones are batch 0
    assert layer_groups(in_ms(1, [0, 0, 0], [1, 2, 3])) == [(1, 3)]


@given(small_profiles())
def test_groups_have_all_layers_and_one_with_parameters_each(profile):
    groups = layer_groups(profile)
    assert [layer for first, last in groups for layer in range(first, last + 1)] == list(
        range(1, len(profile.names) + 1)
    )
    for first, last in groups[1:]:
        assert profile.transfer_s[first - 1] > 0 and not any(profile.transfer_s[first:last])
