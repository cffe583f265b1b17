"""What a refused command says."""

from __future__ import annotations

from repro.cli import main as cli


def error_of(capsys, *arguments: str) -> str:
    """The one line on stderr of a command that ends with status 2."""
    try:
        status = cli.main(arguments)
    except SystemExit as end:  # argparse
        status = end.code
    # a busy machine says what it does meanwhile
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("planning")]
    assert status == 2 and len(lines) == 1 and lines[0].startswith("repro: error: "), lines
    return lines[0].removeprefix("repro: error: ")
