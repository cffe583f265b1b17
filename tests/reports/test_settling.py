"""What would settle a headline: its line has the price, its command can be planned, and a wrong entry is one line."""

from __future__ import annotations

import pytest

from repro.answers.claims.claims import Settles
from repro.answers.claims.evidence import claims_of
from repro.answers.pages import settling
from repro.answers.pages.overview import papers
from repro.cli.main import main
from repro.core.errors import InputError
from tests.support.configs import first_variant_alone

ENTRIES = [entry for paper in papers() for entry in claims_of(paper).settles]
ENTRY = {"claims": ["speedup-vs-dsync"], "what": "w", "machine": "cpu", "count": 5, "hours": 2, "command": "repro list"}


@pytest.mark.parametrize("command", sorted({entry.command for entry in ENTRIES}))
def test_the_command_of_a_measurement_can_be_planned(command, capsys, monkeypatch):
    first_variant_alone(monkeypatch)  # all of an experiment are planned in tests/unit/experiment/test_compositions.py
    program, *arguments = command.split()
    assert program == "repro" and main([*arguments, "--dry-run"]) == 0


def test_a_line_names_the_claims_that_are_not_settled_and_the_list_price():
    file = claims_of("pipesgd").model_copy(update={"settles": [Settles.model_validate(ENTRY)]})
    (line,) = settling.lines(file, ["speedup-vs-dsync"], {"speedup-vs-dsync": 2})
    dollars = 5 * 2 * settling.MACHINES["cpu"].dollars
    assert line.startswith("**C2**") and f"${round(dollars)}" in line and "`repro list`" in line
    assert settling.lines(file, [], {}) == []


@pytest.mark.parametrize(
    ("change", "says"), [({"machine": "tpu"}, "machine 'tpu'"), ({"claims": ["no"]}, "claim 'no'")]
)
def test_a_measurement_of_what_there_is_not_is_one_line(change, says):
    file = claims_of("pipesgd").model_copy(update={"settles": [Settles.model_validate(ENTRY | change)]})
    with pytest.raises(InputError, match=says) as error:
        settling.check(file)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("paper", papers())
def test_measurements_are_of_claims_and_machines_that_there_are(paper):
    settling.check(claims_of(paper))
