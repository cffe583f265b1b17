"""Closed forms beside simulations in random settings."""

from __future__ import annotations

import pytest

from repro.algorithms.timing.step import Step
from repro.answers.ranking import form_checks, forms, simulate
from repro.answers.ranking.candidates import read_candidates
from repro.answers.ranking.form_errors import CASES, WITHIN, Checked, FormError


@pytest.mark.parametrize("name", ["ddp", "ddp_two_levels", "ddp_accumulate", "ddp_powersgd", "diloco", "gtopk"])
def test_a_form_is_as_its_simulation_in_random_settings(name):
    rows = form_checks.check_form(read_candidates()[name], 4)
    assert len(rows) == 4 and all(abs(row.off) < WITHIN for row in rows)


@pytest.mark.parametrize("cycle_ms", [0.0, 1.0])
def test_horovod_s_thread_sums_what_is_ready_as_its_form_does(cycle_ms):
    """Cases 6 and 62 have steps of a few cycles; in case 7 every second step is longer."""
    horovod = read_candidates()["horovod"].model_copy(update={"options": {"cycle_ms": cycle_ms, "fusion_mb": 64}})
    for case in (0, 1, 6, 7, 62):
        where = form_checks.random_setting(horovod, case)
        form, simulated = forms.closed_form_step(horovod, where), simulate.simulate_step(horovod, where)
        assert form.seconds == pytest.approx(simulated.seconds, rel=1e-3)


def test_activations_and_gradients_share_a_stage_s_network_card():
    """Cases 4 and 25 have few stages and transfers that take as long as passes or longer."""
    pipeline = read_candidates()["one_f_one_b_flush"]
    for case in (4, 25):
        where = form_checks.random_setting(pipeline, case)
        form, simulated = forms.closed_form_step(pipeline, where), simulate.simulate_step(pipeline, where)
        assert form.seconds == pytest.approx(simulated.seconds, rel=1e-3)


@pytest.mark.parametrize("name", ["gpipe", "one_f_one_b_flush"])
@pytest.mark.parametrize("flush", [3, 8])
def test_a_flush_of_any_number_of_minibatches_has_its_bubble(name, flush):
    """Also one of more or fewer than a minibatch a worker: torchgpipe's published runs have 4 with 2 workers."""
    pipeline = read_candidates()[name]
    pipeline = pipeline.model_copy(update={"options": pipeline.options | {"flush": flush}})
    where = form_checks.random_setting(pipeline, 3)
    assert where.workers == 4
    form, simulated = forms.closed_form_step(pipeline, where), simulate.simulate_step(pipeline, where)
    assert form.seconds == pytest.approx(simulated.seconds, rel=1e-3)


def test_a_form_must_be_near_its_simulation_in_nineteen_of_twenty_settings():
    def error(far, cases):
        return FormError.of([Checked("ddp", case, 4, 1.0 + 0.06 * (case < far), 1.0) for case in range(cases)])

    assert error(10, CASES).good and not error(11, CASES).good
    assert error(1, 93).good and not error(1, 92).good, "fewer settings must leave less doubt"


@pytest.mark.parametrize(("form_s", "cases"), [(2.0, 11), (1.0, 59)])
def test_a_check_ends_where_it_is_decided_whether_a_form_is_good_enough(monkeypatch, form_s, cases):
    monkeypatch.setattr(form_checks.forms, "closed_form_step", lambda one, where: Step(form_s, {}))
    monkeypatch.setattr(form_checks.simulate, "simulate_step", lambda one, where: Step(1.0, {}))
    rows = form_checks.check_form(read_candidates()["ddp"], 200)
    assert len(rows) == cases and FormError.of(rows).good == (form_s == 1.0) and not FormError.of(rows[:-1]).good


def test_settings_differ_and_have_two_to_32_ranks():
    settings = [form_checks.random_setting(read_candidates()["ddp"], case) for case in range(40)]
    workers = [where.workers for where in settings]
    assert 2 <= min(workers) < 5 and 25 < max(workers) <= form_checks.RANKS
    assert len({where.testbed.beta_s_per_byte for where in settings}) == len(settings)
