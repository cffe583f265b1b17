"""Claims as data: judged from a table of steps, with repetitions, both ends of each input and the kind's error."""

from __future__ import annotations

from itertools import product

import pandas as pd
import pytest
import yaml

from repro.common.errors import InputError
from repro.reporting import claims, figures
from repro.reporting.evaluate import Error, judge, judge_all
from repro.reporting.validated import ratio_error

CLAIM = {
    "id": "faster", "text": "A is 2 to 3 times as fast as B", "source": "Table 1", "scope": "one machine",
    "value": {"verb": "ratio", "column": "step_s", "of": {"variant": ["A", "A + T"]}, "over": {"variant": "B"}},
    "paper": {"low": 2.0, "high": 3.0, "shown": "2-3x"}, "tolerance": {"relative": 0.1, "fixed": "2026-11-23"},
    "effect": {"none": 1.0, "margin": 0.05, "side": "above"}, "inputs": ["beta"],
}  # fmt: skip


def read(tmp_path, *entries):
    path = tmp_path / "claims.yaml"
    text = yaml.safe_dump({"claims": list(entries)}).replace("'2026-11-23'", "2026-11-23")
    path.write_text(text)
    return claims.read(path)


def steps():
    """B takes 1 s, A 0.5 s and A + T 0.4 s; simulated B takes twice as long, and at the high beta three times."""
    rows = []
    for (variant, seconds), kind in product({"A": 0.5, "A + T": 0.4, "B": 1.0}.items(), ("emulated", "simulated")):
        for name in ("base",) if kind == "emulated" else ("base", "beta, low", "beta, high"):
            slow = (
                {"base": 2.0, "beta, low": 1.6, "beta, high": 3.0}[name]
                if (variant, kind) == ("B", "simulated")
                else 1.0
            )
            spread = 0.1 if kind == "emulated" else float("nan")
            rows.append({"kind": kind, "variant": variant, "input": name, "seed": 0, "step_s": slow * seconds,
                         "step_s_low": (1 - spread) * seconds, "step_s_high": (1 + spread) * seconds})  # fmt: skip
    return pd.DataFrame(rows)


def test_a_simulated_ratio_has_the_ends_of_its_inputs_and_its_error(tmp_path):
    (claim,) = read(tmp_path, CLAIM)
    found = judge(claim, steps(), "simulated", {"simulated": Error(0.1, "10 %")}, "simulated")
    assert found.ours.point == pytest.approx(5.0)
    assert (found.ours.low, found.ours.high) == pytest.approx((4.0 / 1.1, 7.5 * 1.1))
    assert found.ends == pytest.approx({"beta, low": 4.0, "beta, high": 7.5}) and found.flips == []
    assert found.verdict.text == "holds, stronger (135 % of the effect)"


def test_an_emulated_ratio_has_its_repetitions_and_moves_with_the_simulated_one(tmp_path):
    (claim,) = read(tmp_path, CLAIM)
    found = judge(claim, steps(), "emulated", {}, "simulated")
    assert found.ours.point == pytest.approx(2.5)
    assert found.ends == pytest.approx({"beta, low": 2.0, "beta, high": 3.75})
    assert found.ours.low == pytest.approx(2.0) and found.ours.high == pytest.approx(3.75)
    assert found.verdict.text == "holds, within"
    without = claim.model_copy(update={"inputs": []})
    repeated = judge(without, steps(), "emulated", {}, "simulated").ours
    assert (repeated.low, repeated.high) == pytest.approx((0.9 / 0.44, 1.1 / 0.36))


def test_an_end_at_which_the_direction_turns_is_named(tmp_path):
    (claim,) = read(tmp_path, CLAIM)
    table = steps()
    low = (table["kind"] == "simulated") & (table["variant"] == "B") & (table["input"] == "beta, low")
    table.loc[low, "step_s"] = 0.3
    found = judge(claim, table, "simulated", {}, "simulated")
    assert found.flips == ["beta, low"] and found.verdict.answer == "inconclusive"


