"""A training that was cut off is shown as unfinished, judged nowhere, and goes on elsewhere from its checkpoint."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest
import torch

import repro
from repro.answers.claims import published_verdicts
from repro.cli import publishing
from repro.cli.main import main
from repro.core import paths
from repro.core.errors import FaultError, InputError
from repro.experiment import key
from repro.rank.checkpoints import Checkpoints
from repro.records import archive, catalogue, kept, provenance, reference
from tests.support.virtual_runs import EXPERIMENT, QUICK

OVERRIDES = ("strategy=gtopk", "strategy.density=0.05", "workers=3", *QUICK)
KILL = "kill:0:17"  # of 23 iterations; a checkpoint every second one
COMMIT = {"commit": "c0ffee", "dirty": False}


@pytest.fixture
def places(tmp_path, monkeypatch, pooled):
    """Workspace, reference and kept runs below one folder; the code counts as committed, and no page is built."""
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "first"))
    for module in (paths, catalogue, reference, published_verdicts):
        monkeypatch.setattr(module, "reference_root", lambda: tmp_path / "reference")
    monkeypatch.setattr(kept, "unfinished_root", lambda: tmp_path / "kept")
    monkeypatch.setattr(publishing, "render_pages", lambda papers: None)
    made = provenance.provenance
    monkeypatch.setattr(provenance, "provenance", lambda: made() | COMMIT)
    return tmp_path


def run(*overrides: str, force: bool = False):
    (record,) = repro.run(EXPERIMENT, *OVERRIDES, *overrides, mlflow=False, force=force)
    return record


def scores(record) -> list[tuple]:
    return [(point["iteration"], point["top1"], point["loss"]) for point in record.result.curve]


def cut_off(monkeypatch, *overrides: str) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("REPRO_FAULT", KILL)
        with pytest.raises(FaultError):
            run(*overrides)


def move(places: Path, monkeypatch, to: str) -> None:
    """Pack this workspace, keep its unfinished runs, and go on in an empty one."""
    assert main(["contribute", "pipesgd", str(places / "mine.zip")]) == 0
    assert main(["publish", "pipesgd", "--from", str(places / "mine.zip")]) == 0
    monkeypatch.setenv("REPRO_RESULTS", str(places / to))


def test_a_run_that_was_cut_off_goes_on_elsewhere(places, monkeypatch, capsys):
    whole = run()
    shutil.rmtree(places / "first")
    cut_off(monkeypatch)
    move(places, monkeypatch, "second")
    (kept_run,) = kept.runs("pipesgd")
    assert 0 < kept_run.iteration < kept_run.iterations
    assert kept_run.curve == [dict(point) for point in whole.result.curve][: len(kept_run.curve)] != []
    with monkeypatch.context() as patch:  # a later commit, on another machine
        patch.setattr("torch.__version__", "2.99")
        patch.setitem(COMMIT, "commit", "decade")
        again = run()
    assert again.result.weights_sha256 == whole.result.weights_sha256 and again.key != whole.key
    assert scores(again) == scores(whole)
    made = [(each["iteration"], each["commit"]) for each in again.provenance["attempts"]]
    assert made == [(0, "c0ffee"), (kept_run.iteration, "decade")] and "attempts" not in whole.provenance
    assert "continues an unfinished run" in (notes := capsys.readouterr().err) and "have changed since" in notes
    assert main(["publish", "pipesgd"]) == 0
    assert not kept.kept_files() and [run.key for run in reference.read("pipesgd")] == [again.key]


def test_it_is_shown_as_unfinished_and_is_no_result(places, monkeypatch, capsys):
    cut_off(monkeypatch)
    capsys.readouterr()
    assert main(["results", "pipesgd"]) == 0
    assert "unfinished: no results, in no verdict" in capsys.readouterr().out
    (row,) = repro.results("pipesgd", table="unfinished").to_dict("records")
    assert row["origin"] == "workspace" and 0 < row["iteration"] < row["iterations"] and 0 <= row["so_far"] <= 1
    assert catalogue.runs("pipesgd") == [] and "pipesgd" not in catalogue.papers()
    move(places, monkeypatch, "second")
    (row,) = repro.results("pipesgd", table="unfinished").to_dict("records")
    assert row["origin"] == "kept" and catalogue.runs("pipesgd") == [] and not (places / "reference/pipesgd").exists()


def test_what_another_run_computed_is_not_continued(places, monkeypatch):
    cut_off(monkeypatch)
    move(places, monkeypatch, "second")
    started = lambda record: record.wall["resumes"] == 0  # noqa: E731
    assert started(run("optimizer.lr=0.04")) and started(run("seed=1")) and started(run(force=True))
    monkeypatch.setenv("REPRO_RESULTS", str(places / "third"))
    assert not started(run())


def test_a_measured_run_goes_on_only_on_the_same_hardware_and_torch(places):
    from repro.experiment.expand import expand_runs

    def resume_keys(testbed: str) -> set[str]:
        made = set()
        for hardware in ("gpu-1x-h100", "gpu-1x-h200"):
            (planned,) = expand_runs(EXPERIMENT, [*OVERRIDES, f"testbed={testbed}"])
            key.Keys(hardware).assign(planned, "data")
            made.add(planned.resume_key)
        return made

    assert len(resume_keys("virtual")) == 1 and len(resume_keys("here")) == 2


def test_equal_replicas_are_packed_once(places, monkeypatch):
    cut_off(monkeypatch)
    (folder,) = {path.parent for path in (places / "first").rglob("*.pt")}
    newest = max(folder.glob("*.rank0.pt"))
    size = newest.stat().st_size
    move(places, monkeypatch, "second")
    with zipfile.ZipFile(places / "mine.zip") as packed:
        (name,) = [name for name in packed.namelist() if name.endswith(".pt")]
        assert size < packed.getinfo(name).file_size < 2.5 * size  # three residuals, one copy of the weights


def test_unpublished_leaves_out_what_the_reference_has_on_any_hardware(places, monkeypatch, capsys):
    monkeypatch.setattr("repro.launch.run.reference_root", lambda: places / "reference")
    run()
    assert main(["publish", "pipesgd"]) == 0
    monkeypatch.setenv("REPRO_RESULTS", str(places / "second"))
    command = ["run", EXPERIMENT, *OVERRIDES, "seeds=2", "--unpublished", "--no-mlflow", "--no-report"]
    monkeypatch.setattr(key.code_digest, "code_fingerprint", lambda roots: "other code")
    assert main(command) == 0
    assert "1 of 2 runs are published" in capsys.readouterr().err
    assert [path.parent.name.rpartition("-")[0] for path in places.glob("second/*/*/*/summary.json")] == [
        "gtopk-virtual-seed1"
    ]


# --- archives and kept files of other people


@pytest.fixture
def members(places, monkeypatch):
    """Folder and members of an archive of one unfinished run."""
    cut_off(monkeypatch)
    move(places, monkeypatch, "second")
    with zipfile.ZipFile(places / "mine.zip") as packed:
        own = {name: packed.read(name) for name in packed.namelist() if name != archive.MANIFEST}
    return next(iter(own)).rpartition("/")[0], own


def packed_again(path: Path, members: dict[str, bytes]) -> Path:
    archive._write(path, members)
    return path


def test_archives_of_unfinished_runs_that_are_refused(places, members):
    folder, own = members
    state, events, checkpoint = (f"{folder}/{name}" for name in archive.UNFINISHED)
    plain = json.loads(own[state])
    edits = [
        ({checkpoint: None}, "a run has summary.json alone"),
        ({f"{folder}/run.py": b"1"}, "run.py: a run has"),
        ({f"{folder}/summary.json": b"{}"}, "a run has"),
        ({checkpoint: bytes(archive.MOST_CHECKPOINT + 1)}, "is larger than"),
        ({events: own[events].replace(b'"n":', b'"n":1', 1)}, "not an event"),
        ({state: json.dumps(plain | {"curve": plain["curve"][:1]}).encode()}, "is not what events.jsonl says"),
        ({state: json.dumps(plain | {"run": "../../x"}).encode()}, "must be a plain name"),
        ({state: json.dumps(plain | {"run": "other"}).encode()}, "holds a run of another name"),
        ({events: own[events].replace(b'"dirty":false', b'"dirty":null')}, "not an event"),
    ]  # fmt: skip
    for changes, words in edits:
        altered = {name: member for name, member in (own | changes).items() if member is not None}
        with pytest.raises(InputError) as refusal:
            archive.read(packed_again(places / "altered.zip", altered))
        assert words in str(refusal.value) and "\n" not in str(refusal.value)


def test_a_planted_checkpoint_is_not_executed(places, members, capsys):
    from tests.unit.rank.test_checkpoints import Planted

    folder, own = members
    planted = places / "planted.pt"
    torch.save({"ranks": [{"part": Planted(places / "executed")}] * 3}, planted)
    (path,) = kept.kept_files()
    packed_again(path, own | {f"{folder}/{archive.CHECKPOINT}": planted.read_bytes()})
    assert run().wall["resumes"] == 1  # from the beginning
    assert not (places / "executed").exists()
    assert "contains other objects than tensors and plain values" in capsys.readouterr().err


def test_a_checkpoint_that_does_not_fit_the_code_is_one_line_and_stays(places, members):
    folder, own = members
    other = places / "other.pt"
    torch.save({"ranks": [{"part": {"layer": torch.ones(3)}, "strategy": {}}] * 3}, other)
    (path,) = kept.kept_files()
    packed_again(path, own | {f"{folder}/{archive.CHECKPOINT}": other.read_bytes()})
    with pytest.raises(InputError, match=r"does not fit this code .* --force"):
        run()
    assert path.is_file() and run(force=True).wall["resumes"] == 0


def test_kept_runs_have_a_limit_and_the_one_that_is_further_stays(places, members, monkeypatch, capsys):
    (path,) = kept.kept_files()
    before = path.read_bytes()
    assert main(["publish", "pipesgd", "--from", str(places / "mine.zip")]) == 0  # once more
    assert path.read_bytes() == before
    path.unlink()
    monkeypatch.setattr(kept, "MOST_TOTAL", 1000)
    capsys.readouterr()
    assert main(["publish", "pipesgd", "--from", str(places / "mine.zip")]) == 2
    assert "of 0: finish and publish" in capsys.readouterr().err and not kept.kept_files()


def test_a_large_checkpoint_has_an_archive_of_its_own_and_a_larger_one_none(places, monkeypatch, capsys):
    cut_off(monkeypatch)
    assert main(["contribute", "pipesgd", str(places / "mine.zip")]) == 0
    size = len(archive.read(places / "mine.zip").unfinished[0].checkpoint)
    cut_off(monkeypatch, "seed=1")
    monkeypatch.setattr(archive, "MOST_CHECKPOINT", size * 3 // 2)
    assert main(["contribute", "pipesgd", str(places / "mine.zip")]) == 0
    assert [len(archive.read(places / name).unfinished) for name in ("mine.zip", "mine-2.zip")] == [1, 1]
    monkeypatch.setattr(archive, "MOST_CHECKPOINT", size // 2)
    capsys.readouterr()
    assert main(["contribute", "pipesgd", str(places / "none.zip")]) == 2
    assert capsys.readouterr().err.count("unfinished; its checkpoint has ") == 2
    assert not (places / "none.zip").exists()


def test_ranks_of_a_joint_checkpoint_share_no_memory(places, members):
    folder, own = members
    checkpoints = Checkpoints(places / "joint", 0)
    (checkpoints.folder / "iteration000000004.pt").write_bytes(data := own[f"{folder}/{archive.CHECKPOINT}"])
    digest = archive.hashlib.sha256(data).hexdigest()
    manifest = {"iteration": 4, "rank": None, "bytes": len(data), "sha256": digest}
    (checkpoints.folder / "iteration000000004.json").write_text(json.dumps(manifest))
    assert checkpoints.available() == [4]
    tensors: list[torch.Tensor] = []

    def collect(value) -> None:
        if isinstance(value, torch.Tensor):
            tensors.append(value)
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
            collect(each)

    for _ in range(2):
        collect(checkpoints.load(4))
    places_in_memory = [tensor.data_ptr() for tensor in tensors if tensor.numel()]
    assert len({*places_in_memory}) == len(places_in_memory) > 2
    checkpoints.discard(after=3)
    assert not list(checkpoints.folder.iterdir())
