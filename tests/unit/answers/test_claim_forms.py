"""The short form of a claims file: defaults, sections, families, and places of the paper's numbers in its table."""

from __future__ import annotations

import pytest

from repro.answers.claims import claims
from repro.answers.claims.evaluate import judge_claim
from repro.answers.claims.stats import TIMES
from repro.answers.pages import wording
from repro.core.errors import InputError

HEAD = "fixed: 2026-11-20\nmargins: {fixed: 2026-11-20}\n"
PLACE = "place: Table 1, row: 'VGG16, 8 (A)', variant: PipeDream, quantity: speed-up over BSP"
CLAIM = """
- id: a
  about: time
  text: A is faster
  source: Table 1
  experiment: table1
  paper: {low: 1, shown: faster, unit: x}
  tolerance: {absolute: 0}
  value: {verb: speedup, column: step_s, of: {variant: A}, over: {variant: B}}
"""
DEFAULTS = """
defaults:
  about: time
  source: Table 1
  experiment: table1
  tolerance: {absolute: 0}
  paper: {unit: x}
  value: {verb: speedup, column: step_s, over: {variant: B}}
claims:
"""


def read(tmp_path, text):
    """A claims file of PipeDream, whose table of printed numbers there is."""
    path = tmp_path / "pipedream" / "claims.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(HEAD + text)
    return claims.read_claims(path)


def test_all_forms_write_out_the_same_claim(tmp_path):
    (plain,) = read(tmp_path, f"claims:{CLAIM}").claims
    rest = "paper: {low: 1, shown: faster}, value: {of: {variant: A}}"
    for form in (
        f"- {{id: a, text: A is faster, {rest}}}",
        f"- {{claims: [{{id: a, text: A is faster, {rest}}}]}}",
        f"- {{text: '{{of}} is faster', {rest}, each: [{{id: a, of: A}}]}}",
        "- {each: [{of: A, id_of: a}], claims: [{id: '{id_of}', text: '{of} is faster', "
        "paper: {low: 1, shown: faster}, value: {of: {variant: '{of}'}}}]}",
        f"- {{defaults: {{about: data}}, claims: [{{id: a, text: A is faster, {rest}}}], "
        "except: {a: {about: time}}}",
    ):
        (claim,) = read(tmp_path, DEFAULTS + form).claims
        assert claim == plain, form


ROWS = """
- each: [{model: vgg, name: VGG}, {model: alexnet, name: AlexNet}]
  claims:
  - id: '{model}-{n}'
    text: '{name} on {n}'
    paper: {value: '{printed}'}
    value: {of: {variant: '{variants}'}, over: {variant: '{name}'}}
    each:
    - {n: 4, printed: 1.5, variants: [A, B]}
    - {n: 8, printed: 2.5, variants: A, about: data, effect: {none: 1, side: above}}
"""


def test_rows_multiply_and_take_the_place_of_entries(tmp_path):
    file = read(tmp_path, DEFAULTS + ROWS)
    assert [claim.id for claim in file.claims] == ["vgg-4", "vgg-8", "alexnet-4", "alexnet-8"]
    four, eight = file.claims[:2]
    assert four.text == "VGG on 4" and four.paper.low == 1.5 and four.about == "time" and four.effect is None
    assert four.value.of == {"variant": ["A", "B"]} and four.value.over == {"variant": "VGG"}
    assert eight.about == "data" and eight.effect.side == "above" and eight.value.verb == "speedup"


OWN = """
- {id: own, paper: {low: 2, shown: twice}, value: {of: {variant: A}}}
- {id: function, value: {function: median_of, variant: A}}
- {id: untried, not_here: no data}
- {id: none, effect: null, value: {of: {variant: A}}}
"""


def test_an_own_entry_ends_the_default_of_another_kind(tmp_path):
    more = f"  text: t\n  effect: {{none: 1, side: above}}\n  paper: {{{PLACE}, unit: x}}\nclaims:"
    defaults = DEFAULTS.replace("  paper: {unit: x}\n", "").replace("claims:", more)
    own, function, untried, none = read(tmp_path, defaults + OWN).claims
    assert (own.paper.low, own.paper.high, own.paper.shown) == (2, None, "twice")
    assert function.value.verb is None and function.value.arguments == {"variant": "A"} and function.paper.low == 2.99
    assert untried.value is None and none.effect is None and own.effect is not None


