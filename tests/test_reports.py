"""The reports room on synthetic summaries (made here, in tmp_path, never in results/): verdicts, groups, pages."""

from __future__ import annotations

import ast
import copy
import json
import math
import re
from pathlib import Path

import pytest

from reports import compute, frames, groups, provenance, stats, tables, verdicts
from reports.build import build
from reports.claims import read_claims
from reports.pipesgd import FIG4, STATED, TIMELINE, reference
from repro.errors import InputError
from repro.results import write_summary

MS = 1e-3
FORWARD, BACKWARD, UPDATE = 1 * MS, 2 * MS, 0.5 * MS
# setting -> (compression, communication in all, of it hidden behind computation), seconds an iteration
SYNTHETIC = {
    "PS-Sync": (0.0, 12 * MS, 0.0),
    "D-Sync": (0.0, 6 * MS, 0.0),
    "D-Sync + T": (0.5 * MS, 3.2 * MS, 0.0),
    "D-Sync + Q": (0.8 * MS, 1.8 * MS, 0.0),
    "Pipe-SGD": (0.0, 6 * MS, 3.5 * MS),
    "Pipe-SGD + T": (0.5 * MS, 3.2 * MS, 3.2 * MS),
    "Pipe-SGD + Q": (0.8 * MS, 1.8 * MS, 1.8 * MS),
}
PER_EPOCH = 600


def make(setting="D-Sync", kind="measured", seed=0, epochs=2, best=0.98, finished="2026-02-03T04:05:06", **changes):
    """A synthetic summary with the schema of `repro.results`; `changes` replace entries, dictionaries by update."""
    strategy, options = FIG4.settings[setting]
    compress, total, hidden = SYNTHETIC[setting]
    slow = 1.0 if kind == "simulated" else 2.0 + 0.05 * seed  # obviously made up
    phases = {
        "forward": FORWARD,
        "backward": BACKWARD,
        "compress": compress,
        "communicate": total - hidden,
        "wait": 0.0,
        "update": UPDATE,
        "data": 0.0,
        "other": 0.0,
    }
    phases = {name: slow * seconds for name, seconds in phases.items()}
    step, iterations = sum(phases.values()), epochs * PER_EPOCH
    curve = [
        {
            "iteration": i,
            "epoch": i / PER_EPOCH,
            "train_s": step * i,
            "loss": 1 / (1 + i),
            "test_loss": 1 / (1 + i),
            "top1": (best + 0.0005 * seed) * (1 - 0.9 * math.exp(-i / 90)),
        }
        for i in range(0, iterations + 1, 150)
    ]
    reached = {
        goal: next(
            ({k: p[k] for k in ("train_s", "epoch", "iteration")} for p in curve if p["top1"] >= float(goal)), None
        )
        for goal in ("0.95", "0.97", "0.98")
    }
    simulated = kind == "simulated"
    summary = {
        "schema": 1, "status": "finished", "key": f"{setting}-{seed}", "cell": f"{setting}-{kind}-{seed}",
        "paper": "pipesgd", "experiment": "fig4-mnist", "setting": setting, "strategy": strategy,
        "options": dict(options), "kind": kind, "testbed": "paper/pipesgd" if simulated else "here",
        "fabric": "virtual" if simulated else "mpi", "launcher": "virtual" if simulated else "mpirun", "workers": 4,
        "ranks": 5 if setting == "PS-Sync" else 4, "seed": seed, "scale": "small", "breakdown": False, "batch": 100,
        "epochs": epochs, "iterations": iterations, "iterations_per_epoch": PER_EPOCH, "metric": "top1",
        "dataset": {"name": "mnist", "standin": False, "checksum": "0" * 8, "train": 60000, "test": 10000},
        "model": {"name": "mnist_mlp", "parameters": 648010},
        "optimizer": {"lr": 0.1, "momentum": 0.0, "weight_decay": 0.0}, "curve": curve,
        "final": {"top1": curve[-1]["top1"], "test_loss": 0.1, "train_s": step * iterations}, "targets": reached,
        "step": {"mean_s": step, "median_s": step, "min_s": step, "max_s": step}, "phases": phases,
        "server_phases": {"communicate": step, "update": 1 * MS} if setting == "PS-Sync" else None,
        "communication": {"total_s": slow * total, "exposed_s": slow * (total - hidden), "overlapped_s": slow * hidden},
        "bytes_sent": 3888060.0, "weights_sha256": "0" * 64, "trace": _trace(phases, setting, slow * total),
        "hardware": {"class": "cpu-2core-synthetic", "cpu": "Synthetic CPU <1>", "cores": 2, "memory_gb": 8,
                     "gpu": None, "network": "shared memory"},
        "testbed_model": {"alpha_s": 5e-5, "device": {"name": "Synthetic XP", "peak_flops": 1e12},
                          "sources": {"alpha_s": "estimated: synthetic", "device": "estimated"}} if simulated else None,
        "provenance": {"commit": "0123456789abcdef", "dirty": False, "versions": {"python": "3.11.0", "torch": "9.9.9"},
                       "started_at": "2026-02-03T04:00:00+00:00", "finished_at": finished, "command": "synthetic"},
        "wall": {"train_s": 1.0, "evaluation_s": 0.1, "checkpoint_s": 0.1, "logging_s": 0.1, "total_s": 2.0,
                 "resumes": 0},
    }  # fmt: skip
    for name, value in changes.items():
        summary[name] = summary[name] | value if isinstance(value, dict) and isinstance(summary[name], dict) else value
    return summary


