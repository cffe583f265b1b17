"""ImageNet (ILSVRC-2012, Russakovsky et al. 2015) in the ImageFolder layout: train/<class>/*.JPEG, val/<class>/*.JPEG.

No mirror gives it without a signature, so it is never downloaded: put the two folders into `imagenet/` of a place that
is searched. Any images in that layout will do; classes are the folder names of train/, in sorted order.

Options, all of them null unless set:
  image_size   pixels along a side (null: 227, AlexNet's; the stand-in's 64)
  classes      the first so many classes (null: all that are there; the stand-in's 10)
  images, test_images  at most so many, class after class the first, then the second image of each, by name (null: all;
               the stand-in's 1,024 and 256)
  resize       crop (null): each image's shorter side is resized to image_size x 256 / 224 and its middle cut out;
               never: images of another size than image_size (null: than the first) are an InputError
  held         with resize=crop: pixels of the shorter side, in the place of image_size x 256 / 224, and of a side of
               the middle that is kept of training images, for augmentation to cut from (null: image_size)
  decode       memory: all images are decoded before training, unreadable ones counted and named; lazy: each when it is
               drawn, and before training only every file's header is read. null: memory up to 4 GiB, else lazy
  ahead        with decode=lazy: training minibatches of a rank that are decoded, by a thread a core up to 16, before
               they are drawn, into pinned memory for a GPU (null: 2 for a GPU, else 0): the same ones, whatever it is

In memory an image takes 3 x image_size^2 bytes: 100 classes at 64x64 1.6 GB a rank, all of ImageNet at 227x227 206 GB,
which is what lazy is for. Without 1,000 classes and all their images the data set is named `imagenet-subset`. The
checksum is over the names and sizes of the files used, as a million images are too much to hash. Pixels are normalised
by the usual mean and deviation of each channel.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.common.errors import InputError, unknown
from repro.data import files
from repro.data.augmentation import ALL
from repro.data.files import limit

if TYPE_CHECKING:
    from repro.data.base import Dataset, Split
    from repro.data.lazy import Decoder, LazySplit

TRAIN, TEST, CLASSES = 1_281_167, 50_000, 1_000
STANDIN_TRAIN, STANDIN_TEST, STANDIN_CLASSES, STANDIN_SIZE = 1_024, 256, 10, 64
SIZE = 227
STANDIN = "imagenet-standin-seeded"
FILES: dict[str, files.File] = {}
MIRRORS = ()
MISSING = (
    "ImageNet cannot be downloaded without signing for it at image-net.org: put train/<class>/*.JPEG and "
    "val/<class>/*.JPEG"
)

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SUFFIXES = (".jpeg", ".jpg", ".png")
IN_MEMORY = 4 * 2**30  # bytes of decoded images a rank


@dataclass(frozen=True)
class _Options:
    """What the configuration may set; None is the default that the module's docstring names."""

    image_size: int | None = None
    classes: int | None = None
    images: int | None = None
    test_images: int | None = None
    resize: str | None = None
    decode: str | None = None
    held: int | None = None
    ahead: int | None = None

    def __post_init__(self) -> None:
        if self.ahead is not None and (
            isinstance(self.ahead, bool) or not isinstance(self.ahead, int) or self.ahead < 0
        ):
            raise InputError(f"dataset.ahead={self.ahead}: must be a whole number, 0 or more, or null")
        for option, valid in (("resize", ("crop", "never")), ("decode", ("memory", "lazy"))):
            if getattr(self, option) not in (None, *valid):
                raise unknown(f"value of dataset.{option}", str(getattr(self, option)), valid)


OPTIONS = (*(field.name for field in fields(_Options)), *ALL)


def find(root: str | None = None, name: str = "imagenet") -> Path | None:
    """The first place's folder of that name; InputError where it lacks train/ or val/."""
    for place in files.places(root):
        folder = place / name
        absent = [part for part in ("train", "val") if not (folder / part).is_dir()]
        if not absent:
            return folder
        if len(absent) == 1:
            raise InputError(f"data set '{name}' is incomplete: {folder} lacks {absent[0]}/")
    return None


