"""Templates to Markdown, Markdown to one self-contained HTML file (CSS and the page's figures inside, no script)."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from repro.common.errors import InputError
from repro.reporting.verdict import UNJUDGED as VERDICTS
from repro.reports import foreign
from repro.reports.style import write_text

TEMPLATES = Path(__file__).parent / "templates"
ALLOWED = r"https?://|#|[\w./-]+(#|\")"  # what a link may begin with: the web, a place on the page, a file beside it


def template(name: str, **values: object) -> str:
    """A filled template; no blank lines pile up where a section is left out."""
    return re.sub(r"\n{3,}", "\n\n", _environment().get_template(name).render(**values))


@cache
def _environment() -> Any:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader([Path(__file__).parent, TEMPLATES]),
        autoescape=jinja2.select_autoescape(["html.j2"]),  # for Markdown that is done in `repro.reports.foreign`
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def html(text: str, figures: Mapping[str, Path]) -> str:
    """Markdown as a page, the figures that it shows (path in the Markdown -> file) written into it.

    InputError for any other image; a link that leads neither to the web nor to somewhere beside the page leads nowhere.
    """
    import markdown
    from markupsafe import Markup

    # the extension "toc" gives it `toc_tokens`
    converter: Any = markdown.Markdown(extensions=["tables", "toc", "sane_lists", "md_in_html"], output_format="html")
    body = converter.convert(text)
    body = re.sub(r'(<img [^>]*?src=")([^"]+)(")', lambda m: m[1] + _inline(m[2], figures) + m[3], body)
    body = re.sub(rf'(<a [^>]*?)href="(?!{ALLOWED})[^"]*"', r"\1", body)
    body = re.sub(r"<p><em>(?=[^\n])(.*?)</em></p>", _caption, body, flags=re.DOTALL)
    body = re.sub(r"<p>(<img [^>]*>)</p>", r"<figure>\1</figure>", body)
    body = re.sub(r"<table>.*?</table>", _table, body, flags=re.DOTALL)
    top: dict[str, Any] = converter.toc_tokens[0] if converter.toc_tokens else {"name": "Report", "children": []}
    contents = [(Markup(child["name"]), child["id"]) for child in top["children"]]  # the converter's names are HTML
    css = Markup((TEMPLATES / "style.css").read_text(encoding="utf-8"))
    return template("page.html.j2", title=Markup(top["name"]), css=css, contents=contents, body=Markup(body))


def _table(match: re.Match) -> str:
    """Verdicts as chips, intervals and seeds on lines of their own, a class by the first column, room to scroll."""
    text = re.sub(
        rf"(<td[^>]*>)({'|'.join(VERDICTS)})\b",
        lambda m: f'{m[1]}<span class="verdict {m[2].replace(" ", "-")}">{m[2]}</span>',
        match[0],
    )
    text = re.sub(r" (\[[^\]<>]*\]|\(\d+ seeds?\))", r' <span class="interval">\1</span>', text)
    first = re.search(r"<th[^>]*>([^<]*)</th>", text)
    named = text.replace("<table>", f'<table class="by-{first[1] if first else "nothing"}">', 1)
    return f'<div class="scroll">{named}</div>'


def _caption(match: re.Match) -> str:
    return f'<p class="caption"><em>{match[1]}</em></p>'


def _inline(name: str, figures: Mapping[str, Path]) -> str:
    if not (path := figures.get(name)):
        raise InputError(f"{name}: not a figure of this page")
    try:
        return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode("ascii")
    except OSError as error:
        raise InputError(f"{path}: the figure cannot be read ({error.strerror})") from None


def write_page(text: str, name: str, out: Path, written: Iterable[Path] = ()) -> list[Path]:
    """`out`/<name>.md and .html; written: the page's files, of which the figures may stand in it."""
    text = foreign.markup(text)
    figures = {path.relative_to(out).as_posix(): path for path in written if path.suffix == ".png"}
    return [write_text(out / f"{name}.md", text), write_text(out / f"{name}.html", html(text, figures))]
