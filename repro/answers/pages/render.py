"""Fill templates, and write pages as Markdown; `repro.answers.site` makes HTML of them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from repro.answers.pages.files import Files
from repro.answers.pages.markdown import Markdown
from repro.answers.pages.writing import write_text
from repro.core import config_folders
from repro.core.errors import InputError

TEMPLATES = Path(__file__).parent / "templates"


def template(name: str, **values: object) -> str:
    """The filled template, with at most one blank line in a row. Values are escaped unless they are `Markdown`."""
    environment = _environment((*config_folders.report_folders(), TEMPLATES))
    return re.sub(r"\n{3,}", "\n\n", environment.get_template(name).render(**values))


@cache
def _environment(folders: tuple[Path, ...]) -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        autoescape=False,  # which is of HTML
        finalize=Markdown.escape,  # whatever `{{ }}` shows is text, unless it is `Markdown`
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["markdown"] = Markdown
    return environment


def write_page(text: str, name: str, files: Files) -> list[Path]:
    """Write <name>.md; InputError if it shows a picture that is not one of the page's figures."""
    figures = {path.relative_to(files.out).as_posix() for path in files.written if path.suffix == ".png"}
    for shown in _pictures(text):
        if shown not in figures:
            raise InputError(f"{shown}: not a figure of this page")
    return [write_text(files.out / f"{name}.md", text)]


def _pictures(text: str) -> list[str]:
    from markdown_it import MarkdownIt

    inline = (token for block in MarkdownIt("commonmark").parse(text) for token in block.children or ())
    return [str(token.attrGet("src")) for token in inline if token.type == "image"]
