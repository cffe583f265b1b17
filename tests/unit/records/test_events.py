"""The event log survives crashes, full disks and resumes."""

import errno
import json
import math
import os

import numpy
import pytest

from repro.common.errors import InputError
from repro.records.events import EventLog, EventTail, cut_back, read_events


def write(path, *lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_append_is_buffered_until_flush(tmp_path):
    log = EventLog(tmp_path / "deep" / "events.jsonl")
    log.append("run_start", key="k")
    assert read_events(log.path) == []
    log.flush()
    assert read_events(log.path) == [{"event": "run_start", "key": "k"}]
    log.append("run_end")
    log.close()
    assert [event["event"] for event in read_events(log.path)] == ["run_start", "run_end"]


def test_fields_are_copied_and_made_plain(tmp_path):
    phases = {"forward": 1.0}
    with EventLog(tmp_path / "e") as log:
        log.append("steps", phases=phases, loss=math.inf, n=numpy.int64(3), x=numpy.float32("nan"), pair=(1, math.nan))
        phases["forward"] = 2.0
    [event] = read_events(log.path)
    assert event == {"event": "steps", "phases": {"forward": 1.0}, "loss": None, "n": 3, "x": None, "pair": [1, None]}


def test_a_torn_last_line_is_tolerated_and_dropped_on_opening(tmp_path):
    path = tmp_path / "e"
    path.write_bytes(b'{"event":"a"}\n{"event":"b","x":"' + b"y" * 200_000)
    assert [event["event"] for event in read_events(path)] == ["a"]
    with EventLog(path) as log:
        log.append("c")
    assert [event["event"] for event in read_events(path)] == ["a", "c"]


def test_a_file_of_one_torn_line_becomes_empty(tmp_path):
    path = tmp_path / "e"
    path.write_bytes(b'{"ev')
    EventLog(path).close()
    assert path.read_bytes() == b""


@pytest.mark.parametrize(
    "bad", ['{"event": "b"', "[]", "[" * 100_000, "\0" * 9, '{"no": 1}', "", '{"event": "resume"}', "\xff"]
)
def test_a_corrupt_line_in_the_middle_names_file_and_line(tmp_path, bad):
    path = tmp_path / "e"
    path.write_bytes(b'{"event":"a"}\n' + bad.encode("latin-1") + b'\n{"event":"c"}\n')
    with pytest.raises(InputError, match=r"e:2: not an event") as caught:
        read_events(path)
    assert "\n" not in str(caught.value)


def test_every_changed_bit_is_found(tmp_path):
    path = tmp_path / "e"
    with EventLog(path) as log:
        for n in (8, 9):
            log.append("steps", iteration=n, n=n, loss=0.25, step_s=[1.5])
    line = path.read_bytes().splitlines(keepends=True)[0]
    for place in range(8 * (len(line) - 1)):
        bad = bytearray(path.read_bytes())
        bad[place // 8] ^= 1 << place % 8
        changed = tmp_path / "changed"
        changed.write_bytes(bad)
        try:
            events = read_events(changed)
        except InputError:
            continue
        # only the name of the checksum itself: what the event says is whole
        assert [{name: event[name] for name in ("n", "loss", "step_s")} for event in events] == [
            {"n": n, "loss": 0.25, "step_s": [1.5]} for n in (8, 9)
        ]


def test_cutting_back_names_the_line(tmp_path):
    path = tmp_path / "e"
    good, rest = b'{"event":"a"}\n{"event":"b"}\n', b'{"event":"c"}\n'
    path.write_bytes(good + rest)
    assert cut_back(path) is None and path.read_bytes() == good + rest
    for bad in (b"\0" * 20, b"{", b"[" * 100_000):
        path.write_bytes(good + bad + b"\n" + rest)
        line = cut_back(path)
        assert line.startswith(f"{path}:3: not an event") and "\n" not in line
        assert path.read_bytes() == good


def test_a_resume_takes_back_what_came_after_its_checkpoint(tmp_path):
    path = tmp_path / "e"
    write(
        path,
        {"event": "run_start"},
        {"event": "steps", "iteration": 10, "try": 1},
        {"event": "checkpoint", "iteration": 10},
        {"event": "steps", "iteration": 20, "try": 1},
        {"event": "evaluation", "iteration": 20, "try": 1},
        {"event": "failed", "reason": "killed"},
        {"event": "resume", "iteration": 10},
        {"event": "steps", "iteration": 20, "try": 2},
        {"event": "resume", "iteration": 10},
        {"event": "steps", "iteration": 20, "try": 3},
    )
    events = read_events(path)
    assert [event["try"] for event in events if event["event"] == "steps"] == [1, 3]
    assert [event["event"] for event in events].count("resume") == 2
    assert "evaluation" not in [event["event"] for event in events]
    assert "failed" in [event["event"] for event in events]


def test_every_resume_stays_to_be_counted(tmp_path):
    path = tmp_path / "e"
    resumes = [{"event": "resume", "iteration": 5}, {"event": "resume", "iteration": 0}]
    write(path, {"event": "steps", "iteration": 5}, *resumes)
    assert read_events(path) == resumes


def test_the_tail_returns_each_whole_line_once(tmp_path):
    path = tmp_path / "e"
    tail = EventTail(path)
    assert tail.read() == []
    path.write_text('{"event":"a"}\n{"eve')
    assert tail.read() == [{"event": "a"}]
    assert tail.read() == []
    path.write_text('{"event":"a"}\n{"event":"b"}\n')
    assert tail.read() == [{"event": "b"}]
    path.write_text('{"event":"a"}\n{"event":"b"}\nbroken\n')
    with pytest.raises(InputError, match=":3:"):
        tail.read()


def test_an_unwritable_place_is_one_line_with_status_2(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write .*events\.jsonl") as caught:
        EventLog(tmp_path / "file" / "events.jsonl")
    assert caught.value.status == 2
    with pytest.raises(InputError, match="cannot read"):
        read_events(tmp_path)


def test_a_full_disk_leaves_no_half_line(tmp_path, monkeypatch):
    log = EventLog(tmp_path / "e")
    log.append("first")
    log.flush()
    before, real = log.path.read_bytes(), os.write

    def full(descriptor, data):
        if len(data) > 10:
            return real(descriptor, data[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    log.append("x" * 7)
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(InputError, match="disk full"):
        log.flush()
    monkeypatch.undo()
    assert log.path.read_bytes() == before
