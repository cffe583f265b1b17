"""Folders of pages for the site, and a page as a browser shows it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from tests.reports.data.undrawn import PIXEL

NOWHERE = Path("/nowhere")  # a checkout without documentation


def put(folder: Path, pages: dict[str, str]) -> Path:
    """The pages, with the files of one figure."""
    figures = folder / "figures" / "paper"
    figures.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (folder / name).write_text(text)
    for suffix, content in ((".png", PIXEL), (".pdf", b"%PDF"), (".csv", b"a,b\n1,2\n")):
        (figures / f"bars{suffix}").write_bytes(content)
    return folder


def read(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(), "html.parser")


def in_browser(page: Path, folder: Path) -> str:
    """The title that the scripts of a page give it."""
    if not (browser := shutil.which("chromium") or shutil.which("google-chrome")):
        pytest.skip("needs Chromium: apt-get install chromium")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
               "--no-first-run", f"--user-data-dir={folder / 'browser'}", "--hide-scrollbars",
               "--window-size=1400,1000", "--virtual-time-budget=20000", "--dump-dom", page.as_uri()]  # fmt: skip
    shown = subprocess.run(command, capture_output=True, text=True, timeout=300).stdout
    return BeautifulSoup(shown, "html.parser").title.text
