"""What is kept on disk, and until when."""

from __future__ import annotations

import pytest

from repro.core import user_cache


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_value_is_kept_until_what_it_came_from_changes(tmp_path):
    source, folder = tmp_path / "source", tmp_path / "folder"
    source.write_text("one")
    assert user_cache.load_cached("plan", ["a", 1]) is None
    user_cache.save_cached("plan", ["a", 1], {"is": [1, None]}, [str(source), str(folder)])
    assert user_cache.load_cached("plan", ["a", 1]) == {"is": [1, None]}
    assert user_cache.load_cached("plan", ["a", 2]) is None and user_cache.load_cached("page", ["a", 1]) is None
    folder.mkdir()
    assert user_cache.load_cached("plan", ["a", 1]) is None
    folder.rmdir()
    assert user_cache.load_cached("plan", ["a", 1]) is not None
    source.write_text("three")
    assert user_cache.load_cached("plan", ["a", 1]) is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1]", b"3", b'{"watched": 3, "value": 1}', b'{"value": 1}', b"\xff\x00"]
)
def test_a_broken_file_is_ignored_and_written_anew(cache, content):
    user_cache.save_cached("plan", 1, "value")
    (file,) = (cache / "repro-remembered").iterdir()
    file.write_bytes(content)
    assert user_cache.load_cached("plan", 1) is None
    user_cache.save_cached("plan", 1, "value")
    assert user_cache.load_cached("plan", 1) == "value"


def test_the_oldest_go_and_a_folder_that_cannot_be_written_keeps_nothing(cache, monkeypatch):
    monkeypatch.setattr(user_cache, "KEPT", 3)
    for number in range(6):
        user_cache.save_cached("plan", number, number)
    assert len(list((cache / "repro-remembered").iterdir())) == 3
    assert user_cache.load_cached("plan", 0) is None and user_cache.load_cached("plan", 5) == 5
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    user_cache.save_cached("plan", 1, 1)
    assert user_cache.load_cached("plan", 1) is None


def test_a_tree_is_another_where_a_file_that_counts_is(tmp_path):
    (tmp_path / "inner" / "out").mkdir(parents=True)
    code, other, left = tmp_path / "inner" / "a.py", tmp_path / "b.txt", tmp_path / "inner" / "out" / "c.py"

    def digest() -> str:
        return user_cache.tree_digest([tmp_path], (".py",), ["out"])

    states = [digest()]
    code.write_text("x = 1")
    states.append(digest())
    code.write_text("x = 10")
    states.append(digest())
    assert len(set(states)) == 3
    other.write_text("")
    left.write_text("")
    assert digest() == states[-1]
    assert user_cache.tree_digest([tmp_path]) != user_cache.tree_digest([tmp_path], ("",), ["out"])
