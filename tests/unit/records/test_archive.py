"""Archives of runs: `repro contribute` on one machine, `repro publish --from` on another, and hostile archives."""

from __future__ import annotations

import json
import os
import socket
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from repro.answers.claims import published_verdicts
from repro.cli import publishing
from repro.cli.main import main
from repro.core import paths, user_files
from repro.core.errors import InputError
from repro.records import archive, catalogue, kept, reference, store
from tests.reports.data.summaries import make
from tests.support import virtual_runs
from tests.support.records import record_of, write_summary

CLEAN = {"dirty": False}


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A folder with a workspace and a reference; pages are not built."""
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "workspace"))
    for module in (paths, catalogue, reference, published_verdicts):
        monkeypatch.setattr(module, "reference_root", lambda: tmp_path / "reference")
    monkeypatch.setattr(kept, "unfinished_root", lambda: tmp_path / "kept")
    monkeypatch.setattr(publishing, "render_pages", lambda paper: None)
    return tmp_path


def put(where, name, variant="D-Sync", config=None, **changes):
    folder = where / "workspace" / "pipesgd" / "fig4-mnist" / name
    folder.mkdir(parents=True, exist_ok=True)
    write_summary(folder, make(variant, run=name, key=f"key-{name}", **changes), config)
    (folder / "events.jsonl").touch()
    return folder


def command(capsys, *arguments):
    status = main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


# --- `repro contribute` and `repro publish --from`


@pytest.fixture
def contributed(places, capsys):
    """An archive of two runs."""
    profile = {"strategy": {"name": "dsync", "profile": "/home/somebody/vgg.json"}}
    put(places, "a-1", provenance=CLEAN, config=profile)
    at_home = {"strategy": {"name": "pipe_sgd", "profile": "~somebody/vgg.json"}}
    put(places, "b-1", "Pipe-SGD", provenance=CLEAN, config=at_home)
    status, out, _ = command(capsys, "contribute", "pipesgd", str(places / "mine.zip"))
    assert status == 0 and "packed      fig4-mnist/a-1" in out and "packed      fig4-mnist/b-1" in out
    assert "2 runs of pipesgd" in out and "repro publish pipesgd --from mine.zip" in out
    return places / "mine.zip"


def test_contributed_runs_are_published(places, capsys, contributed):
    own = {run.record.run: run.record.result for run in catalogue.runs("pipesgd")}
    (places / "workspace").rename(places / "elsewhere")
    status, out, err = command(capsys, "publish", "pipesgd", "--from", str(contributed))
    assert status == 0, err
    assert out.startswith("published 2 runs of pipesgd in ") and out.endswith(", kept 0\n")
    published = reference.read("pipesgd")
    assert {run.run: run.result for run in published} == own
    assert [run.identity.strategy.options for run in published] == [{"profile": "vgg.json"}] * 2
    status, out, _ = command(capsys, "publish", "pipesgd", "--from", str(contributed), "--where", "strategy=dsync")
    assert status == 0 and out.startswith("published 1 runs") and out.endswith(", kept 1\n")


def test_of_copies_in_several_archives_the_newest_is_published(places, capsys):
    archives = []
    for day in ("02", "01"):  # the older one is given last
        put(places, "a-1", provenance=CLEAN | {"finished_at": f"2026-01-{day}T00:00:00+00:00"})
        archives.append(str(places / f"day{day}.zip"))
        assert command(capsys, "contribute", "pipesgd", archives[-1])[0] == 0
    (places / "workspace").rename(places / "elsewhere")
    assert command(capsys, "publish", "pipesgd", "--from", *archives)[0] == 0
    (run,) = reference.read("pipesgd")
    assert run.provenance["finished_at"].startswith("2026-01-02")


def test_the_same_runs_are_the_same_bytes_and_name_no_machine(places, capsys, contributed):
    before = contributed.read_bytes()
    assert command(capsys, "contribute", "pipesgd", str(contributed))[0] == 0 and contributed.read_bytes() == before
    with zipfile.ZipFile(contributed) as packed:
        everything = b"".join(packed.read(name) for name in packed.namelist()).decode()
        assert {info.date_time for info in packed.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert str(places) not in everything and "somebody" not in everything and "/data" not in everything
    assert f'"{socket.gethostname()}"' not in everything


def test_runs_that_cannot_be_contributed(places, capsys):
    failed = places / "workspace" / "pipesgd" / "fig4-mnist" / "c-1"
    put(places, "a-1", provenance={"dirty": True})
    put(places, "b-1", "Pipe-SGD", provenance=CLEAN)
    put(places, "d-1", "PS-Sync", provenance={"dirty": None})
    failed.mkdir()
    (failed / "events.jsonl").touch()
    file = str(places / "mine.zip")
    for arguments, words in (
        (("pipesgd", file), "fig4-mnist/a-1 was made by code that was not committed (2 such runs)"),
        (("gtopk", file), "unknown paper with results 'gtopk'"),
        (("pipesgd", file, "--where", "seed=9"), "no run of pipesgd matches --where seed=9"),
    ):
        status, _, err = command(capsys, "contribute", *arguments)
        assert status == 2 and words in err and err.count("\n") == 1
    with pytest.raises(SystemExit) as ended:  # before any run is read
        command(capsys, "contribute", "pipesgd", str(places / "none" / "x.zip"))
    assert ended.value.code == 2 and "there is no folder" in capsys.readouterr().err
    assert not (places / "mine.zip").exists()
    status, out, err = command(capsys, "contribute", "pipesgd", file, "--where", "strategy=pipe_sgd")
    assert status == 0 and "1 runs of pipesgd" in out and "left out    fig4-mnist/c-1: failed" in err


def test_a_run_of_other_hardware_is_replaced_on_request(places, capsys, contributed):
    other = make("D-Sync", run="a-0", provenance=CLEAN, hardware={"class": "gpu-1x-h200"})
    reference.write("pipesgd", [record_of(other)])
    status, _, err = command(capsys, "publish", "pipesgd", "--from", str(contributed))
    assert status == 2 and "would replace a run on gpu-1x-h200" in err
    assert [run.run for run in reference.read("pipesgd")] == ["a-0"]
    status, _, _ = command(capsys, "publish", "pipesgd", "--from", str(contributed), "--replace")
    assert status == 0 and "a-0" not in [run.run for run in reference.read("pipesgd")]


# --- archives that other people made


def zipped(path, members, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as packed:
        for name, member in members.items():
            packed.writestr(name, member)
    return path


@pytest.fixture(scope="module")
def members(tmp_path_factory):
    """The members of a valid archive."""
    path = tmp_path_factory.mktemp("valid") / "valid.zip"
    made = (("a-1", "D-Sync"), ("b-1", "Pipe-SGD"))
    archive.pack(path, [record_of(make(variant, run=run, provenance=CLEAN)) for run, variant in made])
    with zipfile.ZipFile(path) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


A = "pipesgd/fig4-mnist/a-1"


def edited(**changes):
    return lambda member: json.dumps(user_files.parse_json(member) | changes).encode()


def of_identity(**changes):
    return lambda member: edited(identity=user_files.parse_json(member)["identity"] | changes)(member)


def of_result(**changes):
    return lambda member: edited(result=user_files.parse_json(member)["result"] | changes)(member)


@pytest.mark.parametrize(("changes", "words"), [
    ({archive.MANIFEST: lambda _: b"{}"}, "manifest.json is not readable"),
    ({archive.MANIFEST: lambda _: b'{"schema": 1, "files": {}}'}, "schema 1, this version reads 2"),
    ({archive.MANIFEST: lambda m: m.replace(b'"bytes": ', b'"bytes": 1')}, "is not what was packed"),
    ({archive.MANIFEST: lambda m: m, f"{A}/summary.json": of_identity(seed=3)}, "summary.json: is not what was packed"),
    ({archive.MANIFEST: lambda m: m, f"{A}/summary.json": lambda m: m.replace(b'"seed": 0', b'"seed": 7')},
     "summary.json: is not what was packed"),  # of the same length
    ({archive.MANIFEST: lambda m: m, f"{A}/summary.json": lambda _: None}, "summary.json: is missing"),
    ({archive.MANIFEST: lambda m: m, "x.py": lambda _: b"1"}, "x.py: is not in its manifest"),
    ({f"{A}/run.py": lambda _: b"1"}, "run.py: a run has summary.json alone, or unfinished.json"),
    ({f"{A}/summary.json": of_identity(seed="one")}, "a-1: not a readable run"),
    ({f"{A}/summary.json": of_identity(workers=10**18)}, "identity.workers=1000000000000000000: must be 1,000,000"),
    ({f"{A}/summary.json": of_identity(seed=-1)}, "identity.seed=-1: must be 0 or more"),
    ({f"{A}/summary.json": of_result(step={"mean_s": -1.0})}, "step.mean_s"),
    ({f"{A}/summary.json": of_result(iterations=10**18)}, "iterations=1000000000000000000: must be"),
    ({f"{A}/summary.json": of_result(curve=[{"iteration": 1, "train_s": -1.0}])}, "must begin at 0 or later"),
    ({f"{A}/summary.json": edited(run="../../x")}, "must be a plain name"),
    ({f"{A}/summary.json": edited(run="a-2")}, "holds a run of another name"),
    ({f"{A}/summary.json": edited(provenance={"dirty": True})}, "made by code that was not committed"),
    ({f"{A}/summary.json": edited(kind="guessed")}, "kind=guessed"),
    ({f"{A}/summary.json": lambda _: b"[" * 100_000}, "not a readable run"),
    ({f"{A}/summary.json": lambda _: b"{}"}, "schema None, this version reads 2"),
])  # fmt: skip
def test_an_altered_archive_is_refused(tmp_path, members, changes, words):
    """The manifest fits the other members unless it is changed itself."""
    changed = {name: change(members.get(name)) for name, change in changes.items()}
    altered = {name: member for name, member in (members | changed).items() if member is not None}
    if archive.MANIFEST not in changes:
        files = {name: {"bytes": len(member), "sha256": archive.hashlib.sha256(member).hexdigest()}
                 for name, member in altered.items() if name != archive.MANIFEST}  # fmt: skip
        altered[archive.MANIFEST] = json.dumps({"schema": archive.SCHEMA, "files": files}).encode()
    with pytest.raises(InputError) as refusal:
        archive.read(zipped(tmp_path / "altered.zip", altered))
    assert words in str(refusal.value) and "\n" not in str(refusal.value)


def test_an_archive_that_has_a_member_twice_is_refused(tmp_path, members):
    """Other programs may read the first one, or the second."""
    path = zipped(tmp_path / "twice.zip", members)
    with zipfile.ZipFile(path, "a") as packed, pytest.warns(UserWarning, match="Duplicate name"):
        packed.writestr(f"{A}/summary.json", members[f"{A}/summary.json"])
    with pytest.raises(InputError, match=r"twice\.zip: .*duplicate members"):
        archive.read(path)


def test_a_file_that_is_no_archive_is_refused_and_nothing_published(places, capsys):
    path = places / "no.zip"
    for content, words in ((None, "cannot read"), (b"", "not an archive"), (b"PK\3\4" + 99 * b"x", "not an archive")):
        if content is not None:
            path.write_bytes(content)
        status, _, err = command(capsys, "publish", "pipesgd", "--from", str(path))
        assert status == 2 and words in err and err.count("\n") == 1
    assert not (places / "reference").exists()


@pytest.mark.parametrize(("module", "name", "most", "words"), [
    (archive, "MOST_BYTES", 1000, "member0 is larger than 1000 bytes"),
    (archive, "MOST_TOTAL", 25_000, "25,000"), (user_files, "LARGEST_FILE", 100, "100"),
])  # fmt: skip
def test_an_archive_takes_limited_memory(tmp_path, monkeypatch, module, name, most, words):
    path = zipped(tmp_path / "much.zip", {f"member{number}": b"0" * 10_000 for number in range(9)})
    monkeypatch.setattr(module, name, most)
    with pytest.raises(InputError, match=rf"much\.zip: .*{words}"):
        archive.read(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_that_unpack_more_than_the_requested_bytes_are_refused(tmp_path, method):
    path = zipped(tmp_path / "dense.zip", {"member": bytes(2**26)}, method)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"dense\.zip: .*method"):
            archive.read(path)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_an_archive_is_a_regular_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(InputError, match=f"{path}: .*regular file"):
            archive.read(path)


def test_the_record_of_a_run_comes_back_from_archive_and_reference(tmp_path):
    virtual_runs.run(tmp_path / "run", "strategy=dsync")
    record = store.read(tmp_path / "run")
    clean = record.model_copy(update={"provenance": record.provenance | CLEAN})  # this checkout may have changes
    archive.pack(tmp_path / "mine.zip", [clean])
    (packed,) = archive.read(tmp_path / "mine.zip").finished
    assert packed.result == record.result and packed.hardware == record.hardware and packed.key == record.key
    reference.write("pipesgd", [packed], tmp_path / "reference")
    assert reference.read("pipesgd", tmp_path / "reference") == [packed]
