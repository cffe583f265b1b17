"""Gather the site's sources in one folder: the built pages with their figures at the top, the documentation in `docs/`.

Only files that differ are copied, so that Sphinx sees what has changed.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

ROOT, GUIDE = "index", "docs/README"  # the overview; the list of the documentation's pages
README = "README.md"
BESIDE = ("*.md", "*.cff", "LICENSE")  # files of the checkout that the documentation links to
FILES = ("figures", "tables")  # folders of a page's files
NO_OVERVIEW = (  # for a folder without one: the sections that other pages link to
    "# Reproductions\n\n`repro report` builds the overview and the pages.\n\n"
    "## Legend\n\nThe legend of all pages stands on the overview.\n\n"
    "## Accuracy\n\nSo do the claims about accuracy that are decided.\n\n"
    "## What could not be tried\n\nSo does how hours and dollars are counted.\n"
)

Contents = dict[str, list[tuple[str, list[str]]]]


def gather_sources(pages: Path, checkout: Path, source: Path, site: Path) -> Contents:
    """Update the folder `source`, and remove what is outdated there, with its HTML in `site`; returns
    `site_contents`."""
    wanted = dict(_built(pages)) | dict(_documentation(checkout))
    wanted.setdefault(f"{ROOT}.md", NO_OVERVIEW.encode())
    for old in [path for path in source.rglob("*") if path.is_file()]:
        if (name := old.relative_to(source).as_posix()) not in wanted:
            old.unlink()
            if old.suffix == ".md":
                (site / name).with_suffix(".html").unlink(missing_ok=True)
    for name, content in wanted.items():
        path = source / name
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    documents = {name.removesuffix(".md"): content.decode() for name, content in wanted.items() if name.endswith(".md")}
    built = {page.stem for page in pages.glob("*.md")} | {ROOT}
    return site_contents(documents, built)


def _built(pages: Path) -> Iterator[tuple[str, bytes]]:
    """The built pages with the files of figures and tables. Links to the documentation lead to it from the top."""
    for page in sorted(pages.glob("*.md")):
        yield page.name, page.read_bytes().replace(b"](../../docs/", b"](docs/")
    for folder in FILES:
        for path in sorted((pages / folder).rglob("*")):
            if path.is_file():
                yield path.relative_to(pages).as_posix(), path.read_bytes()


def _documentation(checkout: Path) -> Iterator[tuple[str, bytes]]:
    """The documentation; nothing without `docs/`. Its links to committed pages lead to the built ones, those to the
    README to the overview, which has the same content."""
    if not (checkout / f"{GUIDE}.md").is_file():
        return
    beside = (path for name in BESIDE for path in checkout.glob(name) if path.name != README)
    for path in [*sorted(checkout.glob("docs/*.md")), *beside]:
        text = re.sub(r"(\]\((?:\.\./)*)reports/out/", r"\1", path.read_text(encoding="utf-8"))
        text = re.sub(r"^<!-- .* -->\n", "", text, flags=re.MULTILINE)  # marks of `repro verify --write`
        text = re.sub(rf"(\]\((?:\.\./)+){README}", rf"\1{ROOT}.md", text)
        yield path.relative_to(checkout).as_posix(), text.encode()


def site_contents(documents: dict[str, str], built: set[str]) -> Contents:
    """Document -> (caption, documents below it): pages in the overview's order, documentation in the order of its list.

    `<paper>-claims` and similar pages are below `<paper>`; documents without a link to them come last.
    """
    below: Contents = {}
    children = {name: parent for name in built if (parent := name.rpartition("-")[0]) in built}
    for name, parent in sorted(children.items()):
        below.setdefault(parent, [("", [])])[0][1].append(name)
    results = [name for name in _linked(ROOT, documents) if name in built] + sorted(built - {ROOT})
    below[ROOT] = [("Results", [name for name in dict.fromkeys(results) if name not in children])]
    if GUIDE in documents:
        others = [GUIDE, *_linked(GUIDE, documents), *sorted(documents)]
        below[ROOT].append(("Documentation", [name for name in dict.fromkeys(others) if name not in built]))
    return below


def _linked(document: str, documents: dict[str, str]) -> list[str]:
    """The documents that one links to, in order."""
    from markdown_it import MarkdownIt

    targets = []
    for block in MarkdownIt("commonmark").enable("table").parse(documents[document]):
        for token in block.children or ():
            name = str(token.attrGet("href") or "").partition("#")[0].removesuffix(".md")
            target = posixpath.normpath(posixpath.join(posixpath.dirname(document), name))
            if target in documents and target != document:
                targets.append(target)
    return list(dict.fromkeys(targets))
