"""Data sets: the real one if its files are present, else a stand-in of another name that needs no download.

    dataset_for(config)                                 -> Dataset (repro.data.base) of a run; InputError
    load_dataset("mnist", root=None, standin="auto")    the data set by name, with its options
    load_shapes("imagenet")                             its sizes without contents, for timing without arithmetic
    ensure_dataset("mnist", root=None, standin="auto")  find it, else download it, else use the stand-in; prints which
    dataset_status()                                    rows for `repro data list`; imports no torch

Each data set is a module in `sets/` with `FILES` (file name -> size and checksum), `MIRRORS` (download addresses; with
`ARCHIVE` of one tarball; without FILES there is no download, and `MISSING` says what to do), `OPTIONS` (names of
configuration options; `validation` and those of `repro.data.augmentation` are applied here), `STANDIN` (the stand-in's
name), `find(root)`, and, each with the other options as arguments, `read(folder)` and `standin()`, which return a
`Dataset`, and `shapes()`. Unless it is image classification, it has `TASK` and `KIND` (see `repro.data.base`).

Instead of `read` and `standin` a module may have `load(root, standin, **options)`, and instead of `shapes`
`timing(root, **options)`; both return a `Dataset`. With `GENERATED = True` there are no files and no stand-in.
`besides(root, standin)` describes other files that are used, and raises InputError as `load_dataset` does. Packages
register data sets through the entry-point group `repro.datasets` (NAME = "module").
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, get_args

from repro.core.errors import InputError, NotHere, unknown_name
from repro.core.terminal import warn
from repro.data import augmentation, files
from repro.data.files import REGISTRY, dataset_names, input_kind, is_generated, load_source, missing_message, task_of  # noqa: F401
from repro.data.sets import StandinMode
from repro.experiment.schema import RunConfig

if TYPE_CHECKING:
    from repro.data.base import Dataset

STANDIN_MODES = get_args(StandinMode)
QUICK_S, QUICK_TOTAL_S = 5.0, 180.0  # time limits of `ensure_dataset` for a silent mirror, and for a whole download


def dataset_for(config: RunConfig) -> Dataset:
    """The data set of a run's configuration; only the real one's shapes if the testbed computes no arithmetic.

    The last one is cached, because the virtual ranks of a process share it.
    """
    root, name, options = config.data.root, config.dataset.name, dict(config.dataset.options)
    standin = options.pop("standin")
    places = tuple(map(str, files.search_places(root)))
    return _of(name, root, standin, config.timing_only, places, _frozen(options))


@functools.lru_cache(maxsize=1)
def _of(name: str, root: str | None, standin: str, shapes_only: bool, places: tuple, options: tuple) -> Dataset:
    return (
        load_shapes(name, root, **dict(options)) if shapes_only else load_dataset(name, root, standin, **dict(options))
    )


def _frozen(options: Mapping[str, Any]) -> tuple:
    """The options as a hashable key; an invalid list becomes text, which the option's check refuses."""
    return tuple((name, value if isinstance(value, Hashable) else str(value)) for name, value in options.items())


def forget_dataset() -> None:
    """Free the data set that `dataset_for` caches."""
    _of.cache_clear()


def load_dataset(name: str, root: str | None = None, standin: str = "auto", **options: Any) -> Dataset:
    """The data set `name`.

    `root` is searched before $REPRO_DATA and the user's cache. standin: if the files are missing, "auto" uses the
    stand-in and "never" raises InputError; "always" does not search. A damaged file is an InputError with "auto" too,
    and never replaced by the stand-in. options: the data set's; None stands for the default.
    """
    source = load_source(name)
    _check_mode(standin)
    used = _options(name, options)
    if hasattr(source, "load"):
        return _beside_real(source.load(root, standin, **used), name, root, options)
    from repro.data.readers.augment import augment_dataset, held_out

    augmentations, used = augmentation.split_augmentation(used)
    validation = used.pop("validation", None)
    folder = None if standin == "always" else source.find(root)
    if folder is None and standin == "never":
        raise NotHere(missing_message(name, root))
    dataset = source.standin(**used) if folder is None else source.read(folder, **used)
    try:
        evaluated = held_out(dataset, validation)
    except InputError as error:
        if folder is None and standin == "auto":
            raise NotHere(f"{missing_message(name, root)}; of its stand-in, {error}") from None
        raise
    return _beside_real(augment_dataset(evaluated, augmentations), name, root, options)


def _beside_real(loaded: Dataset, name: str, root: str | None, options: Mapping[str, Any]) -> Dataset:
    """A stand-in that says whether its sizes are the real data's."""
    if not loaded.standin:
        return loaded
    real = load_shapes(name, root, **options)
    same = (real.classes, real.input_shape) == (loaded.classes, loaded.input_shape)
    return replace(loaded, like_real=same)


def load_shapes(name: str, root: str | None = None, **options: Any) -> Dataset:
    """The data set `name` on the meta device, with the real one's sizes, for timing without arithmetic.

    It reads at most the samples' lengths, if their files are found below `root`, $REPRO_DATA or the cache.
    """
    import torch

    from repro.data.base import AnySplit, Dataset, Split
    from repro.data.readers.text import Text

    source, used = load_source(name), _options(name, options)
    if hasattr(source, "timing"):
        return source.timing(root, **used)
    used = augmentation.split_augmentation(used)[1]
    validated = used.pop("validation", None)
    counts, classes, shape = source.shapes(**used)
    if validated is not None:
        counts = augmentation.validation_counts(validated, counts[0])
    splits: list[AnySplit]
    if input_kind(name) == "text":
        splits = [Text(torch.empty(count + 1, dtype=torch.int64, device="meta"), *shape) for count in counts]
    else:
        splits = [
            Split(torch.empty(count, *shape, device="meta"), torch.empty(count, dtype=torch.int64, device="meta"))
            for count in counts
        ]
    checksum = hashlib.sha256(f"{name} {counts} {classes} {shape}".encode()).hexdigest()
    return Dataset(f"{name} (shapes only)", False, checksum, *splits, classes=classes, input_shape=shape)


