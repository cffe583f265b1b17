"""`repro run EXPERIMENT --draws [N]`, `repro draws`: sweeps over draws of assumed inputs, and what more would
decide."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from repro.cli.options import ALLOT, as_json
from repro.core.errors import NotHere
from repro.core.worker_processes import usable_cores

if TYPE_CHECKING:
    from repro.answers.claims.draws_due import DrawsOfClaim
    from repro.answers.tables.results import Results
    from repro.experiment.run import Run

SIZES = (256, 64, 16)  # numbers of draws; `allotted_draws` takes the largest whose time is within
BUDGET_S = 8 * 3600 / 5  # of all cores together: five papers in a night


@dataclass(frozen=True)
class Sweeping:
    """A planned sweep. drawn: number of draws that exist; seconds: of a draw on one core, None if unknown."""

    run: Run
    drawn: int
    seconds: float | None

    @property
    def missing(self) -> int:
        return max(0, self.run.config.draws - self.drawn)

    def row(self) -> dict[str, Any]:
        """A row of `--json`."""
        from repro.records.sweep import FILE

        names = {"experiment": self.run.experiment, "run": self.run.label, "draws": self.run.config.draws}
        return names | {"drawn": self.drawn, "seconds": self.seconds, "file": str(self.run.folder / FILE)}


def of_runs(runs: Sequence[Run], draws: int, force: bool) -> list[Sweeping]:
    """The sweeps of runs, each of this number of draws, or of `allotted_draws`."""
    from repro.launch.forecast import fill_unknown
    from repro.launch.sweeps import saved_sweep

    seconds = draw_costs(runs)
    if draws == ALLOT:
        draws = allotted_draws(sum(fill_unknown(seconds)))
    sweeps = []
    for run, cost in zip(runs, seconds, strict=True):
        run.config = run.config.model_copy(update={"draws": draws})
        existing = None if force else saved_sweep(run)
        sweeps.append(Sweeping(run, len(existing.draws) if existing else 0, cost))
    return sweeps


def allotted_draws(seconds: float) -> int:
    """The number of draws within BUDGET_S. seconds: of one draw of every run."""
    return next((size for size in SIZES if size * seconds <= BUDGET_S), SIZES[-1])


def draw_costs(runs: Sequence[Run]) -> list[float | None]:
    """Seconds of a draw of each run: as recorded, else a draw's part of the run itself, which has no start-up either,
    else of its forecast; None if unknown."""
    from repro.experiment.draws import ITERATIONS
    from repro.experiment.run import finished_like
    from repro.launch.forecast import estimate_runs
    from repro.records import catalogue, variants

    papers = dict.fromkeys(run.config.paper for run in runs)
    sweeps = [sweep for paper in papers for _, sweep in catalogue.sweeps(paper)]
    recorded = {variants.place(sweep): sweep.record.wall.get("total_s") for sweep in sweeps}
    published = finished_like(runs)
    worked = {variants.place(run): run.record.wall.get("total_s") for run in sorted(published, key=variants.recency)}
    seconds: list[float | None] = []
    for run, estimate in zip(runs, estimate_runs(runs, published), strict=True):
        part = min(1.0, ITERATIONS / run.iterations) if run.iterations else 1.0
        whole = worked.get(place := variants.place(run.config)) or estimate.seconds
        seconds.append(recorded.get(place) or (whole and whole * part))
    return seconds


def format_sweeps(sweeps: Sequence[Sweeping], what: str) -> str:
    """`pipedream: 12 variants x 16 draws, 3 variants done; the others take about 4 min`"""
    from repro.launch.progress import format_duration

    done = sum(not sweep.missing for sweep in sweeps)
    draws = max((sweep.run.config.draws for sweep in sweeps), default=0)
    counts = f"{what}: {len(sweeps)} variants x {draws} draws, {done} variants done"
    seconds = seconds_left(sweeps)
    return f"{counts}; the others take about {format_duration(seconds)}" if 0 < seconds < math.inf else counts


def seconds_left(sweeps: Sequence[Sweeping]) -> float:
    """Seconds of all cores for the missing draws; infinite if the time of none is known."""
    from repro.launch.forecast import fill_unknown, side_by_side

    todo = [sweeping for sweeping in sweeps if sweeping.missing]
    if todo and all(sweeping.seconds is None for sweeping in todo):
        return math.inf
    costs = fill_unknown([sweeping.seconds for sweeping in todo])
    times = [cost * sweeping.missing for cost, sweeping in zip(costs, todo, strict=True)]
    return side_by_side(times, 1) / usable_cores()


def time_deciding_runs(runs: Sequence[Run], paper: str) -> list[Run]:
    """The runs that decide a claim about a time; all runs of a paper without claims. Draws affect only times."""
    from repro.answers.tables.results import speaks_of_time

    if (is_timed := speaks_of_time(paper)) is None:
        return list(runs)
    kept = [run for run in runs if is_timed(run.config.identity)]
    for name in dict.fromkeys(run.experiment for run in runs if run not in kept):
        print(f"left out {name}: no claim about a time needs it", file=sys.stderr)
    return kept


def run_draws(args: argparse.Namespace, runs: Sequence[Run]) -> None:
    """Execute the missing draws; with --dry-run print their number and time."""
    from repro.experiment.config import paper_of
    from repro.launch.sweeps import run_sweeps

    paper = paper_of(args.experiment)
    if args.experiment == paper and not (runs := time_deciding_runs(runs, paper)):
        raise NotHere(f"--draws: no claim about a time needs an experiment of {paper}")
    sweeps = of_runs(runs, args.draws, args.force)
    print(format_sweeps(sweeps, args.experiment), file=sys.stderr)
    if not args.dry_run:
        run_sweeps(runs, args.force)
        sweeps = of_runs(runs, sweeps[0].run.config.draws, force=False)
    if args.json:
        print(json.dumps([sweep.row() for sweep in sweeps], indent=1))


def add_commands(commands: Any) -> None:
    text = "list the draws behind the headlines: how many, whether they decide, and what the next would cost"
    draws = commands.add_parser("draws", help=text)
    draws.add_argument("paper", nargs="?", help="a paper (default: all)")
    draws.add_argument("--run", action="store_true", help="make the missing draws, the cheapest first")
    as_json(draws)
    draws.set_defaults(command=cmd_draws, resumes=True)


def cmd_draws(args: argparse.Namespace) -> None:
    from repro.answers.pages.overview import papers
    from repro.core.errors import unknown_name

    known = papers()
    if args.paper and args.paper not in known:
        raise unknown_name("paper", args.paper, known)
    chosen = [args.paper] if args.paper else list(known)
    if args.run:
        make_due_draws(chosen)
    headlines = [row for paper in chosen for row in rows_of_headlines(paper)]
    headlines.sort(key=lambda row: math.inf if row["seconds"] is None else row["seconds"])
    if args.json:
        print(json.dumps(headlines, indent=1))
    elif headlines:
        print(text_of(headlines))


def make_due_draws(papers: Sequence[str]) -> None:
    """Make the draws that the headlines of these papers lack, an experiment at a time, the cheapest first."""
    from repro.launch.sweeps import run_sweeps

    due = [sweeps for paper in papers for sweeps in due_sweeps(paper)]
    for sweeps in sorted(due, key=seconds_left):
        print(format_sweeps(sweeps, sweeps[0].run.experiment), file=sys.stderr)
        run_sweeps([sweeping.run for sweeping in sweeps])


def due_sweeps(paper: str) -> list[list[Sweeping]]:
    """The sweeps that lack draws which a headline asks for, by experiment; each continues its published one."""
    from repro.answers.claims.draws_due import wanted_draws
    from repro.experiment.config import experiment_names
    from repro.experiment.files import own_files
    from repro.launch.plan import plan_runs
    from repro.launch.pool import Pools
    from repro.launch.sweeps import continue_published
    from repro.records import catalogue, variants

    wanted = wanted_draws(draws_of_paper(paper)[1])
    due = [each for _, each in catalogue.sweeps(paper) if each.key in wanted]
    numbers = {variants.place(each): wanted[each.key] for each in due}
    runs: dict[int, list[Run]] = {}  # number of draws -> runs
    for scale in sorted({each.identity.scale for each in due}):
        experiments = {each.identity.experiment for each in due if each.identity.scale == scale}
        files = own_files(experiment_names(paper, scale))
        names = [name for name, file in files.items() if file.get("experiment") in experiments]
        with Pools(fresh=True) as pools:
            planned = plan_runs(names, [], scale, max(numbers.values()), pools, fetch=False, together=True).runs
        for run in planned:
            if number := numbers.get(variants.place(run.config)):
                runs.setdefault(number, []).append(run)
    continue_published(run for several in runs.values() for run in several)
    by_experiment: dict[str, list[Sweeping]] = {}
    for number, several in runs.items():
        for sweeping in of_runs(several, number, force=False):
            by_experiment.setdefault(sweeping.run.experiment, []).append(sweeping)
    return [sweeps for sweeps in by_experiment.values() if any(sweeping.missing for sweeping in sweeps)]


def draws_of_paper(paper: str) -> tuple[Results, list[DrawsOfClaim]]:
    """A paper's results, and the draws behind each of its headlines."""
    from repro.answers.claims.decisive import choose_verdict, group_by_claim
    from repro.answers.claims.draws_due import draws_of_headlines
    from repro.answers.tables import results

    read = results.read(paper, None)
    decisive = [choose_verdict(kinds) for kinds in group_by_claim(read.verdicts).values()]
    return read, list(draws_of_headlines(read, decisive))


