"""A sweep: one variant of an experiment, simulated at many draws of its assumed inputs (docs/design.md, Inputs).

It is stored as JSON lines, `draws.jsonl`, in the variant's folder. The first line has the record of the configured run;
each other line a draw's number, values and result. An interrupted sweep continues; more draws extend it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, overload

from repro.core import safe_files, user_files
from repro.core.errors import InputError, cannot_access
from repro.core.terminal import warn
from repro.records import variants
from repro.records.events import drop_torn_line, take_checksum, with_checksum
from repro.records.record import CONTENTS, HasRecord, Record

FILE = "draws.jsonl"
CONFIGURED = -1  # the number of the draw with all inputs as configured


@dataclass(frozen=True)
class Draw:
    """A draw; values: the configuration entries set for each input; result: parts of `Record.result`."""

    number: int
    values: dict[str, dict[str, Any]]
    result: dict[str, Any]


@dataclass(frozen=True)
class Sweep(HasRecord):
    """record: of the configured run (draw `CONFIGURED`); draws: by number, from 0."""

    key: str
    record: Record
    draws: Sequence[Draw] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.record.name


def shorten_result(result: dict[str, Any]) -> dict[str, Any]:
    """The parts of a result that a draw stores, with numbers of nine digits, and means over ranks."""
    stored = {name: part for name, part in result.items() if CONTENTS[name].drawn}
    if per_rank := [rank for rank in stored.get("per_rank") or () if rank]:
        stored["per_rank"] = [_means(per_rank)]
    return {name: _rounded(part) for name, part in stored.items()}


def _means(ranks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The mean of each number over the ranks that have it; the first value of other entries."""
    names = dict.fromkeys(name for rank in ranks for name in rank)
    return {name: _mean([rank[name] for rank in ranks if name in rank]) for name in names}


def _mean(values: list[Any]) -> Any:
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return fmean(values)
    return _means(values) if all(isinstance(value, dict) for value in values) else values[0]


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, list) else value


def first_line(key: str, record: Record) -> str:
    """The first line: the record without traced steps, which a run of the same variant has."""
    plain = record.plain()
    result = {name: part for name, part in plain["result"].items() if name != "trace"}
    return _line({"key": key, "record": plain | {"result": result}})


def line_of(draw: Draw) -> str:
    return _line({"draw": draw.number, "values": draw.values, "result": draw.result})


def _line(entry: dict[str, Any]) -> str:
    return with_checksum(json.dumps(entry, sort_keys=True, allow_nan=False, separators=(",", ":"))) + "\n"


def append(folder: Path, lines: Sequence[str]) -> None:
    """Append whole lines, after removing an incomplete last line that a crash may have left."""
    path = folder / FILE
    try:
        safe_files.make_folder(folder)
        with safe_files.open_file(path, "ab", buffering=0) as file:
            drop_torn_line(path)
            file.write("".join(lines).encode())
    except OSError as error:
        raise cannot_access("write", path, error) from None


def read(folder: Path) -> Sweep | None:
    """The sweep in a folder, None if there is none; InputError for an invalid file."""
    path = folder / FILE
    try:
        data = safe_files.read_safely(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise cannot_access("read", path, error) from None
    return of_lines(data[: data.rfind(b"\n") + 1].splitlines(), str(path))


def usable_sweep(folder: Path) -> Sweep | None:
    """Like `read`, but with a warning and None for an invalid file."""
    try:
        return read(folder)
    except InputError as error:
        warn(f"{error}; left out")
        return None


def of_lines(lines: Sequence[bytes | str], where: str) -> Sweep | None:
    """The sweep of a file's lines; None if there are none."""
    entries = [_parsed(line, f"{where}, line {number}") for number, line in enumerate(lines, start=1)]
    if not entries:
        return None
    try:
        first = entries[0]
        draws = {each["draw"]: Draw(each["draw"], each["values"], each["result"]) for each in entries[1:]}
        key, record, numbers = first["key"], Record.of(first["record"]), sorted(draws)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{where}: no sweep ({error}); remove the file to draw anew") from None
    if numbers != list(range(len(draws))):
        raise InputError(f"{where}: draws are missing; remove the file to draw anew")
    return Sweep(key, record, [draws[number] for number in numbers])


def _parsed(line: bytes | str, where: str) -> dict[str, Any]:
    text = line if isinstance(line, bytes) else line.encode()
    try:
        entry: dict[str, Any] = user_files.parse_json(text)
        take_checksum(entry, text)
    except (ValueError, AttributeError) as error:
        raise InputError(f"{where}: altered ({error}); remove the file to draw anew") from None
    return entry


class PublishedDraws(Sequence[Draw]):
    """The draws of a published sweep, a line each by number, parsed when the first one is read: a paper has thousands,
    and a claim reads those of one experiment. InputError, then, for lines that `of_lines` refuses."""

    def __init__(self, lines: Sequence[str], where: str):
        self.lines, self.where = lines, where

    @cached_property
    def parsed(self) -> Sequence[Draw]:
        whole = of_lines(self.lines, self.where)
        return whole.draws if whole else []

    def __len__(self) -> int:
        return len(self.lines) - 1

    @overload
    def __getitem__(self, place: int) -> Draw: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Draw]: ...

    def __getitem__(self, place: int | slice) -> Draw | Sequence[Draw]:
        return self.parsed[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]


def read_published(lines: Sequence[str], where: str) -> Sweep:
    """The sweep of the lines that `lines_of` gave when it was published; the table's digest guards them."""
    first = of_lines(lines[:1], where)
    if first is None:
        raise InputError(f"{where}: no sweep (no lines)")
    return replace(first, draws=PublishedDraws(lines, where))


def lines_of(sweep: Sweep) -> list[str]:
    """The lines of a sweep's file."""
    return [first_line(sweep.key, sweep.record), *map(line_of, sweep.draws)]


def newest_sweeps(before: Iterable[Sweep], new: Iterable[Sweep]) -> list[Sweep]:
    """One sweep per variant: the newest of the new ones, otherwise the one before."""
    new = variants.newest(new, variants.place)
    replaced = {variants.place(each) for each in new}
    return [*(each for each in before if variants.place(each) not in replaced), *new]


def find_shorter(before: Iterable[Sweep], new: Iterable[Sweep]) -> list[tuple[Sweep, Sweep]]:
    """The new sweeps with fewer draws than the one before of their variant, each with that one: interrupted ones, or
    ones of fewer draws."""
    longest = {variants.place(each): each for each in before}
    pairs = [(each, longest.get(variants.place(each))) for each in new]
    return [(each, longer) for each, longer in pairs if longer and len(each.draws) < len(longer.draws)]


def folders(root: Path, paper: str = "*") -> Iterable[Path]:
    return sorted(path.parent for path in root.glob(f"{paper}/*/*/{FILE}"))
