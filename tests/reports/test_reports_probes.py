"""Probe results in the reports room: reading, grouping, and what claims compute from them."""

from __future__ import annotations

import json

import pytest

from repro.answers.pages import provenance
from repro.answers.tables import loading, probes
from tests.reports.data.probes import probe, rates, rings, timing_result, timings
from tests.reports.data.summaries import put


def timing(**changes):
    return probe("timing", "timing-model", "p = 4", timing_result(4, 1e-9), **changes)


@pytest.mark.parametrize("program, change, said", [
    ("timing", lambda s: s.pop("result"), "result: is missing"),
    ("timing", lambda s: s["result"].update(found=[]), "result.found=[]: must be"),
    ("timing", lambda s: s["result"]["found"].pop("fit"), "missing in result.found: fit"),
    ("timing", lambda s: s["result"]["found"]["fit"].pop("alpha_s"), "result.found.fit: alpha_s"),
    ("timing", lambda s: s["result"]["found"]["variants"][1].pop("terms"), "result.found.variants[1]: terms"),
    ("timing", lambda s: s["result"]["found"]["variants"][0]["observed_s"].pop("min"), "variants[0].observed_s: min"),
    ("timing", lambda s: s["result"]["found"].update(variants={}), "result.found.variants is not a list"),
    ("timing", lambda s: s["result"]["found"].update(variants=[3]), "result.found.variants[0] is not an object"),
    ("timing", lambda s: s.update(kind="guessed"), "kind=guessed: must be"),
    ("timing", lambda s: s.update(schema=9), "schema 9, this version reads 1 to 2"),
    ("timing", lambda s: s["identity"].update(program=3), "identity.program=3: must be a text"),
    ("timing", lambda s: s["hardware"].pop("class"), "hardware.class: is missing"),
    ("ring", lambda s: s["result"]["found"]["variants"][0].pop("seconds"), "result.found.variants[0]: seconds"),
    ("ring", lambda s: s["result"]["found"]["overheads"][2].pop("codec"), "result.found.overheads[2]: codec"),
    ("convergence", lambda s: s["result"]["found"]["points"][0].pop("bound"), "result.found.points[0]: bound"),
])  # fmt: skip
def test_a_broken_probe_summary_is_one_line_with_its_path(tmp_path, capsys, program, change, said):
    summary = {"timing": timing, "ring": lambda: rings(1)[0], "convergence": lambda: rates(1)[0]}[program]()
    root = put(tmp_path, [summary])
    assert loading.read("pipesgd", root)
    path = next(root.rglob("summary.json"))
    broken = json.loads(path.read_text())
    change(broken)
    path.write_text(json.dumps(broken))
    assert not loading.read("pipesgd", root)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: {path}: ") and said in line


def test_testbeds_are_an_axis_machines_and_scales_are_not():
    runs = timings(1)
    group = probes.choose(runs, "gradient-communication")[0]["simulated"]
    assert len({run["testbed"] for run in group.summaries}) == 4
    measured = [timing(workers=p) for p in (2, 3)]
    stranger = timing(workers=2, hardware={"class": "gpu-1x-h200"}, seed=5)
    smoke = timing(workers=2, scale="quick", seed=6)
    rough = timing(kind="simulated", testbed="virtual")
    chosen, others = probes.choose([*measured, stranger, smoke, rough, timing(kind="simulated")], "timing-model")
    assert [run["workers"] for run in chosen["measured"].summaries] == [2, 3]
    assert chosen["simulated"].first["testbed"] == "paper/pipesgd" and len(others) == 3
    assert set(provenance.others(others)["experiment"]) == {"timing-model"}


def test_of_each_run_the_latest_counts_and_of_a_testbed_its_latest_parameters():
    old, new = timing(key="old"), timing(key="new")
    new["provenance"] = new["provenance"] | {"finished_at": "2027-01-01T00:00:00+00:00"}
    assert [run["key"] for run in probes.groups([new, old])[0].summaries] == ["new"]
    before = timing(kind="simulated", workers=2)
    after = timing(kind="simulated", workers=4, testbed_model={"alpha_s": 1.0})
    after["provenance"] = new["provenance"]
    assert [run["workers"] for run in probes.groups([before, after])[0].summaries] == [4]
