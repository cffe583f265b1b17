"""Models, modules and profiles as workloads of `repro recommend`, and wrong input."""

from __future__ import annotations

import json
import sys

import pytest
from torch import nn

from repro.answers.ranking import recommend, text, workload
from repro.answers.ranking.candidates import read_candidates
from repro.core.errors import InputError


def test_a_users_module_is_profiled_and_answered(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])  # to which its folder is added
    file = tmp_path / "users_net.py"
    file.write_text(
        "from torch import nn\n\nclass Net(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.a, self.b = nn.Linear(32, 64), nn.Linear(64, 8)\n"
        "    def forward(self, x):\n        return {'logits': self.b(self.a(x).relu())}\n"
    )
    found = recommend(f"{file}:Net", "1g", 2, batch=4, shape=(32,))
    assert found.load.parameters == 32 * 64 + 64 + 64 * 8 + 8
    assert "timed on this machine" in text.format_answer(found)
    assert json.loads(json.dumps(text.plain_answer(found), allow_nan=False))["best"] in read_candidates()
    with pytest.raises(InputError, match="--input"):
        recommend(f"{file}:Net", "1g", 2, shape=(7,))
    with pytest.raises(InputError, match=r"'Other'; valid: Net"):
        recommend(f"{file}:Other", "1g", 2)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"model": "resnet51"}, "resnet50"),
        ({"model": "mine.py:Net"}, "no such file"),
        ({"bandwidth": "fast"}, "bandwidth fast"),
        ({"bandwidth": "-1g"}, "bandwidth -1g"),
        ({"bandwidth": "10"}, "10 bits a second"),
        ({"workers": 0}, "workers 0"),
        ({"workers": 10**6}, "workers"),
        ({"bandwidth": "10GB"}, "bandwidth 10GB: B is bytes; must be bits a second"),
        ({"latency": "soon"}, "latency soon"),
        ({"latency": "50"}, "latency 50: is 50 s; must be at most 10 s, as 50us"),
        ({"step_ms": -1.0}, "step-ms -1"),
        ({"step_ms": 1e300}, "step-ms 1e[+]300: must be milliseconds"),
        ({"step_ms": 1.0, "gpu": "P100"}, "give one of them"),
        ({"gpu": "B200", "precision": "bf16"}, r"^unknown GPU with bf16 'B200'; valid: .*RTX 4090"),
        ({"step_ms": 1.0, "precision": "bf16"}, "precision bf16: is for gpu"),
        ({"precision": "int8"}, "unknown precision 'int8'"),
        ({"gpu": "B200"}, r"^unknown GPU 'B200'; nearest: (?!.*Xeon)(?!.*round numbers).*H100"),
        ({"memory_bytes": "16"}, "memory 16: is 16 bytes; must be 100m or more, as 16G"),
        ({"model": "vgg19", "memory_bytes": "100m"}, "memory 0.1G: no proven .*, not even one sample fits"),
        ({"imbalance": -1.0}, "imbalance -1"),
        ({"imbalance": 20.0}, "imbalance 20: must be a share"),
        ({"batch": 0}, "batch 0"),
        ({"measured": ["412ms"]}, "measured 412ms: must be the time of an iteration, @, and the workers"),
        ({"measured": ["soon@8"]}, "measured soon"),
        ({"measured": ["412@8"]}, "measured 412@8: has no unit; must be in s, ms or us, as 412ms@8"),
        ({"workers": 8, "gpus_per_node": 3}, "gpus-per-node 3: must divide the 8 workers"),
        ({"bandwidth": None}, "bandwidth: is missing; give it"),
        ({"goodput": "1g"}, "bandwidth and goodput: give one of them"),
        ({"bandwidth": "999k"}, "bandwidth 999k: is 999000 bits a second; must be 1m"),
        ({"transport": "ib"}, "unknown transport 'ib'; valid: .*rdma"),
        ({"intra": "nvlnk"}, "intra nvlnk: must be nvlink, pcie3, pcie4 or GB/s"),
        ({"intra": "1e9"}, "intra 1e9: must be 0.1 to 10000 GB/s"),
    ],
)
def test_wrong_input_is_refused_in_one_line(wrong, message):
    with pytest.raises(InputError, match=message) as error:
        recommend(**{"model": "resnet20", "bandwidth": "1g", "workers": 4} | wrong)
    assert "\n" not in str(error.value)


def test_a_file_that_is_no_profile_is_refused(tmp_path):
    (tmp_path / "no.json").write_text("[1, 2]")
    with pytest.raises(InputError, match=r"no\.json"):
        workload.workload_of(str(tmp_path / "no.json"), 32)


def test_a_module_whose_forward_pass_needs_values_is_traced_on_the_cpu(tmp_path):
    file = tmp_path / "needs_values.py"
    file.write_text(
        "from torch import nn\n\nclass Net(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.a = nn.Linear(32, 8)\n"
        "    def forward(self, x):\n        h = self.a(x)\n        return h * 2 if h.sum().item() > 1e9 else h\n"
    )
    assert workload.workload_of(f"{file}:Net", 4, (32,)).parameters == 32 * 8 + 8


def test_parameters_of_modules_that_are_not_called_are_counted():
    model = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)  # whose attention's output projection is not
    load = workload.of_module(model, "layer", 2, (4, 16))
    assert load.parameters == sum(p.numel() for p in model.parameters())


TIED = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(100, 16), nn.Linear(16, 100, bias=False)
        self.head.weight = self.words.weight
    def forward(self, x):
        return self.head(self.words(x))
"""


def test_tied_weights_of_a_users_module_count_once(tmp_path):
    (tmp_path / "tied_net.py").write_text(TIED)
    load = workload.workload_of(f"{tmp_path / 'tied_net.py'}:Net", 4)
    assert load.parameters == 100 * 16 and load.matrices == ((100, 16),)


def test_a_class_that_needs_arguments_names_them(tmp_path):
    file = tmp_path / "needs_arguments.py"
    file.write_text("from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self, wide, classes=2): ...\n")
    with pytest.raises(InputError, match=r"needs_arguments.py:Net: has no default for wide; must need no arguments"):
        recommend(f"{file}:Net", "1g", 4)


def test_attention_keeps_no_scores_for_the_backward_pass():
    """As fused kernels do: what it keeps grows with the words, not with their pairs."""
    short, long = (workload.workload_of("gpt2", 2, (words,)) for words in (256, 512))
    assert long.activations == pytest.approx(2 * short.activations, rel=0.01) and long.words == 512