def rows_of_headlines(paper: str) -> list[dict[str, Any]]:
    """A row for each headline of a paper that rests on draws.

    baseline_wanted: draws of its baseline's sides alone, 0 if they need none. seconds: of one core for the missing
    draws of the sides that it reads; the command may draw others too.
    """
    from repro.answers.tables.results import run_argument

    read, headlines = draws_of_paper(paper)
    return [
        {
            "paper": paper, "claim": due.verdict.claim.id, "verdict": due.verdict.verdict.words, "draws": due.draws,
            "undecided": due.undecided, "wanted": due.wanted, "baseline_wanted": due.wanted_of_baseline,
            "seconds": None if math.isnan(due.seconds) else due.seconds,
            "command": f"repro draws {paper} --run" if due.wanted_of_baseline else
            f"repro run {run_argument(paper, due.verdict.claim, read.experiments)} --scale {due.scale} "
            f"--draws {due.wanted}",
        }
        for due in headlines
    ]  # fmt: skip


def text_of(headlines: list[dict[str, Any]]) -> str:
    """A line a headline, those that cost least first; the command where more draws are wanted."""
    from repro.launch.progress import format_duration

    lines = []
    for row in headlines:
        more = [f"{row['wanted']}"] if row["wanted"] > row["draws"] else []
        more += [f"{row['baseline_wanted']} of the baseline"] if row["baseline_wanted"] else []
        cost = "unknown" if row["seconds"] is None else format_duration(row["seconds"])
        lines.append(
            [
                f"{row['paper']} {row['claim']}", row["verdict"], f"{row['draws']} draws",
                "undecided" if row["undecided"] else "decided",
                f"{' and '.join(more)} take {cost}" if more else "", row["command"] if more else "",
            ]
        )  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
