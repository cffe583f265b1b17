"""The reference's tables, and archives of runs for it: the same runs come back, whatever was altered is named."""

from __future__ import annotations

import copy
import io
import itertools
import json
import os
import shutil
import socket
import tracemalloc
import zipfile
from pathlib import Path

import pandas as pd
import pytest

from repro.core import strict_json, user_files
from repro.core.errors import InputError
from repro.records import archive, catalogue, reference, store, tidy
from repro.records.selection import chosen
from tests.reports.data.probes import probe
from tests.reports.data.summaries import make
from tests.support.cli import repro, run, summary
from tests.support.records import record_of, write_summary
from tests.unit.cli.test_records_and_plans import places, said  # noqa: F401 - a fixture


def published(runs):
    return [record_of(run) for run in sorted(runs, key=tidy.name)]


@pytest.fixture
def runs():
    trained = [make("D-Sync", seed=seed, run=f"d-sync-{seed}") for seed in (0, 1)]
    trained[0]["trace"].append({"rank": 0, "line": "main", "name": "forward", "start": 1.0, "end": 2.5, "minibatch": 7})
    trained[1] |= {"curve": [], "trace": [], "kind": "simulated"}
    sizes = {"points": [{"bytes": nbytes, "mean_s": 0.1, "runs": 5} for nbytes in (10, 100)]}
    probes = [probe("p2p", name, name, sizes, run="probe") for name in ("configurations", "fig8")]
    return published([*trained, *probes])


def test_the_same_runs_come_back(runs, tmp_path):
    folder = reference.write("pipesgd", runs, tmp_path)
    found = reference.read("pipesgd", tmp_path)
    assert found == runs
    assert [json.dumps(run.plain(), sort_keys=True) for run in found] == [
        json.dumps(run.plain(), sort_keys=True) for run in runs
    ]
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert reference.write("pipesgd", copy.deepcopy(runs)[::-1], tmp_path) == folder
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    assert reference.papers(tmp_path) == ["pipesgd"] and reference.read("gtopk", tmp_path) == []


def test_its_tables_are_tidy(runs, tmp_path):
    folder = reference.write("pipesgd", runs, tmp_path)
    found = {name: pd.read_parquet(folder / f"{name}.parquet") for name in tidy.TABLES}
    trained = [run for run in runs if run.trained]
    first = trained[0]
    row = found["runs"].set_index("run").loc[first.name]
    assert row["variant"] == first.identity.variant and row["step_s"] == first.result.step.mean_s
    assert row["final"] == first.result.final["top1"] and row["phases.forward"] == first.result.phases["forward"]
    assert len(found["points"]) == sum(len(run.result.curve) for run in trained)
    assert len(found["intervals"]) == sum(len(run.result.trace) for run in trained)
    assert set(found["rows"]["run"]) == {run.name for run in runs if not run.trained}