def read(folder: Path, **given: Any) -> Dataset:
    """The images in a folder that `find` gave. InputError for too few classes, sizes that are not allowed to differ,
    and files that cannot be read, each before training starts."""
    return of_folders(folder, _Options(**given), "imagenet", (CLASSES, TRAIN, TEST))


def of_folders(
    folder: Path, options: _Options, name: str, whole: tuple[int, int, int | None], size: int = SIZE
) -> Dataset:
    """A data set in ImageNet's layout; named `name`-subset unless it has the classes, training and test images (None:
    however many) of `whole`. `size`: pixels along a side where the options have none."""
    from repro.data.base import Dataset

    names = class_names(folder / "train", options.classes)
    listed = [
        listing(folder / "train", names, "images", options.images),
        listing(folder / "val", names, "test_images", options.test_images),
    ]
    paths = [[folder / name for name, _, _ in part] for part in listed]
    exact = options.resize == "never"
    sides = (limit("image_size", options.image_size, 2**15, size),) * 2
    if exact:
        sides = common_size(paths[0] + paths[1], sides if options.image_size else None)
    held = None if options.held is None else limit("held", options.held, 2**15)
    decode = options.decode
    if decode is None:
        side = held or sides[0]
        decode = "memory" if 3 * side**2 * sum(map(len, paths)) <= IN_MEMORY else "lazy"
    checksum = checksum_of(listed)
    if decode == "lazy" and not exact:
        check_headers(paths[0] + paths[1], checksum)
    decoders = _decoders(sides, exact, held)
    splits = [
        split(part, [label for _, _, label in rows], decoder, decode, options.ahead)
        for part, rows, decoder in zip(paths, listed, decoders)
    ]
    counts = len(names), len(paths[0]), len(paths[1])
    if any(wanted not in (None, count) for wanted, count in zip(whole, counts)):
        name = f"{name}-subset"
    return Dataset(name, False, checksum, *splits, classes=len(names), input_shape=(3, *sides))


def _decoders(sides: tuple[int, int], exact: bool, held: int | None) -> tuple[Decoder, Decoder]:
    """Of training and test images."""
    from repro.data import lazy

    if held is None:
        return (lazy.Decoder(sides, exact),) * 2
    if exact or held < max(sides):
        raise InputError(f"dataset.held={held}: goes with dataset.resize=crop, and must be {max(sides)} or more")
    return lazy.Decoder((held, held), exact, held), lazy.Decoder(sides, exact, held)


def class_names(folder: Path, wanted: int | None) -> list[str]:
    """The class folders to use, in sorted order; InputError where there are fewer than wanted, or fewer than two."""
    names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    count = limit("classes", wanted, 2**31, len(names))
    if len(names) < max(count, 2) or count < 2:
        some = ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")
        asked = f"dataset.classes={wanted} asks for {wanted}" if wanted else "at least 2 are needed"
        raise InputError(f"{folder}: {len(names)} class folders ({some or 'none'}), but {asked}")
    return names[:count]


def listing(folder: Path, names: list[str], option: str, wanted: int | None) -> list[tuple[str, int, int]]:
    """(Path below the data set's folder, bytes, label) of each image to use: every class's first, every class's
    second, and so on. InputError where a class has no folder or no image in it."""
    rows = []
    for label, name in enumerate(names):
        try:
            entries = [entry for entry in os.scandir(folder / name) if entry.name.lower().endswith(SUFFIXES)]
        except OSError as error:
            raise InputError(
                f"{folder / name}: cannot be read ({error.strerror}); every class of train/ needs a folder in val/ too"
            ) from None
        if not entries:
            raise InputError(f"{folder / name}: no image ({', '.join(SUFFIXES)}) in it")
        for place, entry in enumerate(sorted(entries, key=lambda entry: entry.name)):
            rows.append((place, label, f"{folder.name}/{name}/{entry.name}", entry.stat().st_size))
    rows.sort(key=lambda row: row[:2])
    return [(path, size, label) for _, label, path, size in rows[: limit(option, wanted, len(rows))]]


