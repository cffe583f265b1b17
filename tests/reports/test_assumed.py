"""The table of assumed inputs: what draws were drawn from, with its source."""

from __future__ import annotations

from repro.answers.claims.drawn import Drawn
from repro.answers.pages.assumed import assumed_inputs
from repro.core.input_names import describe_names
from repro.records.sweep import Draw
from tests.reports.data.summaries import make
from tests.support.records import found_of


def drawn(*values, **inputs):
    """A sweep whose draws set beta and the batch to these values."""
    summary = make("D-Sync", "simulated")
    summary["testbed_model"] = summary["testbed_model"] | {"inputs": inputs}
    sets = [{"beta": {"testbed.beta_s_per_byte": beta}, "minibatch": {"batch": batch}} for beta, batch in values]
    return Drawn(found_of(summary), [Draw(number, at, {}) for number, at in enumerate(sets)])


def test_a_row_has_all_draws_of_an_input_and_where_they_come_from():
    source = {"beta": {"entries": {}, "source": "the line rate"}}
    first = drawn(*[(1e-9 * n, 32) for n in range(1, 7)], **source)
    second = drawn((9e-9, 64), **source)
    rows = assumed_inputs("pipesgd", [first, second]).set_index("input")
    beta, batch = rows.loc[describe_names()["beta"]], rows.loc[describe_names()["minibatch"]]
    assert beta["drawn"] == "1.0e-09 to 9.0e-09" and beta["source"] == "the line rate"
    assert batch["drawn"] == "32, 64" and "--config" in batch["source"]  # of the experiment, whose record has no source
    assert beta["experiments"] == first.run.identity.experiment


def test_no_draws_make_no_rows():
    assert assumed_inputs("pipesgd", []).empty
