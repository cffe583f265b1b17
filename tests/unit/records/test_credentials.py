"""Passwords and tokens in the user's texts reach no record and no archive."""

from __future__ import annotations

import json
import zipfile

import pytest

from repro.cli.main import main
from repro.core.credentials import has_credential, redact_credentials
from repro.core.errors import InputError
from repro.core.fields import check_fields
from repro.experiment.files import Experiment
from repro.records import archive, provenance
from tests.reports.data.summaries import make
from tests.support.records import record_of

# put together, as no scanner of repositories should find one here
TOKENS = {
    "GitHub": "ghp_" + 36 * "a",
    "Hugging Face": "hf_" + 34 * "b",
    "a key": "sk-proj-" + 40 * "c",
    "AWS": "AKIA" + 16 * "D",
    "JWT": f"eyJ{20 * 'e'}.eyJ{20 * 'f'}.{20 * 'g'}",
    "an address": "https://ann:hunter2@host/mlflow",
    "a header": "Bearer " + 20 * "h",
    "an assignment": "API_KEY=hunter2",
}
SECRET = ("aaaa", "bbbb", "cccc", "DDDD", "eeee", "hunter2", "hhhh")


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
def test_a_run_does_not_begin_with_a_token_in_its_configuration(tmp_path, monkeypatch, capsys, token):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    assert main(["run", "pipesgd/fig4-mnist", "testbed=virtual", f"title='mine {token}'", "--no-mlflow"]) == 2
    error = capsys.readouterr().err
    assert "looks like a password or token" in error and not any(secret in error for secret in SECRET)
    assert not list(tmp_path.rglob("config.yaml"))
    with pytest.raises(InputError, match=r"title=.*must be no password or token"):
        check_fields(Experiment, {"title": f"mine {token}"})


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
def test_commands_and_archives_of_records_have_none(tmp_path, token):
    command = provenance.command(["repro", "run", f"--where=x={token}", "epochs=3"])
    assert not any(secret in command for secret in SECRET) and command.endswith("epochs=3")
    run = record_of(make("D-Sync", run="a-1", provenance={"dirty": False, "command": f"repro title={token}"}))
    archive.pack(tmp_path / "mine.zip", [run])
    with zipfile.ZipFile(tmp_path / "mine.zip") as packed:
        text = packed.read("pipesgd/fig4-mnist/a-1/summary.json").decode()
    assert not any(secret in text for secret in SECRET) and "[redacted]" in json.loads(text)["provenance"]["command"]


@pytest.mark.parametrize("text", [
    "strategy=pipe_sgd", "title=a task-with-a-very-long-hyphenated-name-of-mine", "dataset.tokens=5",
    "model=./net.py:Net", "http://host:5000/a@b", "weights_sha256=0123456789abcdef0123456789abcdef",
])  # fmt: skip
def test_other_texts_stay(text):
    assert not has_credential(text) and redact_credentials(text) == text
