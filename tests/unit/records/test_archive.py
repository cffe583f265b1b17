"""Archives of runs: what one machine packs another publishes, and what an archive may not be, since others make it."""

from __future__ import annotations

import io
import json
import os
import socket
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from repro.core import strict_json, user_files
from repro.core.errors import InputError
from repro.records import archive, catalogue, reference, store
from tests.reports.data.summaries import make
from tests.support.cli import repro, run, summary
from tests.support.records import record_of, write_summary
from tests.unit.cli.test_records_and_plans import places, said  # noqa: F401 - a fixture

# --- `repro contribute` and `repro publish --from`: runs of one machine in the reference of another, by one file


CLEAN = {"dirty": False}


def put(where, name, variant="D-Sync", config=None, **changes):
    folder = where / "workspace" / "pipesgd" / "fig4-mnist" / name
    folder.mkdir(parents=True, exist_ok=True)
    made = make(variant, run=name, key=f"key-{name}", **changes)
    write_summary(folder, made, config)
    (folder / "events.jsonl").touch()
    return folder


@pytest.fixture
def sent(places, capsys):  # noqa: F811
    """An archive of two runs, whose workspace is gone."""
    profile = {"strategy": {"name": "dsync", "profile": "/home/somebody/vgg.json"}}
    put(places, "a-1", provenance=CLEAN, config=profile)
    put(places, "b-1", "Pipe-SGD", provenance=CLEAN)
    status, out, _ = said(capsys, "contribute", "pipesgd", str(places / "mine.zip"))
    assert status == 0 and "packed      fig4-mnist/a-1" in out and "packed      fig4-mnist/b-1" in out
    assert "2 runs of pipesgd" in out and "repro publish pipesgd --from mine.zip" in out
    return places / "mine.zip"


def test_what_one_packs_another_publishes(places, capsys, sent):  # noqa: F811
    own = {run.record.run: run.record.result for run in catalogue.runs("pipesgd")}
    (places / "workspace").rename(places / "elsewhere")
    status, out, err = said(capsys, "publish", "pipesgd", "--from", str(sent))
    assert status == 0, err
    assert out.startswith("published 2 runs of pipesgd in ") and out.endswith(", kept 0\n")
    found = reference.read("pipesgd")
    assert {run.run: run.result for run in found} == own
    assert found[0].identity.strategy.options == {"profile": "vgg.json"}
    status, out, _ = said(capsys, "publish", "pipesgd", "--from", str(sent), "--where", "strategy=dsync")
    assert status == 0 and out.startswith("published 1 runs") and out.endswith(", kept 1\n")


