"""What is kept on disk, and until when."""

from __future__ import annotations

import pytest

from repro.core import remembered


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_value_is_kept_until_what_it_came_from_changes(tmp_path):
    source, folder = tmp_path / "source", tmp_path / "folder"
    source.write_text("one")
    assert remembered.recall("plan", ["a", 1]) is None
    remembered.remember("plan", ["a", 1], {"is": [1, None]}, [str(source), str(folder)])
    assert remembered.recall("plan", ["a", 1]) == {"is": [1, None]}
    assert remembered.recall("plan", ["a", 2]) is None and remembered.recall("page", ["a", 1]) is None
    folder.mkdir()
    assert remembered.recall("plan", ["a", 1]) is None
    folder.rmdir()
    assert remembered.recall("plan", ["a", 1]) is not None
    source.write_text("three")
    assert remembered.recall("plan", ["a", 1]) is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1]", b"3", b'{"watched": 3, "value": 1}', b'{"value": 1}', b"\xff\x00"]
)
def test_a_broken_file_is_ignored_and_written_anew(cache, content):
    remembered.remember("plan", 1, "value")
    (file,) = (cache / "repro-remembered").iterdir()
    file.write_bytes(content)
    assert remembered.recall("plan", 1) is None
    remembered.remember("plan", 1, "value")
    assert remembered.recall("plan", 1) == "value"


def test_the_oldest_go_and_a_folder_that_cannot_be_written_keeps_nothing(cache, monkeypatch):
    monkeypatch.setattr(remembered, "KEPT", 3)
    for number in range(6):
        remembered.remember("plan", number, number)
    assert len(list((cache / "repro-remembered").iterdir())) == 3
    assert remembered.recall("plan", 0) is None and remembered.recall("plan", 5) == 5
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    remembered.remember("plan", 1, 1)
    assert remembered.recall("plan", 1) is None


def test_a_tree_is_another_where_a_file_that_counts_is(tmp_path):
    (tmp_path / "inner" / "out").mkdir(parents=True)
    code, other, left = tmp_path / "inner" / "a.py", tmp_path / "b.txt", tmp_path / "inner" / "out" / "c.py"

    def digest() -> str:
        return remembered.tree([tmp_path], (".py",), ["out"])

    states = [digest()]
    code.write_text("x = 1")
    states.append(digest())
    code.write_text("x = 10")
    states.append(digest())
    assert len(set(states)) == 3
    other.write_text("")
    left.write_text("")
    assert digest() == states[-1] and remembered.tree([tmp_path]) != remembered.tree([tmp_path], ("",), ["out"])
