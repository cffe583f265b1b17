"""What a terminal shows: colour, one screen of `list` and `show`, plots of characters."""

from __future__ import annotations

import io

import pytest

from repro.cli import plot
from repro.cli.main import build_parser, main
from repro.core import terminal
from repro.experiment import files
from repro.experiment.config import experiment_names

SCREEN = 40  # lines


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "variables", "shown"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_only_a_terminal_that_wants_them_gets_colours(monkeypatch, stream, variables, shown):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (terminal.style_text("word", "red", stream) != "word") is shown


def test_every_command_has_a_heading():
    parser = build_parser()
    (commands,) = [action for action in parser._actions if action.choices]
    shown = parser.format_help().splitlines()
    for name in commands.choices:
        assert any(line.split()[:1] == [name] for line in shown), name


def test_list_is_a_screen_and_each_kind_has_its_own(capsys):
    assert main(["list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) <= SCREEN
    assert main(["list", "models"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == files.group_names("model")
    assert main(["list", "experiments"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == experiment_names()
    assert main(["list", "modles"]) == 2
    assert "models" in capsys.readouterr().err


def test_show_is_a_screen_with_the_configuration_by_an_option(capsys):
    assert main(["show", "pipesgd/fig4-mnist", "strategy=pipe_sgd", "strategy.K=3"]) == 0
    screen = capsys.readouterr().out
    assert len(screen.splitlines()) <= SCREEN and "K: 3" not in screen
    assert main(["show", "pipesgd/fig4-mnist", "strategy=pipe_sgd", "strategy.K=3", "--config"]) == 0
    assert "K: 3" in capsys.readouterr().out


def test_a_plot_has_a_mark_at_each_end_of_a_line():
    drawn = plot.plot_text({"up": [(0.0, 0.0), (10.0, 1.0)], "level": [(0.0, 0.5), (10.0, 0.5)]}, "s", "top1", 40, 20)
    body = [line.partition("|")[2] for line in drawn.splitlines() if "|" in line]
    assert body[0].endswith("o") and body[-1].startswith("o") and len(body[0]) <= 40
    assert body[len(body) // 2].startswith("x") and body[len(body) // 2].endswith("x")
    many = plot.plot_text({f"{n} of many": [(0.0, n)] for n in range(20)}, "s", "top1")
    assert len({line.split()[0] for line in many.splitlines() if line.endswith("of many")}) == 20  # without colours too
    assert plot.plot_text({}, "s", "top1") == "nothing to plot"
    assert "o" in plot.plot_text({"one": [(1.0, 1.0)]}, "s", "top1")


def test_plot_shows_accuracy_of_each_testbed_apart(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    assert main(["plot", "pipesgd/fig4-mnist", "--where", "scale=full"]) == 0
    out = capsys.readouterr().out
    assert "on here (measured, full)" in out and "on paper/pipesgd (simulated, full)" in out
    assert main(["plot", "pipesgd/fig4-mnist", "--seed", "77"]) == 2
    assert "seed 77" in capsys.readouterr().err
