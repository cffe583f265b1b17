"""The filter of claims on a page of the site, in a browser."""

from __future__ import annotations

import json
from pathlib import Path

from repro.answers.site.build import build_html_site
from tests.support.site_pages import NOWHERE, in_browser, put

GROUPS = """# Headlines

Before the table.

| claim | verdict |
| --- | --- |
| [First](paper.md) | &nbsp; |
| one is fast | open |
| [Second](other.md) | &nbsp; |
| two is slow | not reproduced |
| three is fast, C10 | open |

| claim | verdict |
| --- | --- |
| one is fast | open |
"""
NUMBERED = """# Claims

## Baselines

| claim | verdict |
| --- | --- |
| C1 | open |

## Open

| claim | verdict |
| --- | --- |
| C1. is fast | open |
| C10. is large | open |

## Reproduced

| claim | runs | verdict |
| --- | --- | --- |
| C3. is small | of C8 to C11 | reproduced |
"""
TRIED = """<script>addEventListener("load", () => {
  const [words, verdict] = document.querySelectorAll(".choose input, .choose select");
  const rows = [...document.querySelectorAll("article tbody tr")];
  const shown = () => rows.filter((row) => row.offsetParent).map((row) => row.cells[0].innerText.trim());
  const tries = TRIES.map(([text, word]) => {
    [words.value, verdict.value] = [text, word];
    words.dispatchEvent(new Event("input"));
    return [document.querySelector(".choose [role=status]").textContent, shown()];
  });
  const after = document.querySelector(".choose").nextElementSibling;
  document.title = JSON.stringify([words.placeholder, after.matches(".table-wrapper") || after.id, tries]);
});</script>"""


def filtered(page: Path, tries: list[tuple[str, str]]):
    """(placeholder, what stands below the filter, (count, first cells of rows in sight) for each text and verdict)"""
    page.write_text(page.read_text().replace("</body>", TRIED.replace("TRIES", json.dumps(tries)) + "</body>"))
    return json.loads(in_browser(page, page.parent))


def test_the_filter_counts_each_claim_once_and_keeps_the_names_of_groups(tmp_path):
    site = build_html_site(put(tmp_path, {"index.md": GROUPS, "paper.md": "# P\n", "other.md": "# O\n"}), NOWHERE)
    tries = [("", ""), ("", "open"), ("second", ""), ("C1", ""), ("slow", "open")]
    placeholder, below, shown = filtered(site.index, tries)
    assert placeholder.endswith("as one is fast") and below is True  # directly above its table
    assert shown == [
        ["3 of 3 rows", ["First", "one is fast", "Second", "two is slow", "three is fast, C10", "one is fast"]],
        ["2 of 3 rows", ["First", "one is fast", "Second", "three is fast, C10", "one is fast"]],
        ["2 of 3 rows", ["Second", "two is slow", "three is fast, C10", "one is fast"]],
        ["0 of 3 rows", ["one is fast"]],  # of the other table
        ["0 of 3 rows", ["one is fast"]],
    ]


def test_the_filter_of_all_claims_hides_sections_and_finds_whole_numbers_and_those_in_ranges(tmp_path):
    site = build_html_site(put(tmp_path, {"index.md": "# I\n", "paper-claims.md": NUMBERED}), NOWHERE)
    placeholder, below, shown = filtered(site.page("paper-claims"), [("", ""), ("c1", ""), ("C9", ""), ("", "open")])
    assert placeholder.endswith("as C1") and below == "open"  # the first section that it filters
    assert shown == [
        ["3 of 3 rows", ["C1", "C1. is fast", "C10. is large", "C3. is small"]],
        ["1 of 3 rows", ["C1", "C1. is fast"]],
        ["1 of 3 rows", ["C1", "C3. is small"]],
        ["2 of 3 rows", ["C1", "C1. is fast", "C10. is large"]],
    ]