def _trace(phases, setting, communication):
    intervals, step = [], sum(phases.values())
    for rank in range(4):
        for i in range(3):
            at = i * step
            for name in ("forward", "backward", "compress", "communicate", "update"):
                if phases[name]:
                    intervals.append(
                        {"rank": rank, "line": "main", "name": name, "start": at, "end": at + phases[name]}
                    )
                    at += phases[name]
            if setting.startswith("Pipe"):
                intervals.append(
                    {
                        "rank": rank,
                        "line": "communication",
                        "name": "communicate",
                        "start": i * step,
                        "end": i * step + min(communication, step),
                    }
                )
    return intervals


def all_cells(kinds=("measured", "simulated"), seeds=2, settings=SYNTHETIC, **changes):
    return [make(s, kind, seed, **changes) for kind in kinds for s in settings for seed in range(seeds)]


def put(root: Path, summaries) -> Path:
    for i, summary in enumerate(summaries):
        folder = root / summary["paper"] / summary["experiment"] / f"cell-{i:03d}"
        folder.mkdir(parents=True)
        write_summary(folder, summary)
    return root


def claim(name):
    return next(c for c in read_claims("pipesgd").claims if c.id == name)


def judged(name, summaries, kind="measured"):
    chosen, _ = groups.choose(summaries, FIG4)
    return verdicts.judge(claim(name), kind, chosen.get(kind))


# --- numbers over seeds


def test_spread_is_min_max_below_five_seeds_and_a_seeded_bootstrap_from_five():
    assert stats.spread([3, 1]) == stats.Spread(2, 1, 3, 2, "min-max")
    assert stats.spread([7]).interval == "one seed"
    assert stats.spread([]).n == 0
    five = stats.spread([1, 2, 3, 4, 5])
    assert five.interval == "bootstrap 95 %" and 1 <= five.low < 3 < five.high <= 5
    assert five == stats.spread([5, 4, 3, 2, 1])


def test_a_target_not_reached_is_infinity_and_says_so():
    inf = math.inf
    assert stats.show_target([inf, inf]) == "not reached (2/2 seeds)"
    assert stats.show_target([1.0, inf]) == "not reached (1/2 seeds)"
    assert stats.show_target([1.0, 2.0, inf]) == f"2.00 [1.00{stats.DASH}∞] not reached (1/3 seeds)"
    assert stats.show_target([1.5]) == "1.50"
    assert stats.spread([1, 2, inf, inf, inf, inf]).median == inf


# --- claims file and verdicts


