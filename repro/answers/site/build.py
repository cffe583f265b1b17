"""Build the HTML site of pages and documentation with Sphinx: `build_html_site` makes `<pages>/site/index.html`."""

from __future__ import annotations

import hashlib
import io
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from repro.answers import collecting
from repro.answers.site import sources
from repro.core import locks
from repro.core.errors import InputError, cannot_access
from repro.core.paths import PROJECT

WAIT_S = 120.0  # for another build of the same folder
PORTIONS = 2  # of the documents for each core, so that the cores finish together
IMPORTED = ("repro.answers.site.extension", "sphinx.builders.html", "sphinx.ext.mathjax", "furo", "pygments.formatters")
STATIC = Path(__file__).parent / "static"
SETTINGS: Mapping[str, Any] = {
    "project": "Reproductions",
    "extensions": ["repro.answers.site.extension"],
    "root_doc": sources.ROOT,
    "html_theme": "furo",
    "html_title": "Reproductions of distributed training",
    "html_static_path": [str(STATIC)],
    "html_css_files": ["site.css"],
    "html_js_files": ["claims.js"],
    # not needed on read-only pages; search previews would have to be fetched, which browsers forbid for files
    "html_copy_source": False,
    "html_show_copyright": False,
    "html_show_sourcelink": False,
    "html_show_search_summary": False,
    "html_use_index": False,
    "html_domain_indices": False,
    # anchors of headings as on GitHub
    "myst_heading_anchors": 4,
    "smartquotes": False,
    "suppress_warnings": ["misc.highlighting_failure"],  # Mermaid is shown as source
}


@dataclass(frozen=True)
class Site:
    """index: the page to open; warnings: Sphinx's, a line each."""

    index: Path
    warnings: list[str]

    def page(self, name: str) -> Path:
        """The HTML of `<name>.md`."""
        return self.index.parent / f"{name}.html"


def import_modules() -> None:
    """Import the modules that a build needs, which takes a second."""
    for name in IMPORTED:
        import_module(name)


@collecting.collect_rarely()
def build_html_site(pages: Path, checkout: Path = PROJECT) -> Site:
    """Build the site of the Markdown pages in `pages` and of the checkout's documentation in `pages`/site.

    Only changed documents are read and written again. A second build of the same folder waits for the first.
    InputError if the site cannot be written.
    """
    from sphinx.application import Sphinx
    from sphinx.errors import SphinxError
    from sphinx.util.console import strip_escape_sequences
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    site, work = pages / "site", pages / ".site"
    try:
        work.mkdir(parents=True, exist_ok=True)
        if (lock := locks.take_lock(work / "lock", wait_s=WAIT_S)) is None:
            raise InputError(f"{site}: another command is building it")
        with lock:
            contents = sources.gather_sources(pages, checkout, work / "source", site)
            warnings = io.StringIO()
            _enable_loggers()
            with patch_docutils(), docutils_namespace():
                app = Sphinx(
                    srcdir=work / "source", confdir=None, outdir=site, doctreedir=work / "doctrees",
                    buildername="html", confoverrides={**SETTINGS, "contents": contents, "made_by": _made_by()},
                    status=None, warning=warnings, parallel=PORTIONS * (os.cpu_count() or 1),
                )  # fmt: skip
                app.build()
    except SphinxError as error:
        raise InputError(f"{site}: the site cannot be built ({error})") from None
    except OSError as error:
        raise cannot_access("write", site, error) from None
    return Site(site / "index.html", strip_escape_sequences(warnings.getvalue()).splitlines())


def _enable_loggers() -> None:
    """Enable Sphinx's loggers again: MLflow's migrations configure logging, which disables all existing loggers."""
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("sphinx") and isinstance(logger, logging.Logger):
            logger.disabled = False


def _made_by() -> str:
    """The digest of this package's code; after a change of it Sphinx reads all pages again."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
