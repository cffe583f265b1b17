"""The RO-Crate of the reference, read back by its library."""

from __future__ import annotations

import json

import pyarrow
import pyarrow.parquet
import yaml
from rocrate.rocrate import ROCrate

from repro.core.paths import reference_root
from repro.records import crate


def files_of(folder):
    return {path.relative_to(folder).as_posix() for path in folder.glob("*/*") if path.suffix in crate.FORMATS}


def test_a_crate_has_the_files_licence_and_papers_and_the_same_bytes_again(tmp_path):
    for paper, ends in (("a", ["2026-11-01T10:00:00", None]), ("b", ["2026-11-03T10:00:00"])):
        (tmp_path / paper).mkdir()
        pyarrow.parquet.write_table(pyarrow.table({"finished_at": ends}), tmp_path / paper / "runs.parquet")
        (tmp_path / paper / "verdicts.json").write_text("{}")
    (tmp_path / "publish.lock").touch()
    first = crate.write_crate(tmp_path).read_bytes()
    assert crate.write_crate(tmp_path).read_bytes() == first
    read = ROCrate(tmp_path)
    assert {entity.id for entity in read.data_entities} == files_of(tmp_path) and len(files_of(tmp_path)) == 4
    assert str(read.root_dataset["datePublished"]) == "2026-11-03" and "Apache-2.0" in str(read.root_dataset["license"])
    cited = yaml.safe_load(crate.CITATION.read_text())
    assert [paper["name"] for paper in read.root_dataset["citation"]] == [each["title"] for each in cited["references"]]


def test_the_committed_crate_lists_every_file_of_the_reference():
    """If not: `repro verify --write`."""
    read = ROCrate(reference_root())
    assert {entity.id for entity in read.data_entities} == files_of(reference_root())
    assert all(entity.get("name") for entity in read.data_entities) and json.dumps(read.metadata.generate())