def test_claims_file_is_whole_and_every_claim_has_function_tolerance_and_seeds():
    content = read_claims("pipesgd")
    assert len(content.claims) > 40 and len(content.deviations) >= 8 and content.contradictions
    for one in content.claims:
        assert one.compute in compute.FUNCTIONS
        assert set(one.minimum_seeds) == set(groups.KINDS)
        assert one.above is not None or one.below is not None
        low, high = verdicts.widened(one)
        assert low is None or high is None or low <= high
    quoted = reference()
    assert set(quoted["source"]) and "" not in set(quoted["source"])
    assert quoted[quoted["row"] == "MNIST-MLP"]["value"].tolist()[:7] == [
        "0.9833", "0.9833", "0.9834", "0.9830", "0.9834", "0.9836", "0.9833"]  # fmt: skip


@pytest.mark.parametrize("change, said", [
    ({"compute": {"function": "eval"}}, "no function 'eval'"),
    ({"compute": {"function": "speedup", "wrong": 1}}, "speedup"),
    ({"tolerance": {}}, "tolerance"),
    ({"paper": {"shown": "x"}}, "value, low or high"),
    ({"about": "luck"}, "about 'luck'"),
    ({"verdict": "matches"}, "unknown: verdict"),
])  # fmt: skip
def test_a_mistake_in_a_claims_file_is_one_line_naming_the_claim(tmp_path, change, said):
    good = {"id": "a", "about": "time", "text": "t", "source": "s", "experiment": "e", "paper": {"value": 1},
            "tolerance": {"absolute": 0}, "direction": {"above": 0}, "minimum_seeds": 1,
            "compute": {"function": "no_experiment"}}  # fmt: skip
    (tmp_path / "p.yaml").write_text(json.dumps({"claims": [good | change]}))
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        read_claims("p", tmp_path)
    assert "claim a" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("ours, expected", [
    (2.0, "matches"), (1.8, "matches"), (3.52, "matches"), (3.53, "same direction"), (1.79, "same direction"),
    (9.0, "same direction"), (1.0, "differs"), (0.5, "differs"), (math.inf, "same direction"), (0.0, "differs"),
])  # fmt: skip
def test_verdict_of_a_range(ours, expected):
    assert verdicts.label(claim("speedup-vs-dsync"), ours) == expected


def test_verdicts_of_synthetic_results():
    cells = all_cells()
    fast = judged("speedup-vs-dsync", cells)
    # (3.5 + 6) / (3.5 + 0.5) with truncation, which is faster here than quantization
    assert fast.ours.median == pytest.approx(9.5 / 4) and fast.label == "matches" and "Pipe-SGD + T" in fast.note
    assert fast.text == "matches; provisional (2 of 3 seeds)"
    assert judged("speedup-vs-dsync", cells, "simulated").text == "matches"  # modelled time needs one seed
    halved = judged("communication-halved", cells)
    assert halved.ours.median == pytest.approx(0.5) and halved.label == "matches"
    assert "p = 4: 81 % less" in halved.note
    assert judged("dsync-truncation-not-ideal", cells).ours.median == pytest.approx(6 / 3.7)
    assert judged("compression-overhead-hidden", cells).ours.median == pytest.approx(3.2 / 0.5)
    assert judged("quantization-communication-hidden", cells).ours.median == 0
    assert judged("timing-model-pipe", cells).ours.median == pytest.approx(1)
    assert judged("accuracy-d-sync", cells).label == "matches"
    # every pair of claim and kind gets one of the four verdicts
    chosen, _ = groups.choose(cells, FIG4)
    everything = verdicts.judge_all(
        read_claims("pipesgd").claims, lambda e, k: chosen.get(k) if e == FIG4.name else None
    )
    assert len(everything) == 2 * len(read_claims("pipesgd").claims)
    assert {v.label for v in everything} <= set(verdicts.VERDICTS)
    assert all(v.label == "not attempted" for v in everything if v.claim.experiment != FIG4.name)


def test_missing_settings_and_seeds_are_not_attempted_with_the_reason():
    cells = [make("D-Sync"), make("Pipe-SGD + T", seed=1)]
    assert judged("speedup-vs-ps", cells).text == "not attempted (no results for PS-Sync)"
    assert "no seed in common" in judged("speedup-vs-dsync", cells).text
    assert judged("speedup-vs-dsync", cells, "simulated").text == "not attempted (no results)"
    other = [make("D-Sync"), make("Pipe-SGD + T", iterations=7)]
    assert "different numbers of iterations" in judged("speedup-vs-dsync", other).text
    part = judged("speedup-vs-dsync", [make("D-Sync"), make("Pipe-SGD + T")])
    assert part.label == "matches" and "no results for Pipe-SGD + Q" in part.note