def test_the_papers_numbers_by_their_place(tmp_path):
    text = DEFAULTS + f"- {{id: a, text: t, value: {{of: {{variant: A}}}}, paper: {{{PLACE}, %s}}}}"
    paper = read(tmp_path, text % "unit: x").claims[0].paper
    assert (paper.low, paper.high, paper.shown, paper.unit) == (2.99, 2.99, f"2.99{TIMES}", "x")
    paper = read(tmp_path, text % "shown: 'some {}', divided_by: 2").claims[0].paper
    assert (paper.low, paper.shown) == (1.495, "some 2.99")
    ends = "low: {quantity: speed-up over BSP}, high: {quantity: speed-up over 1 machine}, shown: both"
    paper = read(tmp_path, text % ends).claims[0].paper
    assert (paper.low, paper.high, paper.shown) == (2.99, 7.04, "both")
    text = text.replace("quantity: speed-up over BSP", "quantity: communication reduction over BSP")
    paper = read(tmp_path, text % "unit: '%'").claims[0].paper
    assert (paper.low, paper.shown) == (0.95, "95 %"), "the share of a percentage"


@pytest.mark.parametrize(("printed", "number", "shown"), [
    ("3.4", 3.4, "3.4"), (f"{{{PLACE.replace('BSP', '1 machine')}}}", 7.04, f"7.04{TIMES}"),
])  # fmt: skip
def test_the_baseline_of_a_conditional_verdict(tmp_path, printed, number, shown):
    value = "{verb: ratio, column: samples_per_s, of: {variant: bsp}, over: {variant: single}}"
    more = f"  given: {{value: {value}, paper: {printed}, tolerance: {{relative: 0.1}}}}\n"
    given = read(tmp_path, f"claims:{CLAIM}{more}").claims[0].given
    assert (given.paper.low, given.paper.high, given.paper.shown) == (number, number, shown)
    assert given.value.of == {"variant": "bsp"} and given.tolerance.relative == 0.1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"defaults: {{abuot: time}}\nclaims:{CLAIM}", "unknown default of claims 'abuot'"),
        (f"defaults: {{id: a}}\nclaims:{CLAIM}", "unknown default of claims 'id'"),
        ("claims:\n- {claims: [], rows: []}", "unknown entry of a section of claims 'rows'"),
        ("claims:\n- {claims: none}", "claims must be a list"),
        ("claims:\n- only a text", "must be entries"),
        (f"claims:{CLAIM}  each: []", "claim a: each must be a list of rows, at least one"),
        (f"claims:{CLAIM}  each: [A]", "claim a: each, row 1"),
        ("claims:" + CLAIM.replace("A is faster", "'{who} is faster'"), "unknown placeholder of claim a 'who'"),
        ("claims:\n- {claims: [{id: a}], except: {b: {headline: true}}}", "unknown claim of except 'b'"),
        (f"claims:{CLAIM}  takes: [1]", "takes"),
        (f"answer: 'It is {{b:simulated}}'\nclaims:{CLAIM}", "answer: unknown claim 'b'; valid: a"),
        (f"claims:{CLAIM.replace('low: 1', 'place: Table 9, quantity: x')}", "claim a: pipedream.csv has nothing"),
        (f"claims:{CLAIM.replace('low: 1', 'place: Table 1')}", "claim a: paper.quantity: is missing"),
        (
            "claims:" + CLAIM.replace("low: 1", PLACE.replace("speed-up over BSP", "configuration")),
            "not a number: '7-1'",
        ),
        (f"claims:{CLAIM}  given: {{paper: {{place: Table 9, quantity: x}}}}", "claim a: pipedream.csv has nothing"),
        (f"claims:{CLAIM}  given: {{paper: 3, tolerance: {{relative: 0.1}}}}", r"given\.value: is missing"),
    ],
)
def test_what_is_no_form(tmp_path, text, says):
    with pytest.raises(InputError, match=says) as caught:
        read(tmp_path, text)
    assert "pipedream/claims.yaml: " in str(caught.value) and "\n" not in str(caught.value)


def test_what_a_verdict_takes_stands_behind_the_reason(tmp_path):
    without = CLAIM.partition("  value:")[0]
    file = read(tmp_path, f"claims:{without}  not_here: no ImageNet\n  takes: 220 GPU-hours\n")
    none = [judge_claim(file.claims[0], kind, None, None) for kind in ("measured", "simulated")]
    assert wording.explain_verdict(none, file, {}).startswith("no ImageNet") and wording.explain_verdict(
        none, file, {}
    ).endswith("takes 220 GPU-hours")
    file = read(tmp_path, f"claims:{CLAIM}  takes: 220 GPU-hours\n")
    assert "220 GPU-hours" in wording.explain_verdict([judge_claim(file.claims[0], "simulated", None, None)], file, {})
