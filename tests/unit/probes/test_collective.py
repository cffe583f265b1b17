"""Program `collective` and `repro bench collective`: in virtual time each collective takes its closed form."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest
import torch

from repro.algorithms.timing import collective_forms, sparse_forms
from repro.cli.main import main
from repro.core.errors import FaultError
from repro.experiment import config as configs
from repro.fabric.sparse.gradients import Sparse
from repro.probes.shared.collectives import NAMES, SPARSE, Call, make_checker, rank_pattern
from tests.support import probes

ALPHA, BETA, GAMMA = 1e-4, 1e-9, 1e-10  # of testbed `virtual`


@functools.cache
def composed() -> dict[str, Any]:
    return configs.compose("bench/collective", ["testbed=virtual"])


def medians(folder, ranks: int, names: list[str], nbytes: int = 4004, testbed=None, **options) -> list[float]:
    """The collectives' medians, which are equal to their closed forms."""
    config = probes.planned(composed(), ranks, names=names, bytes=[nbytes], **options)
    result = probes.run(config | {"testbed": config["testbed"] | (testbed or {})}, folder)["result"]
    assert [row["name"] for row in result["rows"]] == names
    for row in result["rows"]:
        assert row["seconds"]["median"] == pytest.approx(row["closed_form_s"], rel=1e-11), row["name"]
        assert row["density"] == (0.001 if row["name"] in SPARSE else None)
    return [row["seconds"]["median"] for row in result["rows"]]


@pytest.mark.parametrize("ranks", [2, 4])
def test_virtual_agrees_with_the_closed_form(ranks: int, tmp_path) -> None:
    assert medians(tmp_path, ranks, [name for name in NAMES if name not in ("blocking", "ring_half_duplex")])


def test_a_half_duplex_ring_agrees_with_the_closed_form_where_blocks_are_equal(tmp_path) -> None:
    assert medians(tmp_path, 4, ["ring_half_duplex"], 4000)
    assert medians(tmp_path, 4, ["ring_half_duplex"], 4000, codec="truncate16")


@pytest.mark.parametrize("codec", ["truncate16", "quantize8", "ternary"])
def test_virtual_with_a_codec(codec: str, tmp_path) -> None:
    names = ["ring", "ring_pipelined", *(SPARSE if codec != "ternary" else ())]
    pairs = zip(medians(tmp_path, 5, names, 40_000, codec=codec), medians(tmp_path, 5, names, 40_000), strict=True)
    assert all(encoded < plain for encoded, plain in pairs)


def test_a_testbeds_codec_costs_its_time(tmp_path) -> None:
    costs = {"encode_s_per_byte": {"quantize8": 3e-9}, "decode_s_per_byte": {"quantize8": 5e-9}}
    [costly] = medians(tmp_path, 4, ["ring"], 40_000, costs, codec="quantize8")
    [free] = medians(tmp_path, 4, ["ring"], 40_000, codec="quantize8")
    assert costly > free + 40_000 * 8e-9


def test_pieces(tmp_path) -> None:
    [one], [two], [eight] = (medians(tmp_path, 4, ["ring_pipelined"], 4_000_000, pieces=n) for n in (1, 2, 8))
    assert one == pytest.approx(collective_forms.ring_seconds(4, 4_000_000, ALPHA, BETA, GAMMA), rel=1e-11)
    assert one > two == pytest.approx(eight)  # two pieces hide the reduction and all latency but one


@pytest.mark.parametrize("ranks", [2, 5, 32])
def test_table_1(ranks: int, tmp_path) -> None:
    """Messages have no contents: 32 gradients of 100 MB need no memory."""
    k, n, network = 25_000, 100_000_000, (4.36e-4, 9e-9)
    wanted = {
        "dense": collective_forms.ring_seconds(ranks, n, *network),
        "topk": sparse_forms.topk_doubling(ranks, k, *network),
        "topk_ring": sparse_forms.topk_ring(ranks, k, *network),
        "gtopk": sparse_forms.gtopk_tree(ranks, k, *network),
    }
    testbed = dict(zip(("alpha_s", "beta_s_per_byte"), network)) | {"gamma_s_per_byte": 0.0}
    assert medians(tmp_path, ranks, list(wanted), n, testbed) == pytest.approx([*wanted.values()], rel=1e-11)


@pytest.mark.parametrize("call", [Call("ring", 7), Call("ring", 7, "quantize8"), Call("gtopk", 10, density=0.2)])
def test_a_wrong_result_is_a_fault(call: Call) -> None:
    class Two:
        rank, size = 0, 2

    check = make_checker(Two, call)
    right: Any = rank_pattern(0, 7) + rank_pattern(1, 7)
    wrong: list[Any] = [torch.full((7,), float("nan")), rank_pattern(0, 7)]
    if call.name == "gtopk":
        kept = Sparse(torch.tensor([11.0, 11.0]), torch.tensor([4, 9], dtype=torch.int32))
        right, wrong = [kept], [[Sparse(kept.values, kept.indices - 1)], [Sparse(kept.values / 2, kept.indices)]]
    check(right)
    for one in wrong:
        with pytest.raises(FaultError, match=f"{call.name} over 2 ranks"):
            check(one)


# --- the command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rnig"], "unknown collective 'rnig'; nearest: ring"),
        (["ring", "--fabric", "tcp"], "unknown fabric 'tcp'"),
        (["ring", "--codec", "zip"], "unknown codec 'zip'"),
        (["tree", "--codec", "quantize8"], "'tree'"),
        (["topk", "--codec", "ternary"], "probe.codec=ternary"),
        (["server", "--ranks", "1"], "workers=1"),
        (["ring", "--bytes", "6"], "probe.bytes=6"),
        (["ring", "--pieces", "2"], "probe.pieces=2"),
        (["gtopk", "--bytes", "400"], "probe.density=0.001: selects"),
        (["dense", "--density", "0.1"], "probe.density=0.1"),
        (["gtopk", "--allgather", "ring"], "--allgather ring"),
        (["topk", "--allgather", "star"], "--allgather star"),
        (["ring", "--device", "cuda"], "--device cuda: ranks of the fabric virtual have no GPU"),
        (["gtopk", "--device", "cuda", "--fabric", "torch"], "device=cuda"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments: list[str], message: str, capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    assert main(["bench", "collective", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.usefixtures("pooled")
def test_json_from_the_command_line(capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    arguments = ["topk", "--ranks", "3", "--density", "0.5", "--bytes", "400", "--allgather", "ring", "--json"]
    assert main(["bench", "collective", *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["name"], found["density"], found["kind"]) == ("topk_ring", 0.5, "simulated")
    assert found["closed_form_s"] == pytest.approx(found["seconds"]["median"], rel=1e-11)