def test_targets_not_reached_decide_convergence_claims():
    never = {"0.97": None}
    slow_base = [make("PS-Sync", targets=never), make("D-Sync")]
    assert judged("convergence-dsync", slow_base).label == "matches"
    assert judged("convergence-dsync", slow_base).ours_text.startswith("∞" + stats.TIMES)
    assert judged("convergence-dsync", [make("PS-Sync"), make("D-Sync", targets=never)]).label == "differs"
    neither = judged("convergence-dsync", [make("PS-Sync", targets=never), make("D-Sync", targets=never)])
    assert neither.text == "not attempted (target 0.97 not reached by D-Sync nor PS-Sync)"


def test_stand_in_data_never_compare_accuracies_and_mark_times():
    cells = all_cells(dataset={"name": "mnist-standin-digits", "standin": True})
    for one in read_claims("pipesgd").claims:
        if one.about == "accuracy" and one.experiment == FIG4.name:
            assert judged(one.id, cells).text == "not attempted (stand-in data)"
    assert "on stand-in data" in judged("speedup-vs-dsync", cells).text


def test_an_interval_over_several_verdicts_is_said():
    cells = [make("D-Sync", seed=s) for s in range(3)]
    cells += [
        make("Pipe-SGD", seed=s, final={"top1": 0.9, "train_s": c["final"]["train_s"] * f, "test_loss": 0.1})
        for s, c, f in zip(range(3), cells, (0.9, 0.95, 1.2), strict=True)
    ]
    assert "spans more than one verdict" in judged("pipe-faster-than-dsync", cells).text


# --- groups


def test_a_figure_never_mixes_machines_lengths_data_or_testbeds():
    mine = all_cells(["measured"], 1)
    strangers = [make("D-Sync", seed=9, hardware={"class": "gpu-1x-h200"}), make("D-Sync", seed=9, epochs=30),
                 make("D-Sync", seed=9, dataset={"name": "mnist-standin-digits", "standin": True}),
                 make("D-Sync", seed=9, testbed="shaped"), make("D-Sync", seed=9, launcher="torchrun"),
                 make("D-Sync", seed=9, batch=200), make("D-Sync", seed=9, workers=8),
                 make("D-Sync", seed=9, optimizer={"lr": 0.2}), make("D-Sync", seed=9, experiment="elsewhere"),
                 make("Pipe-SGD", seed=9, options={"K": 3})]  # fmt: skip
    chosen, others = groups.choose([*strangers, *mine], FIG4)
    assert chosen["measured"].seeds() == [0] and len(chosen["measured"].covered()) == 7
    assert len(others) == len(strangers)
    assert len(tables.others(others)) == len(strangers) and "K=3" in " ".join(tables.others(others)["options"])


def test_simulated_results_group_by_testbed_parameters_and_not_by_machine():
    one = make("D-Sync", "simulated", hardware={"class": "cpu-64core"})
    two = make("PS-Sync", "simulated")
    changed = make("Pipe-SGD", "simulated", testbed_model={"alpha_s": 1.0})
    chosen, others = groups.choose([one, two, changed], FIG4)
    assert chosen["simulated"].covered() == ["PS-Sync", "D-Sync"] and len(others) == 1


def test_cells_without_arithmetic_are_in_no_figure_and_break_nothing(tmp_path):
    timing = make("PS-Sync", "simulated", final={"top1": None, "test_loss": None})
    timing["curve"] = [point | {"top1": None} for point in timing["curve"]]
    chosen, others = groups.choose([timing], FIG4)
    assert not chosen and len(others) == 1 and math.isnan(compute.final(timing))
    assert "Other results found" in build(results=put(tmp_path / "r", [timing]), out=tmp_path / "o")[0].read_text()


