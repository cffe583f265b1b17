"""Containerfile, which is not built where the tests run: its form, what it copies, and the commands in it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3]
FILE = PROJECT / "Containerfile"

pytestmark = pytest.mark.skipif(not FILE.is_file(), reason="not a checkout")


def instructions() -> list[tuple[str, str]]:
    """(instruction, what stands behind it), lines that continue each other joined."""
    lines = [line for line in FILE.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [tuple(line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


def test_variables_are_declared_where_they_are_used():
    declared: set[str] = set()
    for name, words in instructions():
        used = set(re.findall(r"\$\{(\w+)\}", words))
        assert used <= declared, f"{name} {words}"
        if name == "ARG":
            declared.add(words.partition("=")[0])
        if name == "FROM":
            declared.clear()  # as in a build: arguments before it are the image's name alone


def test_what_is_copied_is_there():
    ignored = [line for line in (PROJECT / ".dockerignore").read_text().splitlines() if line and line[0] not in "#!"]
    for name, words in instructions():
        if name == "COPY":
            *sources, _ = words.split()
            for source in sources:
                assert (PROJECT / source).exists() and source.rstrip("/") not in ignored, source


def test_what_runs_is_in_the_image_or_installed_before():
    """The base image is Debian's with Python: it has a shell, the core utilities and apt-get, and no make."""
    there = {"apt-get", "rm", "python3"}
    for name, words in instructions():
        if name == "RUN":
            for command in re.split(r"&&|;|\|", words):
                program, *arguments = [word for word in command.split() if not re.match(r"[A-Z_]+=", word)]
                assert program in there, f"{program}: nothing installs it"
                if arguments[0] == "install":
                    there |= {word for word in arguments[1:] if not word.startswith("-")}
    assert {"make", "openmpi-bin", "iproute2"} <= there  # what make setup looks for


def test_commands_are_shell_and_what_they_install_from_is_there():
    for name, words in instructions():
        if name == "RUN":
            assert subprocess.run(["sh", "-n", "-c", words], capture_output=True).returncode == 0, words
            for target in re.findall(r"(?:^|=\S+ )make ([a-z-]+)", words):
                assert re.search(rf"^{target}:", (PROJECT / "Makefile").read_text(), re.MULTILINE), target
    assert any("LOCKED=1" in words and "make setup" in words for name, words in instructions() if name == "RUN")
    assert "requirements.lock" not in (PROJECT / ".dockerignore").read_text()