@pytest.mark.parametrize(
    ("file", "harm", "says"),
    [
        ("points.parquet", lambda data: data[:-1] + b"0", "points.parquet: not as it was published"),
        ("runs.parquet", None, "runs.parquet: No such file"),
        ("manifest.json", None, "manifest.json: not a readable manifest"),
        ("manifest.json", lambda data: b"{", "manifest.json: not a readable manifest"),
        ("manifest.json", lambda data: b"[]", "manifest.json: not a readable manifest"),
        ("manifest.json", lambda data: data.replace(b'"schema": 2', b'"schema": 3'), "schema 3, this version reads"),
    ],
)
def test_what_was_altered_is_named(file, harm, says, runs, tmp_path):
    path = reference.write("pipesgd", runs, tmp_path) / file
    if harm:
        path.write_bytes(harm(path.read_bytes()))
    else:
        path.unlink()
    with pytest.raises(InputError, match=says) as caught:
        reference.read("pipesgd", tmp_path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


class Killed(BaseException):
    """As by SIGKILL: nothing that follows runs, nothing is cleaned up."""


def killed_after(monkeypatch, steps, call):
    """A call that dies after so many changes of what names the disk has; whether it did not come to its end."""
    left = [steps]
    with monkeypatch.context() as patch:

        def counted(step):
            def or_dies(*arguments, **options):
                left[0] -= 1
                if left[0] < 0:
                    raise Killed
                return step(*arguments, **options)

            return or_dies

        for name in ("mkdir", "replace", "unlink"):
            patch.setattr(os, name, counted(getattr(os, name)))
        try:
            call()
        except Killed:
            return True
    return False


@pytest.mark.parametrize("before", [0, 2], ids=["first", "second"])
def test_a_publish_that_is_killed_leaves_the_old_reference_or_the_new(runs, tmp_path, monkeypatch, before):
    monkeypatch.setattr(reference, "reference_root", lambda: tmp_path / "cut")
    old, reached = runs[:before], []
    if old:
        reference.write("pipesgd", old, tmp_path / "old")
    whole = {path.name: path.read_bytes() for path in reference.write("pipesgd", runs, tmp_path / "whole").iterdir()}
    for steps in itertools.count():
        shutil.rmtree(tmp_path / "cut", ignore_errors=True)
        if old:
            shutil.copytree(tmp_path / "old", tmp_path / "cut")
        if not killed_after(monkeypatch, steps, lambda: reference.write("pipesgd", runs)):
            break
        found = reference.read("pipesgd")
        reached.append(found == runs)
        assert found in (old, runs)
        assert reference.papers() == (["pipesgd"] if found else [])
        again = [*found, runs[-1]] if found == old else found  # what the next publish keeps, and adds
        folder = reference.write("pipesgd", again)
        assert reference.read("pipesgd") == again
        assert {path.name for path in folder.iterdir()} == whole.keys()
    assert len(reached) > 10 and reached == sorted(reached) and {*reached} == {False, True}
    assert {path.name: path.read_bytes() for path in (tmp_path / "cut" / "pipesgd").iterdir()} == whole


def test_a_run_that_is_none_is_named(runs, tmp_path, monkeypatch):
    def spoilt(plain):
        bed = plain["identity"]["testbed"] | {"alpha_s": "four"}
        return plain | {"identity": plain["identity"] | {"testbed": bed}}

    with monkeypatch.context() as written:
        written.setattr(reference, "_without_lists", spoilt)
        reference.write("pipesgd", runs[:1], tmp_path)
    with pytest.raises(InputError, match=r"runs\.parquet: configurations/probe: not a readable run \(.*alpha_s"):
        reference.read("pipesgd", tmp_path)


def test_a_run_of_the_workspace_takes_the_place_of_the_same_in_the_reference(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "results_root", lambda: tmp_path / "workspace")
    monkeypatch.setattr(catalogue, "reference_root", lambda: tmp_path / "reference")
    monkeypatch.setattr(reference, "reference_root", lambda: tmp_path / "reference")
    committed = [make("D-Sync", seed=seed, batch=100, run=name) for seed, name in ((0, "a"), (1, "b"))]
    reference.write("pipesgd", published(committed))
    for seed, name in ((1, "b"), (2, "c")):
        folder = tmp_path / "workspace" / "pipesgd" / "fig4-mnist" / name
        folder.mkdir(parents=True)
        write_summary(folder, make("D-Sync", seed=seed, batch=7, run=name))

    def found(root=None):
        return [(run.summary["seed"], run.summary["batch"], run.origin) for run in catalogue.runs("pipesgd", root)]

    mine = [(1, 7, "workspace"), (2, 7, "workspace")]
    assert found() == [(0, 100, "reference"), *mine]
    assert found(tmp_path / "workspace") == mine
    assert found(tmp_path / "reference") == [(0, 100, "reference"), (1, 100, "reference")]
    table = catalogue.table("runs", catalogue.runs("pipesgd"))
    assert list(table["origin"]) == ["reference", "workspace", "workspace"] and list(table["batch"]) == [100, 7, 7]


TABLE = tidy.frame(
    [
        {"strategy": "dsync", "workers": 4, "step_s": 0.5, "standin": True, "mixed": 1},
        {"strategy": "pipe_sgd", "workers": 8, "step_s": None, "standin": False, "mixed": "T"},
        {"strategy": "ps_sync", "workers": None, "step_s": 2, "standin": None},
    ]
)


@pytest.mark.parametrize(
    ("conditions", "names"),
    [
        ([], ["dsync", "pipe_sgd", "ps_sync"]),
        (["workers=4"], ["dsync"]),
        (["workers!=4"], ["pipe_sgd"]),
        ([" step_s >= 0.5 "], ["dsync", "ps_sync"]),
        (["step_s>=0.5", "step_s<2"], ["dsync"]),
        (["strategy!=dsync"], ["pipe_sgd", "ps_sync"]),
        (["standin=false"], ["pipe_sgd"]),
        (["mixed=1"], ["dsync"]),
        (["strategy=a=b"], []),
    ],
)
def test_rows_are_chosen_by_their_columns(conditions, names):
    assert list(chosen(TABLE, conditions)["strategy"]) == names


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("workers", "--where workers: must be COLUMN, one of = != < <= > >=, and a value"),
        ("worker=4", "unknown column 'worker'; nearest: workers"),
        ("workers=four", "'four' is no number"),
        ("standin>true", "must be =true or =false"),
        ("strategy<dsync", "strategy holds text"),
    ],
)
def test_conditions_that_are_none(condition, says):
    with pytest.raises(InputError) as caught:
        chosen(TABLE, [condition])
    assert says in str(caught.value)


def test_columns_have_one_type():
    assert dict(TABLE.dtypes.astype(str)) == {
        "strategy": "object", "workers": "Int64", "step_s": "float64", "standin": "boolean", "mixed": "object",
    }  # fmt: skip


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