def test_most_settings_win_then_the_latest_and_the_latest_of_a_seed():
    early, late = "2026-01-01T00:00:00+00:00", "2026-03-01T00:00:00+00:00"
    few_but_late = [make("D-Sync", finished=late, epochs=9)]
    many = [make("D-Sync", finished=early), make("PS-Sync", finished=early)]
    assert groups.choose([*few_but_late, *many], FIG4)[0]["measured"].first["epochs"] == 2
    assert groups.choose([*few_but_late, many[0]], FIG4)[0]["measured"].first["epochs"] == 9
    again = make("D-Sync", finished=late, key="again")
    assert groups.choose([again, *many], FIG4)[0]["measured"].runs("D-Sync")[0]["key"] == "again"
    paper, rough = (
        make("D-Sync", "simulated", finished=early),
        make("D-Sync", "simulated", finished=late, testbed="virtual"),
    )
    assert groups.choose([paper, rough], FIG4)[0]["simulated"].first["testbed"] == "paper/pipesgd"


def test_breakdown_cells_give_phases_and_never_times():
    slow = make(
        "D-Sync", breakdown=True, phases={"communicate": 1.0}, final={"train_s": 99.0, "top1": 0.5, "test_loss": 1}
    )
    group = groups.choose([make("D-Sync"), slow, make("PS-Sync")], FIG4)[0]["measured"]
    bars = frames.breakdown(group).set_index("setting")
    assert bars.loc["D-Sync", "communicate"] == pytest.approx(1200) and bars.loc["D-Sync", "train_s"] < 99
    assert bars.loc["PS-Sync", "communicate"] < 1200
    alone = groups.choose([slow], FIG4)[0]
    assert not alone  # breakdown cells alone are no figure


def test_frames_hold_every_seed_and_a_band():
    group = groups.choose(all_cells(["measured"], 3), FIG4)[0]["measured"]
    points = frames.curves(group)
    assert len(points) == 7 * 3 * 9
    median = frames.bands(points)
    assert (median["low"] <= median["metric"]).all() and (median["metric"] <= median["high"]).all()
    assert set(median["interval"]) == {"min-max"}
    (_, x_to), (y_from, y_to) = frames.inset(points, median, [0.95, 0.97, 0.98])
    assert y_from == pytest.approx(0.93) and y_from < y_to and 0 < x_to <= points["train_s"].max() * 1.04
    assert set(frames.trace(group, TIMELINE)["line"]) == {"main", "communication"}


def test_deviations_come_from_the_summaries():
    group = groups.choose(all_cells(["measured"], 1, dataset={"train": 1000}, model={"parameters": 5}), FIG4)[0][
        "measured"
    ]
    text = " ".join(provenance.deviations(group, STATED))
    for part in (
        "1,000 train examples",
        "5 parameters",
        "Epochs: 2",
        "5 ranks",
        "share 2 cores",
        "lr 0.1",
        "Seeds: 1 a",
    ):
        assert part in text


# --- pages


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    root = tmp_path_factory.mktemp("reports")
    results = put(root / "results", [*all_cells(seeds=2), make("D-Sync", epochs=30)])
    return results, root / "out", build(results=results, out=root / "out")


def test_every_page_figure_and_table_is_written(built):
    _, out, paths = built
    names = [p.relative_to(out).as_posix() for p in paths]
    assert names[:4] == ["pipesgd.md", "pipesgd.html", "index.md", "index.html"]
    assert all(p.stat().st_size > 100 for p in paths) and len(set(paths)) == len(paths)
    for kind in groups.KINDS:
        for figure in (f"fig4-mnist-{kind}", f"convergence-{kind}", f"timeline-{kind}"):
            for suffix in (".png", ".pdf"):
                assert f"figures/pipesgd/{figure}{suffix}" in names
            assert any(n.startswith(f"figures/pipesgd/{figure}") and n.endswith(".csv") for n in names)
        assert f"tables/pipesgd/settings-{kind}.tex" in names
    assert sorted(p for p in out.rglob("*") if p.is_file()) == sorted(paths)
    events = json.loads((out / "figures/pipesgd/trace-measured-pipe-sgd.json").read_text())["traceEvents"]
    assert {e["cat"] for e in events if e["ph"] == "X"} == {"main", "communication"}


