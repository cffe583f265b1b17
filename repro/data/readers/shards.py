"""Images in WebDataset shards: numbered tar files, in which consecutive entries with one key are a sample.

A sample has an image (jpg, jpeg or png) and the number of its class (cls). The library `webdataset` groups entries into
samples, but reads shards as streams. Here the position of every image is read from the tar headers, once for a set of
shards, so that images can be drawn in the order of `Batches`. Shards avoid a million files.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO, FileIO
from pathlib import Path
from typing import Any, NamedTuple

from repro.core.errors import InputError, NotHere, cannot_access
from repro.data import files

PATTERNS = {"train": "*-train-*.tar", "val": "*-val*-*.tar"}
NUMBERED = re.compile(r"(.*-)(\d+)\.tar")
IMAGES = ("jpg", "jpeg", "png")
# Limits that bound the memory for untrusted shards; ImageNet has 1.3 million images, ImageNet22K 14.2.
MOST_BYTES = 2**26  # of an image's file
MOST_DIGITS = 32  # bytes of a class's number
MOST_HEADER = 2**16  # bytes of an extended header, such as a long name
MOST_MEMBERS = 2**22  # of a shard
MOST_IMAGES = 2**25  # of all shards of a part

Row = tuple[str, int, int, int]  # of an image: its entry's name, offset and size in the shard, class


class Entry(NamedTuple):
    """An image in a shard: `size` bytes at `offset`."""

    shard: Path
    name: str
    offset: int
    size: int

    def __str__(self) -> str:
        return f"{self.shard}/{self.name}"

    def open(self, mode: str) -> BytesIO:
        """The image as an open file; OSError if the shard is too short."""
        with open(self.shard, mode) as file:
            content = os.pread(file.fileno(), self.size, self.offset)
        if len(content) < self.size:
            raise OSError("the shard ends before the image does")
        return BytesIO(content)


def find_shards(folder: Path, part: str) -> list[Path]:
    """The shards of a part in order; InputError if one is missing."""
    shards = {}
    for path in folder.glob(PATTERNS[part]):
        if match := NUMBERED.fullmatch(path.name):
            shards[match[1], int(match[2])] = path
    stems = sorted({stem for stem, _ in shards})
    if len(stems) > 1:
        patterns = " and ".join(f"{stem}*.tar" for stem in stems)
        raise InputError(f"{folder}: shards of {part} have names {patterns}; must have one pattern")
    for number in range(len(shards)):
        if (stems[0], number) not in shards:
            raise InputError(f"{folder}: of {stems[0]}*.tar number {number} is missing; they must count from 0")
    return [shards[key] for key in sorted(shards)]


def read_classes(folder: Path, most: int) -> list[list[list[Entry]]]:
    """The images of each class in train and in val, sorted by name.

    InputError for shards without images or with too many, for classes outside 0 to `most` - 1, and for classes in val
    that train does not have.
    """
    parts = {part: index_shards(find_shards(folder, part)) for part in PATTERNS}
    for part, entries in parts.items():
        if not entries:
            raise InputError(f"{folder}: no image in the shards of {part} ({PATTERNS[part]})")
        if len(entries) > MOST_IMAGES:
            raise InputError(f"{folder}: more than {MOST_IMAGES} images in the shards of {part}")
        for entry, label in entries:
            if label >= most:
                raise InputError(f"{entry}: class {label}, but {folder.name} has classes 0 to {most - 1}")
    count = 1 + max(label for _, label in parts["train"])
    by_class: list[list[list[Entry]]] = [[[] for _ in range(count)] for _ in parts]
    for entries, of_part in zip(parts.values(), by_class):
        for entry, label in entries:
            if label >= count:
                raise InputError(f"{entry}: class {label}, but the shards of train have classes 0 to {count - 1}")
            of_part[label].append(entry)
        for of_class in of_part:
            of_class.sort(key=lambda entry: (entry.name, entry.shard))
    return by_class


def index_shards(shards: list[Path]) -> list[tuple[Entry, int]]:
    """Every image and its class; cached in the user's cache while the files are unchanged."""
    states = [(str(path), (state := path.stat()).st_size, state.st_mtime_ns) for path in shards]
    name = hashlib.sha256(json.dumps(states).encode()).hexdigest()
    cache = files.cache_root() / "shards" / f"{name}.json"
    try:
        rows = json.loads(cache.read_bytes())
    except (OSError, ValueError):
        rows = [list(read_shard(shard)) for shard in shards]
        with suppress(OSError):  # without the cache, headers are read again the next time
            cache.parent.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=cache.parent)
            with open(descriptor, "w") as file:
                json.dump(rows, file)
            os.replace(temporary, cache)
    return [
        (Entry(shard, name, offset, size), label)
        for shard, of_shard in zip(shards, rows, strict=True)
        for name, offset, size, label in of_shard
    ]


