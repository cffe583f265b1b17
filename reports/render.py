"""Templates to Markdown, Markdown to one self-contained HTML file (CSS and images inside, no script)."""

from __future__ import annotations

import base64
import re
from pathlib import Path

from reports.style import write_text
from reports.verdicts import VERDICTS
from repro.errors import InputError

TEMPLATES = Path(__file__).parent / "templates"


def template(name: str, **values: object) -> str:
    """A filled template; no blank lines pile up where a section is left out."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return re.sub(r"\n{3,}", "\n\n", environment.get_template(name).render(**values))


def html(text: str, folder: Path) -> str:
    """Markdown as a page; images are read from `folder` and written into it."""
    import markdown

    converter = markdown.Markdown(extensions=["tables", "toc", "sane_lists", "md_in_html"], output_format="html")
    body = converter.convert(text)
    body = re.sub(r'(<img [^>]*?src=")([^"]+)(")', lambda m: m[1] + _inline(folder / m[2]) + m[3], body)
    body = re.sub(r"<p><em>(?=[^\n])(.*?)</em></p>", _caption, body, flags=re.DOTALL)
    body = re.sub(r"<p>(<img [^>]*>)</p>", r"<figure>\1</figure>", body)
    body = re.sub(r"<table>.*?</table>", _table, body, flags=re.DOTALL)
    top = converter.toc_tokens[0] if converter.toc_tokens else {"name": "Report", "children": []}
    contents = [(child["name"], child["id"]) for child in top["children"]]
    css = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    return template("page.html.j2", title=top["name"], css=css, contents=contents, body=body)


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


def _inline(path: Path) -> str:
    try:
        return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode("ascii")
    except OSError as error:
        raise InputError(f"{path}: the figure cannot be read ({error.strerror})") from None


def write_page(text: str, name: str, out: Path) -> list[Path]:
    """`out`/<name>.md and .html."""
    return [write_text(out / f"{name}.md", text), write_text(out / f"{name}.html", html(text, out))]