def test_the_page_labels_kinds_and_links_only_to_what_is_there(built):
    _, out, _ = built
    for suffix in ("md", "html"):
        text = (out / f"pipesgd.{suffix}").read_text()
        for part in (
            "measured",
            "simulated",
            "quoted",
            "Other results found",
            "not attempted",
            "provisional",
            "0123456789",
            "cpu-2core-synthetic",
            "modelled: paper/pipesgd",
            "81 % less",
            "bootstrap",
            "estimated: synthetic",
        ):
            assert part in text, (suffix, part)
    markdown = (out / "pipesgd.md").read_text()
    for link in re.findall(r"\]\(([^)]+)\)", markdown):
        assert link.startswith("#") or (out / link).is_file(), link
    claimed = [row for row in markdown.splitlines() if re.match(r"\| (Final|Pipe-SGD with|D-Sync is)", row)]
    assert len(claimed) > 20 and all(re.search(r"measured|simulated", row) for row in claimed)
    for tex in (out / "tables/pipesgd").glob("*.tex"):
        assert tex.read_text().isascii(), tex


def test_html_is_self_contained(built):
    _, out, _ = built
    for page in ("pipesgd.html", "index.html"):
        text = (out / page).read_text()
        assert not re.search(r"https?://|<script|<link|@import|url\(", text)
        assert all(src.startswith("data:image/png;base64,") for src in re.findall(r'src="([^"]{0,40})', text))
        assert "Synthetic CPU <1>" not in text
    assert (out / "pipesgd.html").read_text().count("<img ") == 6


def test_rebuilding_gives_the_same_bytes_elsewhere_and_sweeps_old_figures(built, tmp_path):
    results, out, paths = built
    stale = tmp_path / "figures" / "pipesgd" / "gone.png"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"old")
    for again in build("pipesgd", results, tmp_path):
        before = out / again.relative_to(tmp_path)
        assert again.read_bytes() == before.read_bytes(), again
    assert not stale.exists() and len(list(tmp_path.rglob("*.*"))) == len(paths)


def test_pages_without_results_say_how_to_get_them(tmp_path):
    pages = build(results=tmp_path / "none", out=tmp_path / "out")
    text = pages[0].read_text()
    assert "No results yet" in text and "make reproduce-pipesgd" in text and "not attempted (no results)" in text
    overview = (tmp_path / "out" / "index.md").read_text()
    assert overview.count("Not attempted yet.") == 4 and "no results yet" in overview


def test_a_page_from_one_cell_of_stand_in_data_without_trace_or_targets(tmp_path):
    one = make("D-Sync", dataset={"name": "mnist-standin-digits", "standin": True}, trace=[], best=0.6)
    one["targets"] = {}
    pages = build(results=put(tmp_path / "results", [one]), out=tmp_path / "out")
    text = pages[0].read_text()
    assert "Stand-in data" in text and "mnist-standin-digits (STAND-IN)" in text and "1 of 7 settings" in text
    assert not (tmp_path / "out/figures/pipesgd/timeline-measured.png").exists()


def test_bad_input_is_one_clear_line(tmp_path):
    with pytest.raises(InputError, match=r"unknown paper 'pipesdg'; valid: pipesgd, "):
        build("pipesdg", tmp_path, tmp_path)
    results = put(tmp_path / "results", [make()])
    path = next(results.rglob("summary.json"))
    good = json.loads(path.read_text())
    for bad in (
        "{",
        "[]",
        '{"schema": 1}',
        json.dumps(good | {"schema": 2}),
        json.dumps(good | {"phases": {}}),
        json.dumps(good | {"kind": "guessed"}),
    ):
        path.write_text(bad)
        with pytest.raises(InputError, match=re.escape(str(path))) as caught:
            build(results=results, out=tmp_path / "out")
        assert "\n" not in str(caught.value)
    path.write_text(json.dumps(good))
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        build(results=results, out=tmp_path / "file" / "out")


def test_reports_import_neither_training_nor_tracking():
    allowed = {"repro.results", "repro.paths", "repro.errors"}
    for path in (Path(compute.__file__).parent).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = (
                [a.name for a in node.names]
                if isinstance(node, ast.Import)
                else ([node.module] if isinstance(node, ast.ImportFrom) and node.module else [])
            )
            for name in names:
                assert name.split(".")[0] not in {"torch", "mlflow", "strategies"}, path
                assert not name.startswith("repro.") or name in allowed, path


def test_make_is_a_fresh_dictionary():
    assert make() == copy.deepcopy(make())
