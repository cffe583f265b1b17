"""The data sets, one file each in `sets/`: real where the files are found, else a stand-in that needs no download and
is named so.

    of(config)                                  -> Dataset (repro.data.base) of a run, raises InputError
    load("mnist", root=None, standin="auto")    the same by name, with the options of its module
    shapes("imagenet")                          its sizes without its contents, for timing without arithmetic
    ensure("mnist", root=None, standin="auto")  search, else download, else stand-in; says in one line which
    status()                                    rows for `repro data list`; imports no torch

A data set's module holds `FILES` (file name -> size and checksums), `MIRRORS` (where they may be downloaded; with
`ARCHIVE` in one tarball; without FILES never, and `MISSING` says what to do), `OPTIONS` (names of what the
configuration may set; those of `repro.data.augmentation` among them are applied here), `STANDIN` (the stand-in's name),
`find(root)`, and, each taking the other options, `read(folder)` and `standin()`, both giving a `Dataset`, and
`shapes()`. `TASK` and `KIND` (see `repro.data.base`) where they are not classification of images.

A module that this does not fit has `load(root, standin, **options)` in the place of `read` and `standin`, and in the
place of `shapes` it may have `timing(root, **options)`; both give the `Dataset`. `GENERATED = True`: there is nothing
to find, and no stand-in. `besides(root, standin)` says what is taken besides the files that `find` found, and raises
InputError as `load` does. Others register theirs through the entry-point group `repro.datasets` (NAME = "module").
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from repro.core.errors import InputError, NotHere, unknown
from repro.core.warnings import warn
from repro.data import augmentation, files
from repro.data.sources import REGISTRY, generated, kind, missing, module, module_of, names, task
from repro.experiment.schema import RunConfig

if TYPE_CHECKING:
    from repro.data.base import Dataset

STANDIN_MODES = ("auto", "never", "always")

# How long `ensure` waits for a mirror that does not answer, and for a whole download, in seconds.
QUICK_S, QUICK_TOTAL_S = 5.0, 180.0


def of(config: RunConfig) -> Dataset:
    """The data set of a run's configuration; the last one is kept, as the virtual ranks of one process share it.

    On a simulated testbed without arithmetic its shapes only: sizes are the real data set's, and no file is read but
    those that say how long each sample is.
    """
    root, name, options = config.data.root, config.dataset.name, dict(config.dataset.options)
    standin = options.pop("standin")
    places = tuple(map(str, files.places(root)))
    return _of(name, root, standin, config.timing_only, places, _frozen(options))


@functools.lru_cache(maxsize=1)
def _of(name: str, root: str | None, standin: str, shapes_only: bool, places: tuple, options: tuple) -> Dataset:
    return shapes(name, root, **dict(options)) if shapes_only else load(name, root, standin, **dict(options))


def _frozen(options: Mapping[str, Any]) -> tuple:
    """The options as a key; a list, which no option takes, as its text, for the option's own complaint."""
    return tuple((name, value if isinstance(value, Hashable) else str(value)) for name, value in options.items())


def forget() -> None:
    """Free the data set that `of` keeps."""
    _of.cache_clear()


def load(name: str, root: str | None = None, standin: str = "auto", **options: Any) -> Dataset:
    """The data set `name`.

    `root` is searched before $REPRO_DATA and the user's cache. `standin`: "auto" takes the stand-in where no file of
    the real data set is found, "never" raises InputError there, "always" does not look. A file that is found but is
    truncated or corrupt is an InputError in "auto" too: a damaged copy never turns into the stand-in. `options`: those
    of the data set's module; None means its default.
    """
    source = module(name)
    _check_mode(standin)
    given = _options(name, options)
    if hasattr(source, "load"):
        return source.load(root, standin, **given)
    from repro.data.readers.augment import augmented

    changes, given = augmentation.parted(given)
    folder = None if standin == "always" else source.find(root)
    if folder is not None:
        return augmented(source.read(folder, **given), changes)
    if standin == "never":
        raise NotHere(missing(name, root))
    return augmented(source.standin(**given), changes)


def shapes(name: str, root: str | None = None, **options: Any) -> Dataset:
    """The data set `name` in the real one's sizes, on the meta device: for timing without arithmetic.

    Reads nothing but how long each sample is, where samples differ in that: from files below `root`, $REPRO_DATA or the
    cache if they are there.
    """
    import torch

    from repro.data.base import AnySplit, Dataset, Split
    from repro.data.readers.text import Text

    source, given = module(name), _options(name, options)
    if hasattr(source, "timing"):
        return source.timing(root, **given)
    counts, classes, shape = source.shapes(**augmentation.parted(given)[1])
    splits: list[AnySplit]
    if kind(name) == "text":
        splits = [Text(torch.empty(count + 1, dtype=torch.int64, device="meta"), *shape) for count in counts]
    else:
        splits = [
            Split(torch.empty(count, *shape, device="meta"), torch.empty(count, dtype=torch.int64, device="meta"))
            for count in counts
        ]
    checksum = hashlib.sha256(f"{name} {counts} {classes} {shape}".encode()).hexdigest()
    return Dataset(f"{name} (shapes only)", False, checksum, *splits, classes=classes, input_shape=shape)


