"""Probe results as pages read them: what is wrong with one is a line with its path."""

from __future__ import annotations

import json

import pytest

from repro.answers.tables import loading
from tests.reports.data.probes import probe, rates, rings, timing_result
from tests.reports.data.summaries import put


def timing(**changes):
    return probe("timing", "timing-model", "p = 4", timing_result(4, 1e-9), **changes)


@pytest.mark.parametrize("program, change, said", [
    ("timing", lambda s: s.pop("result"), "result: is missing"),
    ("timing", lambda s: s["result"].update(found=[]), "result.found=[]: must be"),
    ("timing", lambda s: s["result"]["found"].pop("fit"), "result.found.fit: is missing"),
    ("timing", lambda s: s["result"]["found"]["fit"].pop("alpha_s"), "found.fit.alpha_s: is missing"),
    ("timing", lambda s: s["result"]["found"]["variants"][1].pop("terms"), "found.variants.1.terms: is missing"),
    ("timing", lambda s: s["result"]["found"]["variants"][0]["observed_s"].pop("min"), "0.observed_s.min: is missing"),
    ("timing", lambda s: s["result"]["found"].update(variants={}), "result.found.variants={}: must be a list"),
    ("timing", lambda s: s["result"]["found"].update(variants=[3]), "found.variants.0=3: must be"),
    ("timing", lambda s: s.update(kind="guessed"), "kind=guessed: must be"),
    ("timing", lambda s: s.update(schema=9), "schema 9, this version reads 1 to 2"),
    ("timing", lambda s: s["identity"].update(program=3), "identity.program=3: must be a text"),
    ("timing", lambda s: s["hardware"].pop("class"), "hardware.class: is missing"),
    ("ring", lambda s: s["result"]["found"]["variants"][0].pop("seconds"), "found.variants.0.seconds: is missing"),
    ("ring", lambda s: s["result"]["found"]["overheads"][2].pop("codec"), "found.overheads.2.codec: is missing"),
    ("convergence", lambda s: s["result"]["found"]["points"][0].pop("bound"), "found.points.0.bound: is missing"),
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
