"""What a paper is known for, as a job says it at its end."""

from repro.commands import claims


def test_each_claim_stands_beside_the_paper_s_number_and_ours_with_where_they_are_from(monkeypatch, tmp_path):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    known = claims.headlines("ibatch")
    found = claims.rows(known)
    assert {row["claim"] for row in found} == {of[0].claim.text for of in known}
    assert {row["from"] for row in found if row["kind"] == "simulated"} == {"reference"}
    lines = claims.text(found).splitlines()
    assert lines[0] == found[0]["claim"] and lines[1].split() == ["paper", *found[0]["paper"].split()]
    assert lines[2].split()[0] == found[0]["kind"] and found[0]["ours"] in lines[2] and found[0]["verdict"] in lines[2]


def test_of_what_has_no_claims_nothing_is_said():
    assert claims.headlines("validation") == [] and claims.text([]) == ""
