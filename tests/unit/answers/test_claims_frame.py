"""`repro.claims`: what it shows while it judges."""

import repro
from repro.answers.claims import published_verdicts


def test_judging_several_papers_shows_how_many_are_done_and_one_shows_nothing(monkeypatch, capsys):
    monkeypatch.setattr(published_verdicts, "judge_claims", lambda paper, results: [])
    assert repro.claims("pipesgd").empty
    assert capsys.readouterr() == ("", "")
    assert repro.claims().empty
    out, err = capsys.readouterr()
    assert not out and "0/5" in err