def test_the_same_runs_are_the_same_bytes_and_name_no_machine(places, capsys, sent):  # noqa: F811
    before = sent.read_bytes()
    assert said(capsys, "contribute", "pipesgd", str(sent))[0] == 0 and sent.read_bytes() == before
    with zipfile.ZipFile(sent) as packed:
        everything = b"".join(packed.read(name) for name in packed.namelist()).decode()
        assert {info.date_time for info in packed.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert str(places) not in everything and "/home" not in everything and "/data" not in everything
    assert f'"{socket.gethostname()}"' not in everything


def test_what_is_not_packed(places, capsys):  # noqa: F811
    failed = places / "workspace" / "pipesgd" / "fig4-mnist" / "c-1"
    put(places, "a-1", provenance={"dirty": True})
    put(places, "b-1", "Pipe-SGD", provenance=CLEAN)
    put(places, "d-1", "PS-Sync", provenance={"dirty": None})
    failed.mkdir()
    (failed / "events.jsonl").touch()
    file = str(places / "mine.zip")
    for arguments, words in (
        (("pipesgd", file), "fig4-mnist/a-1 was made by code that was not committed (2 such runs)"),
        (("gtopk", file), "unknown paper with results of yours 'gtopk'"),
        (("pipesgd", file, "--where", "seed=9"), "no run of pipesgd matches --where seed=9"),
        (("pipesgd", str(places / "none" / "x.zip"), "--where", "strategy=pipe_sgd"), "cannot write"),
    ):
        status, _, err = said(capsys, "contribute", *arguments)
        assert status == 2 and words in err and err.count("\n") == 1
    assert not (places / "mine.zip").exists()
    status, out, err = said(capsys, "contribute", "pipesgd", file, "--where", "strategy=pipe_sgd")
    assert status == 0 and "1 runs of pipesgd" in out and "left out    fig4-mnist/c-1: failed" in err


def test_a_run_of_other_hardware_takes_nobodys_place(places, capsys, sent):  # noqa: F811
    other = make("D-Sync", run="a-0", provenance=CLEAN, hardware={"class": "gpu-1x-h200"})
    reference.write("pipesgd", [record_of(other)])
    status, _, err = said(capsys, "publish", "pipesgd", "--from", str(sent))
    assert status == 2 and "would replace a run on gpu-1x-h200" in err
    assert [run.run for run in reference.read("pipesgd")] == ["a-0"]


# --- what an archive may not be: somebody else has made it


def rebuilt(path, changes):
    """The archive with other members, and a manifest that fits them unless there is one among them."""
    with zipfile.ZipFile(path) as packed:
        members = {name: packed.read(name) for name in packed.namelist()}
    changed = {name: change(members.get(name)) for name, change in changes.items()}
    members = {name: member for name, member in (members | changed).items() if member is not None}
    if archive.MANIFEST not in changes:
        files = {name: {"bytes": len(member), "sha256": archive.hashlib.sha256(member).hexdigest()}
                 for name, member in members.items() if name != archive.MANIFEST}  # fmt: skip
        members[archive.MANIFEST] = json.dumps({"schema": archive.SCHEMA, "files": files}).encode()
    with zipfile.ZipFile(path, "w") as packed:
        for name, member in members.items():
            packed.writestr(name, member)


A = "pipesgd/fig4-mnist/a-1"


def edited(**changes):
    return lambda member: json.dumps(strict_json.parse(member) | changes).encode()


def of_identity(**changes):
    return lambda member: edited(identity=strict_json.parse(member)["identity"] | changes)(member)


@pytest.mark.parametrize(("changes", "words"), [
    ({archive.MANIFEST: lambda _: b"{}"}, "manifest.json is not readable"),
    ({archive.MANIFEST: lambda _: b'{"schema": 1, "files": {}}'}, "schema 1, this version reads 2"),
    ({archive.MANIFEST: lambda m: m.replace(b'"bytes": ', b'"bytes": 1')}, "is not what was packed"),
    ({archive.MANIFEST: lambda m: m, f"{A}/summary.json": of_identity(seed=3)}, "summary.json: is not what was packed"),
    ({archive.MANIFEST: lambda m: m, f"{A}/summary.json": lambda m: m.replace(b'"seed": 0', b'"seed": 7')},
     "summary.json: is not what was packed"),  # of the same length
    ({archive.MANIFEST: lambda m: m, f"{A}/summary.json": lambda _: None}, "summary.json: is missing"),
    ({archive.MANIFEST: lambda m: m, "x.py": lambda _: b"1"}, "x.py: is not in its manifest"),
    ({f"{A}/run.py": lambda _: b"1"}, "run.py: a run has summary.json, and no more"),
    ({f"{A}/summary.json": of_identity(seed="one")}, "a-1: not a readable run"),
    ({f"{A}/summary.json": edited(run="../../x")}, "must be a plain name"),
    ({f"{A}/summary.json": edited(run="a-2")}, "holds a run of another name"),
    ({f"{A}/summary.json": edited(provenance={"dirty": True})}, "made by code that was not committed"),
    ({f"{A}/summary.json": edited(kind="guessed")}, "kind=guessed"),
    ({f"{A}/summary.json": lambda _: b"[" * 100_000}, "not a readable run"),
    ({f"{A}/summary.json": lambda _: b"{}"}, "schema None, this version reads 2"),
])  # fmt: skip
def test_what_is_not_as_it_was_packed_is_refused(places, capsys, sent, changes, words):  # noqa: F811
    rebuilt(sent, changes)
    status, _, err = said(capsys, "publish", "pipesgd", "--from", str(sent))
    assert status == 2 and words in err and err.count("\n") == 1, err
    assert not (places / "reference").exists()


def test_what_is_no_archive_is_refused(places, capsys, monkeypatch):  # noqa: F811
    path = places / "no.zip"
    for content, words in ((None, "cannot read"), (b"", "not an archive"), (b"PK\3\4" + 99 * b"x", "not an archive")):
        if content is not None:
            path.write_bytes(content)
        status, _, err = said(capsys, "publish", "pipesgd", "--from", str(path))
        assert status == 2 and words in err and err.count("\n") == 1
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("bomb", b"0" * 10_000)
    path.write_bytes(held.getvalue())
    monkeypatch.setattr(archive, "MOST_BYTES", 1000)
    with pytest.raises(InputError, match="bomb is larger than 1000 bytes"):
        archive.read(path)


def zipped(path, members, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as packed:
        for name, member in members.items():
            packed.writestr(name, member)


@pytest.mark.parametrize("module, name, most", [(archive, "MOST_TOTAL", 25_000), (user_files, "LARGEST", 100)])
def test_an_archive_takes_no_more_memory_than_all_its_members_may(tmp_path, monkeypatch, module, name, most):
    path = tmp_path / "much.zip"
    zipped(path, {f"member{number}": b"0" * 10_000 for number in range(9)})
    monkeypatch.setattr(module, name, most)
    with pytest.raises(InputError, match=rf"much\.zip: .* {most:,}"):
        archive.read(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_that_unpack_more_than_is_asked_for_are_refused(tmp_path, method):
    path = tmp_path / "dense.zip"
    zipped(path, {"member": bytes(2**26)}, method)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"dense\.zip: .*method"):
            archive.read(path)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_what_is_no_file_is_no_archive(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(InputError, match=f"{path}: .*regular file"):
            archive.read(path)


@pytest.mark.ranks
def test_the_record_of_a_real_run_goes_the_whole_way(tmp_path, monkeypatch):
    found = summary(run(tmp_path / "results", "strategy=dsync", "testbed=here", "epochs=0.2"))
    folder = tmp_path / "results" / "pipesgd" / "fig4-mnist" / found["run"]
    record = store.read(folder)
    clean = record.model_copy(update={"provenance": record.provenance | CLEAN})  # whatever this checkout is
    store.write(folder, clean)
    done = repro(tmp_path / "results", "contribute", "pipesgd", str(tmp_path / "mine.zip"))
    assert done.returncode == 0, done.stderr
    (sent,) = archive.read(tmp_path / "mine.zip")
    assert sent.result == record.result and sent.hardware == record.hardware and sent.key == record.key
    reference.write("pipesgd", [sent], tmp_path / "reference")
    assert reference.read("pipesgd", tmp_path / "reference") == [sent]
