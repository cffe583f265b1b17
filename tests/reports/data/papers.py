"""How a paper's claims are judged in tests, the same for the papers whose pages are built alike."""

from __future__ import annotations

from importlib import import_module

from repro.reports.claims import read_claims

from repro.reports import verdicts


class Judge:
    """The claims of a paper by their ids, and what its page makes of summaries."""

    def __init__(self, paper):
        self.claims = {claim.id: claim for claim in read_claims(paper).claims}
        self.results = import_module(f"repro.reports.{paper}.results")

    def gathered(self, summaries):
        train = [summary for summary in summaries if summary["program"] == "train"]
        return self.results.gather(train, [summary for summary in summaries if summary["program"] != "train"])

    def __call__(self, name, summaries, kind="simulated"):
        claim = self.claims[name]
        return verdicts.judge(claim, kind, self.results.finder(self.gathered(summaries))(claim.experiment, kind))
