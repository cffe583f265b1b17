"""What a plugin's source declares of its options is what importing it says, where the source says anything."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from repro.core import own_code
from repro.core.declared_options import Unreadable, check_declared, declared_options
from repro.core.errors import InputError
from repro.core.registry import PLUGINS
from repro.fabric.codecs import CODECS
from repro.fabric.collectives.dense import ALLREDUCE
from repro.fabric.option_names import AllreduceName, CodecName

READ = [(group, name) for group in ("strategy", "model", "imbalance") for name in PLUGINS[group].names()]

MINE = """
from __future__ import annotations
from dataclasses import dataclass
from typing import Annotated
from pydantic import Field
from repro.strategies.shared.data_parallel import AllreduceOptions, DataParallel
import no_such_module

MOST = 8

@dataclass
class Options(AllreduceOptions):
    every: Annotated[int, Field(ge=1, le=MOST)] = 4
    odd: no_such_module.Type = 3

class Mine(DataParallel):
    name = "mine"
    Options = Options

class Net:
    def __init__(self, classes: int, depth: int = 2, *, act="relu"):
        raise AssertionError("only read")

def make(**options):
    raise AssertionError("only read")
"""


@pytest.mark.parametrize(("group", "name"), READ, ids=[name for _, name in READ])
def test_the_declared_options_are_those_of_the_imported_plugin(group, name):
    declared, imported = declared_options(group, name), PLUGINS[group].option_annotations(name)
    assert set(declared) - set(imported) == set()
    assert set(declared) >= set(PLUGINS[group].defaults(name))
    for option, annotation in declared.items():
        assert annotation is Any or repr(annotation) == repr(imported[option])


def test_options_of_a_users_file_are_read_without_importing_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    for place in ("./mine.py:Mine", "./mine.py:Net", "./mine.py:make", "./mine.py"):
        own_code.admit_plugin(place)
    assert set(declared_options("model", "./mine.py:Net")) == {"depth", "act"}
    for strategy in ("./mine.py:Mine", "./mine.py"):
        check_declared("strategy", strategy, {"every": 8, "odd": "anything", "pieces": 2})
        with pytest.raises(InputError, match=r"strategy.every=9: must be 8 or less"):
            check_declared("strategy", strategy, {"every": 9})
        with pytest.raises(InputError, match=r"unknown option 'strategy.evry'; valid: .*strategy.every"):
            check_declared("strategy", strategy, {"evry": 9})
    with pytest.raises(InputError, match=r"model.depth=deep: must be a whole number"):
        check_declared("model", "./mine.py:Net", {"depth": "deep"})
    with pytest.raises(Unreadable):
        declared_options("model", "./mine.py:make")
    check_declared("model", "./mine.py:make", {"whatever": 1})


def test_the_names_of_options_are_those_of_what_they_choose():
    assert {*get_args(CodecName)} == {*CODECS}
    assert {*get_args(AllreduceName)} == {*ALLREDUCE, "native", "auto"}
