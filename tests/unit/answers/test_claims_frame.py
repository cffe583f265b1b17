"""`repro.claims`: what it shows while it judges."""

import repro
from repro.answers.tables.results import Results


def test_a_bar_shows_how_many_claims_are_judged(monkeypatch, capsys):
    monkeypatch.setattr(Results, "judge", lambda self, claims: [*claims][:0])
    assert repro.claims("ibatch").empty
    out, err = capsys.readouterr()
    assert not out and "judging the claims of ibatch" in err and "claim/s" in err