def common_size(paths: list[Path], wanted: tuple[int, int] | None) -> tuple[int, int]:
    """(Height, width) that all images have; InputError naming two that differ, and how many do."""
    from repro.data import lazy

    found = lazy.sizes(paths)
    size = wanted or found[0]
    others = [row for row, one in enumerate(found) if one != size]
    if others:
        row = next((row for row, one in enumerate(found) if one == size), others[-1])
        shown = ", ".join(f"{paths[i]} is {found[i][1]}x{found[i][0]}" for i in dict.fromkeys((others[0], row)))
        raise InputError(
            f"{len(others)} of {len(paths)} images are not {size[1]}x{size[0]} pixels, and "
            f"dataset.resize=never: {shown}; resize them, or use dataset.resize=crop"
        )
    return size


def checksum_of(listed: list[list[tuple[str, int, int]]]) -> str:
    """sha256 over the sorted names and sizes of the files used."""
    lines = sorted(f"{path} {size}\n" for part in listed for path, size, _ in part)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def check_headers(paths: list[Path], checksum: str) -> None:
    """Read every image's header, once for a set of files: a note in the cache spares the ranks the second time."""
    from repro.data import lazy

    note = files.cache_root() / "imagenet-headers" / checksum
    if note.exists():
        return
    lazy.sizes(paths)
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()
    except OSError:
        files.log.debug("%s: cannot be written; headers will be read again", note)


def split(paths: list[Path], labels: list[int], decoder: Decoder, decode: str, ahead: int | None) -> Split | LazySplit:
    """A `Split` of decoded images, or a `LazySplit`."""
    import torch

    from repro.data import lazy
    from repro.data.base import Split

    y = torch.tensor(labels, dtype=torch.int64)
    mean, deviation = (torch.tensor(values).mul_(255).view(3, 1, 1) for values in (MEAN, DEVIATION))
    if decode == "lazy":
        return lazy.LazySplit(paths, y, decoder, mean, deviation, ahead)
    return Split(torch.from_numpy(lazy.decode(paths, decoder)), y, mean, deviation)


def standin(**given: Any) -> Dataset:
    """Drawn from a seed (repro.data.seeded): 1,024 and 256 images of 64x64 in 10 classes unless the options say
    otherwise; the options for files have nothing to do here."""
    return drawn(_Options(**given), STANDIN, (CLASSES, TRAIN, TEST))


def drawn(options: _Options, name: str, whole: tuple[int, int, int]) -> Dataset:
    """The stand-in of a data set in ImageNet's layout with at most the classes, training and test images of `whole`."""
    from repro.data import seeded

    side = limit("image_size", options.image_size, 2**15, STANDIN_SIZE)
    classes = limit("classes", options.classes, whole[0], STANDIN_CLASSES)
    train = limit("images", options.images, whole[1], STANDIN_TRAIN)
    test = limit("test_images", options.test_images, whole[2], STANDIN_TEST)
    return seeded.dataset(name, classes, (3, side, side), train, test)


def shapes(**given: Any) -> tuple[tuple[int, int], int, tuple[int, int, int]]:
    """(Training and test images), classes, shape of an image: ImageNet at 227x227 unless the options say less."""
    return sizes_of(_Options(**given), (CLASSES, TRAIN, TEST), SIZE)


def sizes_of(
    options: _Options, whole: tuple[int, int, int], size: int
) -> tuple[tuple[int, int], int, tuple[int, int, int]]:
    """The same of a data set with at most the classes, training and test images of `whole`."""
    classes, train, test = whole
    side = limit("image_size", options.image_size, 2**15, size)
    counts = limit("images", options.images, train), limit("test_images", options.test_images, test)
    return counts, limit("classes", options.classes, classes), (3, side, side)
