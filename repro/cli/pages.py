"""`repro report`: build the pages from results alone, and a site."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.cli.options import as_json
from repro.core.paths import RECORD_FILE
from repro.core.terminal import print_progress

if TYPE_CHECKING:
    from repro.answers.site.build import Site
    from repro.answers.tables.results import Results


PAGES_S = "pages_s"  # kind of cached value: seconds


def add_commands(commands: Any) -> None:
    report = commands.add_parser("report", help="build the pages from results, and a site of pages and docs/")
    report.add_argument("paper", nargs="?", help="build one paper's page (default: all pages)")
    report.add_argument("--out", type=Path, help="folder (default: $REPRO_REPORTS, else pages/ of the results folder)")
    report.add_argument("--pdf", action="store_true", help="figures as PDF too")
    as_json(report)
    report.set_defaults(command=cmd_report)


def cmd_report(args: argparse.Namespace) -> None:
    from repro.answers.pages.build import build, build_overview, page_names
    from repro.answers.site.build import import_modules
    from repro.core.paths import reports_root
    from repro.core.user_files import check_target_folder, make_target_folder

    page_names(args.paper)
    out = (args.out or reports_root()).resolve()
    target = "--out" if args.out else "$REPRO_REPORTS", args.out or out
    check_target_folder(*target)
    if args.paper:
        check_page(args.paper)
    make_target_folder(*target)
    written = build(args.paper, out=out, say=print_progress, pdf=args.pdf, meanwhile=import_modules)
    if args.paper:
        written += build_overview(out)
    site = build_site(out)
    opened = [site.index, *([site.page(args.paper)] if args.paper else [])]
    if args.json:
        print(json.dumps([str(path) for path in (*opened, *written)]))
    else:
        print(*opened, sep="\n")


def check_page(paper: str) -> None:
    """InputError for claims, figures and printed numbers of a page that cannot be read, and for claims of experiments
    or variants that do not exist, before the runs that they are about."""
    from repro.answers.claims.evidence import claims_path
    from repro.answers.figures import specification
    from repro.answers.pages.build import is_ours
    from repro.answers.tables.results import arrange
    from repro.core.config_folders import find_config, report_folder
    from repro.records.paper_numbers import read_numbers

    if (figures := report_folder(paper) / "figures.yaml").is_file():
        specification.read(figures)
    if find_config("reference", f"{paper}.csv").is_file():
        read_numbers(paper)
    if claims_path(paper).is_file():
        results = arrange(paper, ())
        if not is_ours(paper):  # it takes seconds
            check_variants(results)


def check_variants(results: Results) -> None:
    """InputError for a claim on a variant that its experiment neither has nor had in a run."""
    from repro.answers.claims.evidence import claims_path
    from repro.core.errors import InputError, unknown_name
    from repro.core.not_none import not_none
    from repro.experiment.config import compose, experiment_names, read_axes
    from repro.records import catalogue

    if any(each.named for each in results.experiments.values()):  # the page has other names than the runs
        return
    paper = results.paper
    known: dict[str, set[str]] = {}
    names, runs = set(experiment_names()), catalogue.runs(paper)
    on_runs = [each for each in results.file.claims if each.value and each.value.table == "runs"]
    for claim, where in ((each, where) for each in on_runs for _, where in not_none(each.value).sides):
        experiment, variant = str(where.get("experiment", claim.experiment)), where.get("variant")
        if not variant or f"{paper}/{experiment}" not in names:
            continue
        if experiment not in known:
            ran = {run.label for run in runs if run.identity.experiment == experiment}
            variants, _ = read_axes(compose(f"{paper}/{experiment}"), ())
            known[experiment] = ran | {each.label for each in variants}
        for each in variant if isinstance(variant, list) else [variant]:
            if str(each) not in known[experiment]:
                wrong = unknown_name(f"variant of {experiment}", str(each), known[experiment])
                raise InputError(f"{claims_path(paper)}: claim {claim.id}: {wrong}")


def answer_claims(ran: str, keys: Collection[str]) -> str:
    """The headline claims as text, answered by the command's own runs or draws, which have these keys: all of a paper
    or experiment, and those that they answer besides; "" without any. It takes seconds, the pages a minute."""
    from repro.core import user_cache
    from repro.experiment.config import paper_of

    key, paper = [ran, sorted(keys), *page_inputs()], paper_of(ran)
    text: str | None = user_cache.load_cached("claims", key)
    if text is None:
        from repro.answers.pages import overview
        from repro.cli.headlines import format_headlines, judge_headlines

        print_progress("judging the claims ...")
        has_claims = paper in overview.papers()
        text = format_headlines(judge_headlines(paper, keys, ran)) if has_claims else ""
        user_cache.save_cached("claims", key, text)
    return text


def build_pages(paper: str) -> dict[str, str] | None:
    """Build the pages whose inputs have changed, as the overview shows every paper, and the site; of somebody else's
    paper its own page alone, beside those that are built.

    Returns the paths `page` and `index`; None if the paper has no page.
    """
    from repro.core import user_cache
    from repro.core.paths import reports_root

    out = reports_root()
    key = [paper, str(out), *page_inputs()]
    cached: dict[str, str] | None = user_cache.load_cached("page", key)
    if cached and all(Path(path).is_file() for path in cached.values()):
        return cached
    from repro.answers.pages import overview
    from repro.answers.pages.build import build, build_overview, is_ours

    if paper not in {**overview.papers(), **overview.across()}:
        return None
    started, like = time.monotonic(), pages_built(paper)
    if is_ours(paper):
        build(say=print_progress)
    else:
        build(paper, say=print_progress)
        build_overview(out)
    site = build_site(out)
    made = {"page": str(site.page(paper)), "index": str(site.index)}
    user_cache.save_cached("page", key, made)
    user_cache.save_cached(PAGES_S, like, time.monotonic() - started)
    return made


def pages_built(paper: str) -> list[bool]:
    """What the time of `build_pages` depends on: whether all of the project's pages are built, and whether some are."""
    from repro.core.config_folders import report_folder
    from repro.core.paths import REPORTS, reports_root

    return [report_folder(paper).parent == REPORTS, reports_root().is_dir()]


def pages_time(paper: str) -> str:
    """`, then 2 min for the pages`, as it took last on this machine."""
    from repro.core import user_cache
    from repro.launch.progress import format_duration

    seconds = user_cache.load_cached(PAGES_S, pages_built(paper))
    return f", then {format_duration(seconds) if seconds else 'minutes'} for the pages"


def page_inputs() -> list[Any]:
    """What pages and verdicts depend on: runs, code, documentation, and the user's folders of configurations."""
    from repro.core import config_folders, user_cache
    from repro.core.paths import PACKAGE, PROJECT, reference_root, results_root
    from repro.records import sweep

    results = (RECORD_FILE, sweep.FILE, ".parquet", "manifest.json")
    runs = user_cache.tree_digest([results_root(), reference_root()], results)
    code = user_cache.tree_digest([PACKAGE, PROJECT / "docs"], without=["out"])
    return [runs, code, config_folders.folders_state()]


def build_site(out: Path) -> Site:
    """Build the site of the pages in `out`, and print its warnings."""
    from repro.answers.site.build import build_html_site

    print_progress("building the site ...")
    site = build_html_site(out)
    for warning in site.warnings:
        print_progress(f"the site: {warning}")
    return site