def read_shard(shard: Path) -> Iterator[Row]:
    """The row of each sample; InputError with shard and entry of a malformed one, NotHere without the library."""
    try:
        from webdataset.tariterators import group_by_keys
    except ImportError:
        raise NotHere(f"{shard}: needs the library webdataset: pip install 'repro-harness[shards]'") from None
    if not shard.is_file():
        raise InputError(f"{shard}: no regular file")
    try:
        with Shard(shard) as file:
            for sample in group_by_keys(_entries(shard, file)):
                key = sample["__key__"]
                own_images = [sample[suffix] for suffix in IMAGES if suffix in sample]
                if len(own_images) != 1 or "cls" not in sample:
                    suffixes = ", ".join(suffix for suffix in sample if not suffix.startswith("__"))
                    raise InputError(
                        f"{shard}: sample {key} has {suffixes}; must have one of {', '.join(IMAGES)}, and cls"
                    )
                name, offset, size = own_images[0]
                if size > MOST_BYTES:
                    raise InputError(f"{shard}/{name}: {size} bytes, more than {MOST_BYTES}")
                yield name, offset, size, _label(shard, file, *sample["cls"])
    except ValueError as error:  # the library's error for a duplicate name
        raise InputError(f"{shard}: {error.args[0]}") from None
    except OSError as error:
        raise cannot_access("read", shard, error) from None


class Shard(FileIO):
    """A shard opened for `tarfile`, with a limit of the size of headers, which `tarfile` lacks."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or not 0 <= size <= MOST_HEADER:
            raise tarfile.ReadError(f"a header of {size} bytes, more than {MOST_HEADER}")
        return super().read(size) or b""


def _entries(shard: Path, file: Shard) -> Iterator[dict[str, Any]]:
    """The entries of a shard for the library, with name, offset and size in place of contents."""
    name = "its beginning"
    try:
        with tarfile.open(fileobj=file, mode="r:") as tar:
            for count in itertools.count(1):
                if (entry := tar.next()) is None:
                    break
                name = entry.name
                tar.members.clear()  # type: ignore[attr-defined]  # to save memory
                if count > MOST_MEMBERS:
                    raise InputError(f"{shard}: more than {MOST_MEMBERS} entries")
                # names like __this__ are metadata of the shard
                if entry.isreg() and not re.match(r"__[^/]*__($|/)", name):
                    yield {"fname": name, "data": (name, entry.offset_data, entry.size), "__url__": str(shard)}
            end = tar.offset
    except (tarfile.TarError, RecursionError) as error:
        raise InputError(f"{shard}: not a complete tar file, damaged at {name} ({error})") from None
    # tarfile also stops at a malformed header
    if os.pread(file.fileno(), tarfile.BLOCKSIZE, end) != bytes(tarfile.BLOCKSIZE):
        raise InputError(f"{shard}: not a complete tar file, damaged after {name}")


def _label(shard: Path, file: Shard, name: str, offset: int, size: int) -> int:
    text = os.pread(file.fileno(), min(size, MOST_DIGITS), offset)
    if size > MOST_DIGITS or not text.strip().isdigit():
        raise InputError(f"{shard}/{name}: {text.decode(errors='replace')!r}; must be a class's number, 0 or more")
    return int(text)
