"""The benchmark against torch.distributed.pipelining: both sides train the same, and its table says what was found."""

import pytest

from repro.bench import pipelining


@pytest.mark.ranks
def test_both_sides_train_to_the_same_weights():
    found = pipelining.measure(worlds=(2,), models=("mlp",), batch=4, flush=4, minibatches=8, turns=1)
    assert [(row["ours"], row["theirs"]) for row in found["rows"]] == list(pipelining.COMPARED.items())
    for row in found["rows"]:
        assert row["ours_s"] > 0 and row["theirs_s"] > 0 and row["parameters"] > 1e6 and row["cuts"] == [4]
        ratio = row["ratio"]
        assert ratio["min"] <= ratio["median"] <= ratio["max"]
        assert row["apart"] is None if row["ours"] == "1f1b" else row["apart"] < 1e-5
    text = pipelining.table(found)
    assert text.count("torch 1f1b") == 2 and "torch gpipe" in text


def test_a_ratio_is_of_neighbouring_turns():
    job = {"model": "mlp", "batch": 4, "flush": 4, "minibatches": 2}
    found = {"parameters": 1, "cuts": [1], "apart": {},
             "seconds": {"gpipe": [1.0, 2.0, 4.0], "torch gpipe": [2.0, 2.0, 2.0]}}  # fmt: skip
    row = pipelining.row(2, job, found, "gpipe", "torch gpipe")
    assert row["ratio"] == {"median": 1.0, "min": 0.5, "max": 2.0} and row["ours_s"] == 1.0 and row["apart"] is None
