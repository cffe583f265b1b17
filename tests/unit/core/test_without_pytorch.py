"""Checks that a child process makes without PyTorch: what they find is what they would find with it, or nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import get_args

import pytest

from repro.core.registry import PLUGINS
from repro.fabric.codecs import CODECS
from repro.fabric.collectives.dense import ALLREDUCE
from repro.fabric.option_names import AllreduceName, CodecName

NAMES = [(group, name) for group in PLUGINS for name in PLUGINS[group].names()]

# what a user's file has -> what a check of it answers, without PyTorch
FILES = {
    "import torch\n1 / 0": "mine.py:2: ZeroDivisionError",
    "import torch\nimport no_such": "No module named 'no_such'",
    "import torch\ntorch.ops.load_library('mine.so')\n1 / 0": "",  # the error may be the placeholder's
    "import torch\nif torch.cuda.is_available():\n    pass": "",
    "import torch\nassert torch.__version__ > '1'": "",
    "import torch\nclass Net(torch.nn.Module):\n    def __init__(self, depth: int = 2): pass": "valid: depth",
    "from torch.nn import Linear\nclass Net(Linear):\n    pass": "",  # has the arguments of its base
    "import torchvision\nNet = torchvision.models.resnet18": "",
    "print('noise')\nclass Net:\n    def __init__(self, width=1): pass": "valid: width",
    "while True: pass": "",
}


def run_python(code: str, folder=None) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder)
    assert not done.returncode and not done.stderr, done.stderr
    return done.stdout


DESCRIBE = """
def describe(group, name):
    kinds, defaults = PLUGINS[group].option_annotations(name), PLUGINS[group].defaults(name)
    return [json.loads(json.dumps(defaults, default=str)), {each: repr(kinds.get(each)) for each in defaults}]
"""


def test_every_plugin_has_the_options_that_it_has_with_pytorch():
    code = f"""
import json
import sys
from repro.core.errors import InputError
from repro.core.registry import PLUGINS
from repro.core.without_pytorch import check_early
{DESCRIBE}
def check():
    raise InputError(json.dumps([describe(*each) for each in {NAMES}]))
try:
    check_early(check)
except InputError as answer:
    print(answer)
assert "torch" not in sys.modules and "repro.models" not in sys.modules
"""
    described: dict = {"json": json, "PLUGINS": PLUGINS}
    exec(DESCRIBE, described)
    for each, found in zip(NAMES, json.loads(run_python(code)), strict=True):
        assert found == described["describe"](*each)


@pytest.mark.parametrize(("text", "answer"), FILES.items(), ids=map(repr, FILES))
def test_a_users_file_is_judged_only_as_far_as_pytorch_does_not_matter(tmp_path, text, answer):
    (tmp_path / "mine.py").write_text(text)
    code = """
import sys
from repro.core import own_code
from repro.core.errors import InputError
from repro.core.registry import PLUGINS, check_names
from repro.core.without_pytorch import check_early
def check():
    own_code.admit_configured({"model": {"name": "mine.py:Net"}})
    check_names("Net", ["wrong"], PLUGINS["model"].defaults("mine.py:Net"))
try:
    check_early(check)
except InputError as error:
    print(error)
assert "torch" not in sys.modules and "mine" not in sys.modules
"""
    found = run_python(code, folder=tmp_path)
    assert answer in found and bool(answer) == bool(found)


def test_the_names_of_options_are_those_of_what_they_choose():
    assert {*get_args(CodecName)} == {*CODECS}
    assert {*get_args(AllreduceName)} == {*ALLREDUCE, "native", "auto"}
