"""`repro bench` on sparse gradients: dense, topk and gtopk beside Table I, the benchmarks `gtopk` and `selection`."""

from __future__ import annotations

import json

import pytest
import torch

from repro.algorithms.timing import collective_forms, sparse_forms
from repro.bench import goals, gtopk, gtopk_authors, gtopk_memory, selection, sparse_calls
from repro.bench.calls import checker, pattern
from repro.bench.collective import bench_collective, table
from repro.bench.sparse_calls import Sparsity
from repro.cli.main import main
from repro.core.errors import FaultError
from repro.fabric.sparse.gradients import EMPTY, Sparse, merge

ALPHA, BETA = 4.36e-4, 9e-9


def simulated(name: str, ranks: int, nbytes: int = 100_000_000, codec: str = "none", **options) -> dict:
    return bench_collective(name, ranks, nbytes, "virtual", codec, 1, ALPHA, BETA, 0.0, **options)


@pytest.mark.parametrize("ranks", [2, 3, 5, 8, 32])
def test_table_1_from_the_shell(ranks: int) -> None:
    k = 25_000
    wanted = {
        "dense": collective_forms.ring(ranks, 100_000_000, ALPHA, BETA),
        "topk": sparse_forms.topk_doubling(ranks, k, ALPHA, BETA),
        "gtopk": sparse_forms.gtopk_tree(ranks, k, ALPHA, BETA),
    }
    for name, seconds in wanted.items():
        result = simulated(name, ranks, density=None if name == "dense" else 0.001)
        assert result["seconds"]["median"] == pytest.approx(seconds, rel=1e-11)
        assert result["closed_form"] == pytest.approx(seconds, rel=1e-11)
        assert result["density"] == (None if name == "dense" else 0.001)
    ring = simulated("topk", ranks, allgather="ring")
    assert (
        ring["closed_form"] == pytest.approx(sparse_forms.topk_ring(ranks, k, ALPHA, BETA))
        and ring["allgather"] == "ring"
    )


def test_the_table_says_density_and_k() -> None:
    text = table(simulated("gtopk", 4, density=0.01))
    assert "density 0.01" in text and "k = 250000 elements of 8 bytes" in text and "closed form" in text
    assert "allgather ring" in table(simulated("topk", 4, allgather="ring"))
    assert "density" not in table(simulated("dense", 4))


