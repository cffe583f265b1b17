"""Errors of predictions, from published steps and from a user's own runs."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from repro.algorithms.timing.step import Step
from repro.answers.ranking import (
    answer,
    calibration,
    forms,
    own_runs,
    question,
)
from repro.answers.ranking.against import Compared
from repro.answers.ranking.arguments import Question
from repro.answers.ranking.candidates import read_candidates
from repro.core.errors import InputError
from tests.unit.answers.ranking.settings import LOAD, seconds, setting


def test_errors_are_those_of_steps_with_as_much_communication():
    light, heavy = (Step(1.0, {"computation": 1.0, "communication": load}) for load in (0.1, 1.0))
    rows = [
        Compared("a", f"source {n}", "m", 4, 1.0, "s", "ddp", 1.0, load, 1.0 + error, 1.0, 1.0, 1.0, 1.0)
        for n in range(3)
        for load, error in ((0.1, 0.0), (1.0, 0.5))
    ]
    known = calibration.Calibration(rows)
    assert known.errors_of(light).middle == 0.0 < known.errors_of(heavy).middle
    drawn = known.drawn({"ddp": light, "ps": heavy}, 64)
    assert drawn["ddp"].max() == 0.0 < drawn["ps"].max() == pytest.approx(math.log(1.5))


def test_no_fit_has_rows_of_the_predicted_source_or_of_those_kept_out():
    kept = sorted(calibration.kept_out())
    rows = [Compared("a", source, "m", 4, 1.0, "s", "ddp", 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
            for source in ("one", "two", *kept)]  # fmt: skip
    assert {row.source for row in calibration.fit_calibration(rows, without="one").rows} == {"two"}


def test_an_own_run_scales_every_prediction_and_narrows_the_intervals():
    where, known = setting(8), ["computation", "alpha"]
    run = own_runs.Run(2 * seconds("ddp", replace(where, workers=4)), read_candidates()["ddp"], 4)
    errors = calibration.committed_calibration()

    def ranked(runs):
        return {
            row.candidate.name: row
            for row in answer.rank_strategies(
                where, LOAD, known, chosen=read_candidates(), calibration=errors, runs=runs
            ).rows
        }

    without, scaled = ranked([]), ranked([run])
    for name, row in scaled.items():
        assert row.seconds == pytest.approx(2 * seconds(name, where))
    assert scaled["ddp"].high_s / scaled["ddp"].low_s < without["ddp"].high_s / without["ddp"].low_s


@pytest.mark.parametrize("gpus", [1, 4])
def test_three_own_runs_fit_the_step_the_goodput_and_what_is_added(gpus):
    """Runs with twice the usual step, three quarters of the line and a tenth more time, on 1 to 4 machines."""
    options = Question("resnet50", "10g", 32, gpus_per_node=gpus, intra=gpus and 12)
    where, _, known, _ = question.parse_question(options)
    truth = where.slower(2.0).with_entries(beta_s_per_byte=8 / 7.5e9)
    ddp = read_candidates()["ddp"]
    runs = [
        own_runs.Run(1.1 * seconds("ddp", replace(truth, workers=gpus * machines)), ddp, gpus * machines, gpus)
        for machines in (1, 2, 4)
    ]
    fitted, known = own_runs.fit_setting(where, known, runs)
    assert {"computation", "goodput"} <= set(known) and not fitted.links
    assert fitted.computation_s == pytest.approx(2 * where.computation_s, rel=0.15)
    ratios = [run.log_ratio(fitted) for run in runs]
    assert max(ratios) - min(ratios) < 0.05
    predicted = seconds("ddp", fitted) * math.exp(sum(ratios) / 3)
    assert predicted == pytest.approx(1.1 * seconds("ddp", truth), rel=0.05)


def test_a_run_in_one_machine_tells_the_computation_and_nothing_of_the_network():
    where, _, known, _ = question.parse_question(Question("resnet50", "10g", 32, gpus_per_node=4, intra=100))
    ddp = read_candidates()["ddp"]
    run = own_runs.Run(seconds("ddp", replace(where.slower(1.5), workers=4)), ddp, 4, 4)
    fitted, known = own_runs.fit_setting(where, known, [run])
    assert fitted.computation_s == pytest.approx(1.5 * where.computation_s, rel=0.05)
    assert "computation" in known and "goodput" not in known and not own_runs.added_by([run], fitted)


def test_nothing_is_added_to_a_run_of_one_worker():
    """Three runs of which those of several workers take twice as long as predicted: one worker's is the computation."""
    where, _, known, _ = question.parse_question(Question("resnet50", None, 16, goodput="5g"))
    ddp = read_candidates()["ddp"]
    runs = [
        own_runs.Run(by * seconds("ddp", replace(where, workers=workers)), ddp, workers)
        for workers, by in ((1, 1.0), (2, 1.5), (4, 1.5))
    ]
    fitted, _ = own_runs.fit_setting(where, known, runs)
    assert fitted.computation_s == pytest.approx(where.computation_s, rel=0.02)


def test_a_run_that_is_too_short_is_refused_and_a_short_one_shortens_what_is_not_computation():
    where = setting(8)
    ddp = read_candidates()["ddp"]
    least, whole = where.computation_s, seconds("ddp", where)
    for short, line in ((0.9 * least, 1e12), (1.1 * least, 1e8)):
        with pytest.raises(InputError, match="must be at least"):
            own_runs.check_runs([own_runs.Run(short, ddp, 8)], where, line)
    run = own_runs.Run((least + whole) / 2, ddp, 8)
    for name in ("ddp", "ps", "ddp_powersgd"):
        step = forms.closed_form_step(read_candidates()[name], where)
        scaled = step.seconds * math.exp(own_runs.log_added([run], step, where))
        assert scaled == pytest.approx((least + step.seconds) / 2)
