"""The draws that headlines rest on: when more are wanted, and what they cost."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import pytest

from repro.answers.claims.drawn import Drawn, Sweeps
from repro.answers.claims.draws_due import DrawsOfClaim, sides_of, wanted_draws
from repro.answers.claims.evaluate import ConditionalVerdict
from repro.answers.claims.stats import format_number
from repro.answers.claims.verdict import OPEN, Share, Verdict
from repro.cli.main import main
from repro.core.paths import reference_root
from repro.records import catalogue
from repro.records.sweep import Draw
from tests.reports.data.summaries import all_runs, claim
from tests.support.records import found_of


def draws_of(hits, of, size=None, sides=(), conditional=None, of_baseline=()):
    shares = [Share(n, of, drawn=True) for n in (hits, size) if n is not None]
    verdict = SimpleNamespace(verdict=Verdict(OPEN, *shares), evidence=SimpleNamespace(conditional=conditional))
    return DrawsOfClaim(verdict, sides, of, of_baseline)


def side(key, draws, seconds=1.0):
    wall = {} if seconds is None else {"total_s": seconds}
    return Drawn(SimpleNamespace(record=SimpleNamespace(key=key, wall=wall)), [None] * draws)


@pytest.mark.parametrize(("hits", "of", "wanted"), [
    (16, 16, 64), (8, 16, 64),  # 16 are never enough
    (60, 64, 128), (5, 64, 128), (32, 64, 64), (64, 64, 64),  # doubled while the interval contains 90 % or 10 %
    (115, 128, 256), (230, 256, 256),  # to 256
])  # fmt: skip
def test_draws_are_doubled_while_wilsons_interval_contains_nine_in_ten_or_one(hits, of, wanted):
    assert draws_of(hits, of).wanted == wanted


def test_the_size_too_may_be_undecided():
    assert draws_of(64, 64, size=58).wanted == 128 and draws_of(64, 64, size=0).wanted == 64


def test_the_missing_draws_of_each_side_cost_the_recorded_seconds():
    known = draws_of(8, 16, sides=[side("a", 16, 0.5), side("b", 32, 2.0)])
    assert known.seconds == 48 * 0.5 + 32 * 2.0
    assert math.isnan(draws_of(8, 16, sides=[side("a", 16, None)]).seconds)


def test_the_sides_of_a_verb_are_the_runs_that_it_chooses_and_of_a_function_all():
    runs = [found_of(run) for run in all_runs(["simulated"], 1)]
    sweeps = Sweeps([Drawn(run, []) for run in runs])
    chosen = {each.run.label for each in sides_of([claim("pipe-faster-than-dsync").value], sweeps)}
    assert chosen == {"Pipe-SGD", "D-Sync"}
    assert len(sides_of([claim("timing-model-pipe").value], sweeps)) == len(runs)
    assert sides_of([], sweeps) == []


def test_each_side_gets_the_most_draws_that_a_headline_asks_for():
    few, many = side("few", 16), side("many", 64)
    decided, undecided = draws_of(8, 16, sides=[few, many]), draws_of(60, 64, sides=[many])
    assert wanted_draws([decided]) == {"few": 64}
    assert wanted_draws([undecided, decided]) == {"few": 64, "many": 128}


def test_the_baseline_alone_is_drawn_on_while_it_may_be_the_papers():
    def of_baseline(reproducing, draws, verdict=None):
        conditional = ConditionalVerdict("dense", reproducing, draws, None, 2.0, verdict)
        return draws_of(64, 64, sides=[side("number", 64), side("baseline", 64, 3.0)], conditional=conditional,
                        of_baseline=["baseline"])  # fmt: skip

    none = of_baseline(0, 64)
    assert wanted_draws([none]) == {"baseline": 128} and none.seconds == 64 * 3.0
    assert wanted_draws([of_baseline(0, 128)]) == {}  # Wilson's interval ends below 20 in 1,024
    assert wanted_draws([of_baseline(9, 512)]) == {"baseline": 1024}
    assert wanted_draws([of_baseline(20, 1024)]) == {}
    few = of_baseline(14, 64)  # it is the paper's, but 20 are needed for a verdict over these
    assert wanted_draws([few]) == {"number": 128, "baseline": 128}
    assert wanted_draws([of_baseline(30, 64, Verdict(OPEN))]) == {}


def test_what_decides_a_claim_is_asked_of_the_draws_of_its_sides_whatever_others_have():
    def draws(count):
        return [Draw(n, {"beta": {"beta_s_per_byte": float(n)}}, {}) for n in range(count)]

    other = [Draw(n, {"merge": {"merge_s_per_byte": float(n)}}, {}) for n in range(16)]
    run = found_of(all_runs(["simulated"], 1)[0])
    sweeps = Sweeps([Drawn(run, draws(64)), Drawn(run, other)])
    assert sweeps.decided_by({n: 2.0 * n for n in range(64)}) == "beta"
    assert sweeps.turns_at({n: n < 32 for n in range(64)}).endswith("(time to send a byte)")


def test_a_minibatch_drawn_as_a_rate_decides_in_samples_of_a_machine():
    run = next(run for run in catalogue.runs("ibatch", reference_root()) if run.identity.testbed.name == "paper/ibatch")
    rate, each = run.identity.testbed.device["peak_flops"], run.identity.batch / run.identity.workers
    draws = [Draw(n, {"minibatch": {"testbed.device.peak_flops": rate * (n + 1) / 64}}, {}) for n in range(64)]
    fast = Sweeps([Drawn(run, draws)]).turns_at({n: n >= 32 for n in range(64)})
    assert fast == f"below {format_number(each * 64 / 32.5, 2)} (samples of a machine's minibatch)"


def test_the_command_names_an_experiment_that_can_be_drawn(capsys):
    assert main(["draws", "eagersgd", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    scales = {drawn.record.identity.scale for _, drawn in catalogue.sweeps("eagersgd", reference_root())}
    commands = [row["command"] for row in rows if not row["baseline_wanted"]]
    assert {command.partition("--scale ")[2].split()[0] for command in commands} == scales
    assert rows and all(row["draws"] > 0 and row["wanted"] >= row["draws"] for row in rows)
    assert main([*commands[0].split()[1:], "--dry-run"]) == 0
    assert main(["draws", "eagersgdd"]) == 2 and "eagersgd" in capsys.readouterr().err