def test_other_verbs(tmp_path):
    value = {"verb": "value", "column": "step_s", "of": {"variant": ["A", "B"]}, "take": "mean"}
    reduction = {"verb": "reduction", "column": "step_s", "of": {"variant": "A"}, "over": {"variant": "B"}}
    plain = {name: entry for name, entry in CLAIM.items() if name not in ("effect", "inputs")}
    found = read(
        tmp_path,
        plain | {"id": "mean", "value": value, "paper": {"high": 0.8, "shown": "<= 0.8"}},
        plain | {"id": "half", "value": reduction, "paper": {"low": 0.5, "high": 0.5, "shown": "half"}},
        {name: entry for name, entry in plain.items() if name != "value"} | {"id": "never", "not_here": "no data"},
    )
    judged = judge_all(found, steps(), ["emulated", "simulated", "measured"], {}, "simulated")
    assert [one.ours.point for one in judged["mean"]] == pytest.approx([0.75, 1.25])
    assert [one.verdict.text for one in judged["mean"]] == ["holds", "fails"]
    assert [one.ours.point for one in judged["half"]] == pytest.approx([0.5, 0.75])
    assert judged["never"] == []
    erring = judge_all(found, steps(), ["emulated"], {"emulated": Error(0.1, "10 %")}, "simulated")["half"][0].ours
    # of the ratio, 2 and a tenth more or less, after repetitions of a tenth each
    assert (erring.low, erring.high) == pytest.approx((1 - 1.1 * 0.55 / 0.9, 1 - 0.45 / 1.1 / 1.1))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"value": None}, "needs value, or not_here"),
        ({"not_here": "no data"}, "needs value, or not_here, and not both"),
        ({"paper": {"low": 2.0, "shown": "> 2x"}}, "an effect needs both ends"),
        ({"verdict": "holds"}, "verdict"),
        ({"value": CLAIM["value"] | {"verb": "product"}}, "verb"),
        ({"value": CLAIM["value"] | {"over": None}}, "ratio needs over"),
        ({"tolerance": {"relative": 0.1}}, "fixed"),
    ],
)
def test_what_is_no_claim(tmp_path, change, says):
    with pytest.raises(InputError, match=says) as caught:
        read(tmp_path, CLAIM | change)
    assert "claims.yaml" in str(caught.value) and "\n" not in str(caught.value)


def test_claims_that_do_not_fit_the_table(tmp_path):
    with pytest.raises(InputError, match="claim 'faster' stands there twice"):
        read(tmp_path, CLAIM, CLAIM)
    (claim,) = read(tmp_path, CLAIM | {"value": CLAIM["value"] | {"of": {"variants": "A"}}})
    with pytest.raises(InputError, match="unknown column 'variants'"):
        judge(claim, steps(), "simulated", {}, "simulated")
    (claim,) = read(tmp_path, CLAIM | {"inputs": ["alpha"]})
    with pytest.raises(InputError, match="claim faster: no run at the ends of input 'alpha'"):
        judge(claim, steps(), "simulated", {}, "simulated")


def test_the_error_of_a_ratio_is_that_of_the_largest_size():
    columns = ["run", "setting", "strategy", "bytes", "observed_s.median", "simulated_s"]
    of_two = [["p2", "A", "dsync", 100, 1.0, 1.1], ["p2", "B", "dsync", 100, 2.0, 2.2]]
    of_four = [["p4", "A", "dsync", 100, 1.0, 1.0], ["p4", "B", "dsync", 100, 1.0, 0.8]]
    apart = [["p4", "C", "other", 100, 1.0, 9.0], ["p4", "B", "dsync", 10, 1.0, 5.0]]
    rows = pd.DataFrame([*of_two, *of_four, *apart], columns=columns)
    found = ratio_error(rows, ["dsync"], 1000)
    assert found.share == pytest.approx(0.25) and found.source.endswith(", extrapolated")
    assert "extrapolated" not in ratio_error(rows, ["dsync"], 100).source


FIGURE = {"title": "Steps", "alt": "Bars", "kind": "bar", "where": {"input": "base"}, "x": "variant", "y": "step_s",
          "hue": "kind", "labels": {"step_s": "seconds"}}  # fmt: skip


def figure(tmp_path, **changes):
    path = tmp_path / "figures.yaml"
    path.write_text(yaml.safe_dump({"figures": {"steps": FIGURE | changes}}))
    return figures.read(path)["steps"]


def test_a_figure_shows_its_rows(tmp_path):
    import matplotlib.pyplot as plt

    drawn = figures.draw(figure(tmp_path), steps())
    heights = sorted(bar.get_height() for bar in drawn.axes[0].patches if bar.get_height())
    assert heights == pytest.approx([0.4, 0.4, 0.5, 0.5, 1.0, 2.0])
    assert drawn.axes[0].get_ylabel() == "seconds"
    plt.close(drawn)
    assert len(figures.rows(figure(tmp_path), steps())) == 6


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"where": {"input": "gone"}}, "no rows where"),
        ({"y": "steps"}, "unknown column of a figure 'steps'"),
        ({"where": {"inputs": "base"}}, "unknown column 'inputs'"),
    ],
)
def test_a_figure_without_data(tmp_path, changes, says):
    with pytest.raises(InputError, match=says):
        figures.rows(figure(tmp_path, **changes), steps())
    with pytest.raises(InputError, match=r"figures\.yaml: .*kind"):
        figure(tmp_path, kind="pie")