@pytest.mark.parametrize("codec", ["truncate16", "quantize8"])
@pytest.mark.parametrize("name", sparse_calls.SPARSE)
def test_with_a_codec(name: str, codec: str) -> None:
    result = simulated(name, 4, codec=codec)
    assert result["seconds"]["median"] == pytest.approx(result["closed_form"], rel=1e-11)
    assert result["seconds"]["median"] < simulated(name, 4)["seconds"]["median"] and codec in result["note"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["gtopk", "--density", "0"], "--density 0.0: must be above 0 and at most 1"),
        (["topk", "--density", "1.5"], "--density 1.5: must be above 0"),
        (["topk", "--density", "-0.1"], "--density -0.1: must be above 0"),
        (["topk", "--density", "nan"], "--density nan: must be above 0"),
        (["gtopk", "--bytes", "400"], "--density 0.001: selects none of 100 elements; must be 0.01 or more"),
        (["dense", "--density", "0.1"], "--density 0.1: only the collectives 'topk' and 'gtopk'"),
        (["gtopk", "--allgather", "ring"], "--allgather ring: only the collective 'topk'"),
        (["topk", "--allgather", "star"], "unknown --allgather 'star'; valid: "),
        (["topk", "--codec", "ternary"], "unknown codec of 'topk' 'ternary'; valid: "),
        (["dense", "--codec", "quantize8"], "'dense'"),
        (["gtopk", "--pieces", "2"], "--pieces 2"),
        (["ring", "--device", "tpu"], "unknown device 'tpu'; valid: cpu, cuda"),
        (
            ["ring", "--device", "cuda"],
            "--device cuda: ranks of the fabric virtual have no GPU; must be --fabric torch",
        ),
        (["ring", "--device", "cuda", "--fabric", "torch"], "--device cuda: torch sees no working GPU here"),
        (["gtopk", "--device", "cuda", "--fabric", "torch"], "--device cuda: 'gtopk' is timed in host memory alone"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments: list[str], says: str, capsys, monkeypatch) -> None:
    monkeypatch.setattr("repro.fabric.real.gpus.visible_gpus", lambda device: ())
    assert main(["bench", "collective", *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


def test_json_from_the_command_line(capsys) -> None:
    arguments = ["topk", "--ranks", "3", "--density", "0.5", "--bytes", "400", "--allgather", "ring", "--json"]
    assert main(["bench", "collective", *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["name"], found["density"], found["allgather"]) == ("topk", 0.5, "ring")


def test_a_wrong_result_is_a_fault() -> None:
    class Two:
        rank, size = 0, 2

    check = checker("gtopk", Two, 10, "none", Sparsity(0.2))
    right = Sparse(torch.tensor([11.0, 11.0]), torch.tensor([4, 9], dtype=torch.int32))
    assert pattern(0, 10)[4] + pattern(1, 10)[4] == 11
    check([right])
    for wrong in (Sparse(right.values, right.indices - 1), Sparse(right.values / 2, right.indices)):
        with pytest.raises(FaultError, match="gtopk over 2 ranks"):
            check([wrong])


def test_which_indices_are_in_another_with_flags_and_empty_places() -> None:

    def one(draw: torch.Generator) -> Sparse:
        places = torch.randint(-2, 14, (8,), generator=draw).unique()
        empty = int(torch.randint(0, 3, (1,), generator=draw))
        indices = torch.cat([places, torch.full((empty,), EMPTY)]).to(torch.int32)
        return Sparse(torch.zeros(len(indices)), indices)

    for seed in range(200):
        draw = torch.Generator().manual_seed(seed)
        mine, other = one(draw), one(draw)
        assert torch.equal(mine.indices_in(other), torch.isin(mine.indices, other.indices))


# --- benchmarks


def test_selection_rows() -> None:
    result = selection.measure(models={"small": (5000, 0.5)}, density=0.01, turns=1)
    rows = [row for row in result["rows"] if row["device"].startswith("cpu")]
    assert [row["method"] for row in rows] == ["exact", "sampled", "torch.topk"]
    for row in rows:
        assert row["k"] == 50 and row["share"] == pytest.approx(row["seconds"]["median"] / 0.5)
    assert "sampled" in selection.table(result)


def test_own_cost_over_the_wire_bound() -> None:
    work = {"pack_s": 1e-3, "unpack_s": 2e-3, "merge_s": 3e-3}
    row = gtopk.own(8, 10_000, work)
    assert row["own_s"] == pytest.approx(3 * 6e-3 + 3e-3)
    assert row["wire_s"] == pytest.approx(2 * 3 * ALPHA + 16 * 10_000 * BETA * 3)
    assert row["ratio"] == pytest.approx(row["own_s"] / row["wire_s"])
    assert all(seconds > 0 for seconds in gtopk.work_seconds(100, 1).values())


def test_the_authors_merge_is_ours() -> None:
    """On what theirs can do: no flags, no empty places."""
    draw = torch.Generator().manual_seed(1)
    first, second = gtopk.draws(500, draw), gtopk.draws(500, draw)
    kept, _ = merge(first, second, 500)
    parts = [part.numpy().copy() for one in (first, second) for part in (one.values, one.indices)]
    values, places = gtopk_authors.merge(*parts)
    theirs = torch.zeros(500_000).index_add_(0, torch.from_numpy(places), torch.from_numpy(values))
    ours = torch.zeros(500_000)
    kept.add_to(ours)
    assert torch.equal(ours, theirs)


def test_a_goal_on_the_wire_looks_at_the_best() -> None:
    over = {"median": 2.0, "min": 1.2, "max": 3.0}
    row = {"elements": 10_000_000, "rate_gbit": 1.0, "over_wire": over, "authors_over": {"ours": {"whole_s": over}}}
    faster, wire = gtopk.goals(row)
    assert faster["bound"] == 2.0 and faster["met"] and wire["met"] and wire["spread"] == [1.2, 3.0]
    said = goals.table([faster, wire, goals.Goal("nothing", 1.0).of(None)])
    assert said.count("  met ") == 2 and "NOT MET nothing: not measured, goal at most 1" in said


@pytest.mark.ranks
def test_gtopk_rows() -> None:
    result = gtopk.measure(sizes=(100, 200), turns=1, gradients={5000: 2}, memory=(), rates=(None,))
    assert [(row["ranks"], row["k"]) for row in result["own"]] == [(p, k) for p in (4, 8, 16) for k in (100, 200)]
    [row] = result["steps"]
    assert row["k"] == 5 and set(row["sides"]) == set(gtopk.SIDES)
    assert all(part["min"] > 0 for side in row["sides"].values() for part in side.values())
    [goal] = result["against_goals"]
    assert goal["value"] == row["authors_over"]["ours"]["whole_s"]["median"] and goal["bound"] == 1.0
    peak = gtopk_memory.peak("gtopk", 50_000)
    assert peak > 50_000_000  # Python and torch alone
    result["memory"] = [{"strategy": "gtopk", "elements": 50_000, "peak_bytes": peak, "gradients": 1.5}]
    assert "own / wire" in gtopk.table(result) and "+1.50" in gtopk.table(result)


def test_more_ranks_than_gpus_are_refused_where_gloo_would_be_timed_in_the_place_of_nccl(monkeypatch, capsys):
    monkeypatch.setattr("repro.fabric.real.gpus.visible_gpus", lambda device: ("a", "b"))
    assert main(["bench", "collective", "ring", "--ranks", "3", "--fabric", "torch", "--device", "cuda"]) == 2
    assert "--ranks 3: NCCL needs a GPU for each, and there are 2" in capsys.readouterr().err