def extract(name: str, videos: str, root: str | None, device: str, say: Callable[[str], Any], /, **given: Any) -> None:
    """Make of a folder of videos (`data.videos`) what the data set `name` reads and does not find, once.

    InputError for a data set that is not made of videos. `device` as in the configuration; `given`: the data set's
    options, which say which videos.
    """
    import torch

    source, options = module(name), _options(name, given)
    if not hasattr(source, "extract"):
        raise InputError(f"data.videos={videos}: data set '{name}' is not made of videos")
    where = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    source.extract(videos, root, where, say, **options)


def ensure(name: str, root: str | None = None, standin: str = "auto", say: Callable[[str], Any] = print) -> Path | None:
    """Have the data set there before a run: found, else downloaded into the cache, else the stand-in.

    Says in one line which it is. Returns the folder of the real files, or None for the stand-in. Raises InputError
    for a damaged or incomplete copy, and where `standin` is "never" and nothing can be had.
    """
    from repro.data.fetch import fetch

    source = module(name)
    _check_mode(standin)
    if generated(source):
        say(f"data: {name}, generated")
        return None
    if standin == "always":
        say(f"data: {source.STANDIN} (stand-in for {name}, asked for)")
        return None
    if folder := source.find(root):
        say(f"data: {name}, found in {folder}{_checked(source)}{_besides(source, root, standin)}")
        return folder
    try:
        folder = fetch(name, timeout_s=QUICK_S, total_s=QUICK_TOTAL_S)
    except InputError as error:
        if standin == "never":
            raise NotHere(str(error)) from None
        say(
            f"data: {source.STANDIN} (stand-in: {name} is not on this machine and could not be downloaded; "
            f"`repro data fetch {name}` says {'why' if source.FILES else 'what to put where'})"
        )
        files.log.debug("%s", error)
        return None
    say(f"data: {name}, downloaded to {folder}, checksums right{_besides(source, root, standin)}")
    return folder


def status(root: str | None = None) -> list[dict[str, Any]]:
    """A row a data set: name, where (folder or None), ok (True, False for a damaged copy, None for none), detail,
    megabytes of the real files, standin (name of what is taken where there is none; None: it is generated)."""
    rows = []
    for name, source in REGISTRY.usable().items():
        try:
            rows.append(_row(name, source, root))
        except AttributeError as error:
            warn(f"data set {name}: {module_of(name)} is not whole ({error})")
    return rows


def _row(name: str, source: ModuleType, root: str | None) -> dict[str, Any]:
    row = {
        "name": name,
        "where": None,
        "ok": None,
        "detail": "missing",
        "megabytes": round(sum(file.size for file in source.FILES.values()) / 1e6, 1),
        "standin": source.STANDIN,
    }
    if generated(source):
        row |= {"detail": "generated"}
    try:
        if folder := source.find(root):
            detail = (_checked(source).lstrip(", ") or "found") + _besides(source, root, "auto")
            row |= {"where": str(folder), "ok": True, "detail": detail}
    except InputError as error:
        row |= {"ok": False, "detail": str(error)}
    return row


def verify(name: str, root: str | None = None) -> Path:
    """The folder of the data set's files, all checksums right; InputError where missing, incomplete or damaged."""
    folder = module(name).find(root)
    if folder is None:
        raise NotHere(missing(name, root))
    return folder


def _options(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are set; InputError for one that the data set does not have."""
    valid = module(name).OPTIONS
    for option in given:
        if option not in valid:
            allowed = ", ".join(f"dataset.{one}" for one in valid) or "none"
            raise InputError(f"data set '{name}' has no option 'dataset.{option}'; valid: {allowed}")
    return {option: value for option, value in given.items() if value is not None}


def _besides(source: ModuleType, root: str | None, standin: str) -> str:
    return source.besides(root, standin) if hasattr(source, "besides") else ""


def _checked(source: ModuleType) -> str:
    return ", checksums right" if source.FILES else ""


def _check_mode(standin: str) -> None:
    if standin not in STANDIN_MODES:
        raise unknown("value of standin", str(standin), STANDIN_MODES)


__all__ = [
    "ensure",
    "extract",
    "forget",
    "generated",
    "kind",
    "load",
    "missing",
    "module",
    "module_of",
    "names",
    "of",
    "shapes",
    "status",
    "task",
    "timing_only",
    "verify",
]
