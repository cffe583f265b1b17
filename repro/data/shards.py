"""Images in WebDataset shards: numbered tar files in which neighbouring entries of one key are a sample, an image (jpg,
jpeg or png) and the number of its class (cls).

Which entries are a sample the library `webdataset` says. It reads shards as streams; here the place of every image is
taken from the tar files' headers, once for a set of shards, so that an image is drawn as one in a folder is: by the
order of `Batches`, which no number of ranks or threads, and no resume, changes. What shards save is a million files.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from repro.common.errors import InputError, NotHere, cannot
from repro.data import files

PATTERNS = {"train": "*-train-*.tar", "val": "*-val*-*.tar"}
NUMBERED = re.compile(r"(.*-)(\d+)\.tar")
IMAGES = ("jpg", "jpeg", "png")

Row = tuple[str, int, int, int]  # of an image: its entry's name, offset and bytes in the shard, class


class Entry(NamedTuple):
    """An image in a shard: `size` bytes from `offset` on."""

    shard: Path
    name: str
    offset: int
    size: int

    def __str__(self) -> str:
        return f"{self.shard}/{self.name}"

    def open(self, mode: str) -> BytesIO:
        """Its bytes, as a file open for reading; OSError where they are not there."""
        with open(self.shard, mode) as file:
            found = os.pread(file.fileno(), self.size, self.offset)
        if len(found) < self.size:
            raise OSError("the shard ends before it does")
        return BytesIO(found)


def of(folder: Path, part: str) -> list[Path]:
    """The shards of a part in their order; none where there are none. InputError where one of them is missing."""
    found = {}
    for path in folder.glob(PATTERNS[part]):
        if match := NUMBERED.fullmatch(path.name):
            found[match[1], int(match[2])] = path
    stems = sorted({stem for stem, _ in found})
    if len(stems) > 1:
        named = " and ".join(f"{stem}*.tar" for stem in stems)
        raise InputError(f"{folder}: shards of {part} go by {named}; must be one")
    for number in range(len(found)):
        if (stems[0], number) not in found:
            raise InputError(f"{folder}: of {stems[0]}*.tar number {number} is missing; they must count from 0")
    return [found[key] for key in sorted(found)]


def classes(folder: Path) -> list[list[list[Entry]]]:
    """Of train and of val each class's images, in the order of their names. InputError for shards without an image, and
    for a class in val that train does not have."""
    parts = {part: index(of(folder, part)) for part in PATTERNS}
    if empty := [part for part, found in parts.items() if not found]:
        raise InputError(f"{folder}: no image in the shards of {empty[0]} ({PATTERNS[empty[0]]})")
    count = 1 + max(label for _, label in parts["train"])
    by_class: list[list[list[Entry]]] = [[[] for _ in range(count)] for _ in parts]
    for found, of_part in zip(parts.values(), by_class):
        for entry, label in found:
            if label >= count:
                raise InputError(f"{entry}: of class {label}, and the shards of train have classes 0 to {count - 1}")
            of_part[label].append(entry)
        for one in of_part:
            one.sort(key=lambda entry: (entry.name, entry.shard))
    return by_class


def index(shards: list[Path]) -> list[tuple[Entry, int]]:
    """Every image and its class. What was found is kept in the user's cache for as long as the files are the same."""
    states = [(str(path), (state := path.stat()).st_size, state.st_mtime_ns) for path in shards]
    name = hashlib.sha256(json.dumps(states).encode()).hexdigest()
    note = files.cache_root() / "shards" / f"{name}.json"
    try:
        rows = json.loads(note.read_bytes())
    except (OSError, ValueError):
        rows = [list(images(shard)) for shard in shards]
        _keep(note, rows)
    return [
        (Entry(shard, name, offset, size), label)
        for shard, found in zip(shards, rows, strict=True)
        for name, offset, size, label in found
    ]


def _keep(note: Path, rows: list[list[Row]]) -> None:
    """Ranks may do so at the same time; where nothing can be written the headers will be read again."""
    with suppress(OSError):
        note.parent.mkdir(parents=True, exist_ok=True)
        descriptor, own = tempfile.mkstemp(dir=note.parent)
        with open(descriptor, "w") as file:
            json.dump(rows, file)
        os.replace(own, note)


def images(shard: Path) -> Iterator[Row]:
    """Of each sample; InputError naming the shard and the entry that is wrong in it. NotHere without the library."""
    try:
        from webdataset.tariterators import group_by_keys
    except ImportError:
        raise NotHere(f"{shard}: needs the library webdataset: pip install 'repro-harness[shards]'") from None
    try:
        with open(shard, "rb") as file:
            for sample in group_by_keys(_entries(shard, file)):
                key = sample["__key__"]
                found = [sample[suffix] for suffix in IMAGES if suffix in sample]
                if len(found) != 1 or "cls" not in sample:
                    there = ", ".join(suffix for suffix in sample if not suffix.startswith("__"))
                    raise InputError(
                        f"{shard}: sample {key} has {there}; must have one of {', '.join(IMAGES)}, and cls"
                    )
                yield (*found[0], _label(shard, file, *sample["cls"]))
    except ValueError as error:  # of the library, for a name that is there twice
        raise InputError(f"{shard}: {error.args[0]}") from None
    except OSError as error:
        raise cannot("read", shard, error) from None


def _entries(shard: Path, file: BinaryIO) -> Iterator[dict[str, Any]]:
    """What the library takes for a file of a shard, with name, offset and bytes in the place of its contents."""
    name = "its beginning"
    try:
        with tarfile.open(fileobj=file, mode="r:") as tar:
            while entry := tar.next():
                name = entry.name
                # names like __this__ are of the shard, not of a sample
                if entry.isreg() and not re.match(r"__[^/]*__($|/)", name):
                    yield {"fname": name, "data": (name, entry.offset_data, entry.size), "__url__": str(shard)}
            end = tar.offset
    except tarfile.TarError as error:
        raise InputError(f"{shard}: no whole tar file, damaged at {name} ({error})") from None
    # a header that makes no sense is the end to tarfile, too
    if os.pread(file.fileno(), tarfile.BLOCKSIZE, end) != bytes(tarfile.BLOCKSIZE):
        raise InputError(f"{shard}: no whole tar file, damaged after {name}")


def _label(shard: Path, file: BinaryIO, name: str, offset: int, size: int) -> int:
    text = os.pread(file.fileno(), min(size, 32), offset)
    if not text.strip().isdigit():
        raise InputError(f"{shard}/{name}: {text.decode(errors='replace')!r}; must be a class's number, 0 or more")
    return int(text)