def extract_features(
    name: str, videos: str, root: str | None, device: str, say: Callable[[str], Any], /, **options: Any
) -> None:
    """Extract the missing features of the data set `name` from a folder of videos (`data.videos`).

    InputError for a data set without videos. device: as in the configuration; options: the data set's, which select the
    videos.
    """
    import torch

    used = _options(name, options)
    source = check_videos(name, videos)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    source.extract(videos, root, device, say, **used)


def check_videos(name: str, videos: str) -> ModuleType:
    """The module of a data set that is made of videos; InputError for another."""
    if not hasattr(source := load_source(name), "extract"):
        raise InputError(f"data.videos={videos}: data set '{name}' is not made of videos")
    return source


def ensure_dataset(
    name: str, root: str | None = None, standin: str = "auto", say: Callable[[str], Any] = print
) -> Path | None:
    """Find a data set before a run, else download it into the cache, else use the stand-in; prints which.

    Returns the folder of the real files, or None for the stand-in. InputError for a damaged or incomplete copy, and for
    missing files if `standin` is "never".
    """
    from repro.data.fetch import fetch_dataset

    source = load_source(name)
    _check_mode(standin)
    if is_generated(source):
        say(f"data: {name}, generated")
        return None
    if standin == "always":
        say(f"data: {source.STANDIN} (stand-in for {name}, as configured)")
        return None
    if folder := source.find(root):
        say(f"data: {name}, found in {folder}{_checked(source)}{_besides(source, root, standin)}")
        return folder
    try:
        folder = fetch_dataset(name, timeout_s=QUICK_S, total_s=QUICK_TOTAL_S)
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


def dataset_status(root: str | None = None) -> list[dict[str, Any]]:
    """A row for each data set: name, where (folder or None), ok (None if missing, False if damaged), detail, megabytes
    of the real files, standin (its name; None for generated data). InputError for a place that is no folder."""
    files.search_places(root)
    for place in files.variable_places():
        if not Path(place).expanduser().is_dir():
            warn(f"$REPRO_DATA: {place} does not exist")
    rows = []
    for name, source in REGISTRY.usable().items():
        try:
            rows.append(_row(name, source, root))
        except AttributeError as error:
            warn(f"data set {name}: {REGISTRY.module_of(name)} is incomplete ({error})")
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
    if is_generated(source):
        row |= {"detail": "generated"}
    try:
        if folder := source.find(root):
            detail = (_checked(source).lstrip(", ") or "found") + _besides(source, root, "auto")
            row |= {"where": str(folder), "ok": True, "detail": detail}
    except InputError as error:
        row |= {"ok": False, "detail": str(error)}
    return row


def verify_dataset(name: str, root: str | None = None) -> Path:
    """The folder of the data set's verified files; InputError if they are missing, incomplete or damaged."""
    folder = load_source(name).find(root)
    if folder is None:
        raise NotHere(missing_message(name, root))
    return folder


def _options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are not None; InputError for unknown ones."""
    valid = load_source(name).OPTIONS
    for option in options:
        if option not in valid:
            allowed = ", ".join(f"dataset.{option}" for option in valid) or "none"
            raise InputError(f"data set '{name}' has no option 'dataset.{option}'; valid: {allowed}")
    return {option: value for option, value in options.items() if value is not None}


def _besides(source: ModuleType, root: str | None, standin: str) -> str:
    return source.besides(root, standin) if hasattr(source, "besides") else ""


def _checked(source: ModuleType) -> str:
    return ", checksums right" if source.FILES else ""


def check_options(name: str, options: Mapping[str, Any], root: str | None = None) -> None:
    """InputError for a place of data that is no folder, an unknown choice of stand-ins, and options of the data set
    that its sizes do not allow."""
    options = dict(options)
    files.search_places(root)
    _check_mode(options.pop("standin", "auto"))
    used = augmentation.split_augmentation(_options(name, options))[1]
    validation = used.pop("validation", None)
    if hasattr(source := load_source(name), "shapes"):
        (train, _), _, _ = source.shapes(**used)
        if validation is not None:
            augmentation.validation_counts(validation, train)


def check_obtainable(config: RunConfig) -> None:
    """NotHere if a run needs files that are not on this machine and that nobody may download; InputError for videos of
    a data set without any."""
    name, root = config.dataset.name, config.data.root
    if config.data.videos and not config.timing_only:
        check_videos(name, config.data.videos)
    source = load_source(name)
    if not (config.timing_only or is_generated(source) or source.FILES):  # files with addresses can be downloaded
        check_found(name, config.dataset.options.get("standin"), root)


def check_found(name: str, standin: str | None, root: str | None = None) -> None:
    """NotHere if no stand-in may take the place of files (`standin` is "never") that are not on this machine."""
    source = load_source(name)
    if standin == "never" and not (is_generated(source) or source.find(root)):
        raise NotHere(missing_message(name, root))


def _check_mode(standin: str) -> None:
    if standin not in STANDIN_MODES:
        raise unknown_name("dataset.standin", str(standin), STANDIN_MODES)
