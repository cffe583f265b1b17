"""Build the pages and the overview from results: `repro.answers.pages.build.build()`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from repro.answers import collecting
from repro.answers.pages import built, overview
from repro.answers.pages.built import Built
from repro.answers.pages.files import Files
from repro.core import config_folders, errors, safe_files
from repro.core.errors import InputError, unknown_name
from repro.core.not_none import not_none
from repro.core.paths import REPORTS, reference_root, reports_root
from repro.core.terminal import report_waiting, warn
from repro.core.worker_processes import Start, open_processes

GENERATED = {".png", ".pdf", ".csv", ".json", ".tex"}
# modules that all processes need, imported once
IMPORTED = ("repro.answers.pages.paper_page", "seaborn", "matplotlib.backends.backend_agg", "pyarrow.parquet",
            "jinja2", "markdown_it", "tabulate")  # fmt: skip


def page_names(paper: str | None = None) -> list[str]:
    """The names of all pages; InputError for a paper that has none."""
    names = [*overview.papers(), *overview.across()]
    if paper is not None and paper not in names:
        raise unknown_name("paper", paper, names)
    return names


def build(
    paper: str | None = None, results: Path | None = None, out: Path | None = None,
    say: Callable[[str], None] = lambda line: None, pdf: bool = False, meanwhile: Callable[[], None] = lambda: None,
) -> list[Path]:  # fmt: skip
    """Build the page of one paper, or all pages and the overview; returns the written files, pages first.

    results: the only results folder to read (default: workspace and reference, see `repro.records.catalogue`);
    out: the folder of the pages (`reports_root()`); say: called with a line before pages are built; pdf: figures as PDF
    too; meanwhile: called while other processes build pages. Equal results give equal bytes. Pages whose inputs have
    not changed stay as they are (`repro.answers.pages.built`); a page's outdated figures and tables are removed.
    """
    names = page_names(paper)
    if results == reference_root():  # it holds no runs of other people's papers
        names = [name for name in names if is_ours(name)]
    results, out = Path(results) if results else None, Path(out or reports_root())
    names = names if paper is None else [paper]
    pages = {name: before for name in names if (before := _unchanged(name, results, out, pdf))}
    missing = [name for name in names if name not in pages]
    if paper is None:
        with report_waiting("building the pages", say), open_processes(len(missing), IMPORTED) as start:
            pages |= _pages(missing, results, out, say, start, pdf, meanwhile)
            pages[overview.PAGE] = start(
                overview.build, {name: each.summary for name, each in pages.items()}, out, pdf
            )()
    elif missing:
        say(f"building the page of {paper} ...")
        with report_waiting(f"building the page of {paper}", say):
            pages[paper] = page(paper, results, out, pdf)
    files = [path for each in pages.values() for path in each.written()]
    for name in pages:
        _sweep([out / "figures" / name, out / "tables" / name], set(files))
    return sorted(files, key=lambda path: path.suffix != ".md")


def build_overview(out: Path) -> list[Path]:
    """Build the overview of the pages that stand in `out`, though runs may have come since; returns the written
    files."""
    names = (*overview.papers(), *overview.across())
    pages = {name: before for name in names if (before := Built.before(name, out)).stands()}
    return overview.build({name: each.summary for name, each in pages.items()}, out).written()


def _unchanged(name: str, results: Path | None, out: Path, pdf: bool = False) -> Built | None:
    """A page of an earlier build whose inputs have not changed since."""
    before = Built.before(name, out)
    return before if before.is_current(built.inputs(name, results), pdf) else None


def _pages(
    names: Sequence[str], results: Path | None, out: Path, say: Callable[[str], None], start: Start, pdf: bool = False,
    meanwhile: Callable[[], None] = lambda: None,
) -> dict[str, Built]:  # fmt: skip
    """The built pages by name. A page of somebody else's that cannot be built costs a warning."""
    pages: dict[str, Built] = {}
    if names:
        say(f"building the page{'s' if len(names) > 1 else ''} of {', '.join(names)} ...")
    papers = overview.papers()  # started last: they take about as long as one another
    work = {name: start(page, name, results, out, pdf) for name in sorted(names, key=lambda name: name in papers)}
    meanwhile()
    for name in names:
        try:
            pages[name] = work[name]()
        except InputError as error:
            if is_ours(name):
                raise
            warn(f"{error}; the page is left out")
    return pages


def is_ours(page: str) -> bool:
    """Whether a page belongs to the project, and not to somebody else's folder."""
    return config_folders.report_folder(page).parent == REPORTS


@collecting.collect_rarely()
def page(name: str, results: Path | None, out: Path, pdf: bool = False) -> Built:
    """Build a paper's page, or one across papers, in `out`; any error of somebody else's page is an InputError."""
    files, inputs = Files(name, out, pdf=pdf), built.inputs(name, results)
    try:
        if name in overview.papers():
            from repro.answers.pages import paper_page

            return files.built(inputs, *paper_page.build(name, results, files))
        return files.built(inputs, *not_none(config_folders.report_module(name)).build(results, files))
    except InputError:
        raise
    except Exception as error:  # of their template, tables or functions
        if is_ours(name):
            raise
        folder = str(config_folders.report_folder(name))
        where = errors.describe_error(error, lambda file: file.startswith(folder))
        raise InputError(f"the page of {name} cannot be built: {where}") from None


def _sweep(folders: list[Path], written: set[Path]) -> None:
    """Remove generated files of an earlier build."""
    for path in (path for folder in folders for path in sorted(folder.glob("*"))):
        if path.suffix in GENERATED and path not in written:
            try:
                safe_files.remove_safely(path)
            except OSError as error:
                raise InputError(f"{path}: an outdated figure cannot be removed ({error.strerror})") from None
