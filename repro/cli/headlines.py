"""A paper's headline claims on a terminal: the user's answer beside the committed one, or the command that makes it."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from repro.answers.claims.claims import Claim
from repro.answers.claims.decisive import choose_verdict, group_by_claim
from repro.answers.claims.evaluate import ClaimVerdict
from repro.answers.claims.evidence import runs_read
from repro.answers.claims.verdict import NOT_JUDGED, NOT_RUN
from repro.answers.pages import wording
from repro.answers.tables import results
from repro.answers.tables.results import Results, run_argument
from repro.core.errors import some_of
from repro.core.paths import reference_root
from repro.core.terminal import one_line
from repro.core.worker_processes import usable_cores
from repro.launch.forecast import run_duration, side_by_side
from repro.launch.progress import format_duration
from repro.records.kinds import KINDS, SIMULATED
from repro.records.variants import WORKSPACE

LINES = 12  # maximum number of claims on a terminal


@dataclass(frozen=True)
class Headline:
    """A headline claim. mine: the verdict that decides by runs of the workspace alone; where none is judged, all that
    there are; committed: of the same kind of number, if there is one, else the one that decides; command: makes the
    runs that the committed answer rests on, or those of the claim's experiment; seconds: what the committed ones took,
    if known; lacking: what no run of the user's experiment has, if there are runs."""

    claim: Claim
    mine: Sequence[ClaimVerdict]
    committed: ClaimVerdict
    command: str
    seconds: float | None
    lacking: str = ""


def judge_headlines(paper: str, keys: Container[str] | None = None, ran: str | None = None) -> list[Headline]:
    """A paper's headline claims: first those with an answer of the user's.

    keys: of the user's runs and draws that answer; None: all. ran: an experiment; without an answer only its claims.
    """
    own_alone = results.read_workspace(paper, keys, with_committed=False)
    claims = [each for each in own_alone.file.claims if each.headline]
    kinds_of = {claim.id: {kind for kind in KINDS if reads_own(own_alone, claim, kind, keys)} for claim in claims}
    if ran in (None, paper):
        asked = claims
    else:
        asked = [claim for claim in claims if run_argument(paper, claim, own_alone.experiments) == ran]
    if not (asked or any(kinds_of.values())):
        return []
    mine = results.read_workspace(paper, keys)
    judged = mine.judge(claim for claim in claims if kinds_of[claim.id])
    own = group_by_claim([each for each in judged if wording.is_own(each) and each.kind in kinds_of[each.claim.id]])
    if not (shown := [claim for claim in claims if claim in asked or claim.id in own]):
        return []
    committed = results.read(paper, reference_root())
    headlines = [
        headline_of(committed, kinds, own.get(claim, ()), mine)
        for claim, kinds in group_by_claim(committed.judge(shown)).items()
    ]
    return sorted(headlines, key=lambda headline: (not headline.mine, not headline.committed.verdict.judged))


def reads_own(mine: Results, claim: Claim, kind: str, keys: Container[str] | None) -> bool:
    """Whether a number of a claim is from the user's runs or draws with these keys, and not from other draws alone."""
    if claim.value is None or (group := mine.evaluator.runs_for(claim, kind)) is None:
        return False
    read = (run.record.key for run in runs_read(claim, group) if run.origin == WORKSPACE)
    return any(keys is None or key in keys for key in read)


def headline_of(
    committed: Results, kinds: Sequence[ClaimVerdict], mine: Sequence[ClaimVerdict], workspace: Results
) -> Headline:
    """One claim; kinds, mine: its verdicts by the committed runs and by the user's, one a kind of number; workspace:
    the user's runs."""
    decisive, claim = choose_verdict(kinds), kinds[0].claim
    if mine and (mine_decisive := choose_verdict(mine)).verdict.judged:
        mine = [mine_decisive]
        decisive = next((each for each in kinds if each.kind == mine_decisive.kind and each.estimate), decisive)
    command = f"repro run {run_argument(committed.paper, claim, committed.experiments)}"
    if not (group := committed.find(claim.experiment, decisive.kind)) or not (read := runs_read(claim, group)):
        return Headline(claim, mine, decisive, command, None, find_lacking(workspace, claim))
    scale, experiments = read[-1].identity.scale, {run.identity.experiment for run in read}
    runs = committed.runs.records.values()
    beside = [run for run in runs if run.identity.experiment in experiments and run.identity.scale == scale]
    times: dict[bool, list[float]] = {True: [], False: []}
    for run in beside:
        if duration := run_duration(run.record):
            times[run.kind == SIMULATED].append(duration.seconds)
    seconds = sum(times[False]) + side_by_side(times[True], usable_cores())
    command += f" --scale {scale}"
    return Headline(claim, mine, decisive, command, seconds or None)


def find_lacking(workspace: Results, claim: Claim) -> str:
    """`no run of table1 has variant Compressed; variants: SGD, 8 bits`: the first rows that a claim chooses and no run
    of its experiment has; "" if there are no runs."""
    groups = [runs for kind in KINDS if (runs := workspace.evaluator.runs_for(claim, kind))]
    if not groups or claim.value is None:
        return ""
    for _, where in claim.value.sides:
        if not any(group.matching(claim.value.table, where) for group in groups):
            wanted = ", ".join(f"{name} {value}" for name, value in where.items())
            variants = dict.fromkeys(run.label for group in groups for run in group.records.values())
            return f"no run of {claim.experiment} has {wanted}; variants: {some_of([*variants], LINES)}"
    return ""


def format_headlines(headlines: Sequence[Headline]) -> str:
    """Three lines a claim, of at most `LINES` claims, and the number of further ones."""
    shown = headlines[: LINES - (len(headlines) > LINES)]
    texts = [
        "\n".join(
            [
                f"{headline.claim.text}; paper {headline.claim.paper.shown}",
                f"  yours      {'; '.join(map(format_answer, headline.mine)) or format_command(headline)}",
                f"  committed  {format_answer(headline.committed)}",
            ]
        )
        for headline in shown
    ]
    more = [f"and {len(headlines) - len(shown)} more on the page"] if len(shown) < len(headlines) else []
    return "\n".join([*texts, *more])


def format_answer(judged: ClaimVerdict) -> str:
    """`same direction: 2.35× (1.32 to 3.07), emulated`, with the reason where there is one."""
    number = f": {wording.ours(judged)}, {judged.kind}" if judged.estimate else ""
    reason = f" ({one_line(judged.verdict.reason)})" if judged.verdict.reason else ""
    answer = NOT_JUDGED if judged.verdict.answer == NOT_RUN and number else judged.verdict.answer
    return f"{answer}{number}{reason}"


def format_command(headline: Headline) -> str:
    """`none; repro run pipesgd/fig4-mnist --scale full takes about 4 min`"""
    if headline.claim.value is None:
        return "none; no run here answers it"
    if headline.lacking:
        return f"none: {headline.lacking}"
    took = "an unknown time" if headline.seconds is None else f"about {format_duration(headline.seconds)}"
    return f"none; {headline.command} takes {took}"
