"""ImageNet (ILSVRC-2012, Russakovsky et al. 2015) in the ImageFolder layout: train/<class>/*.JPEG, val/<class>/*.JPEG;
or in WebDataset shards: *-train-000000.tar and on, *-val-000000.tar and on (repro.data.readers.shards).

It cannot be downloaded without a signature: put the two folders, or all shards, into `imagenet/` of a searched place.
Any images in that layout work; classes are the folder names of train/ in sorted order, or the numbers in the shards'
entries *.cls. If both exist, the folders are read.

Options, all null by default:
  image_size   pixels of a side (null: 227, AlexNet's; the stand-in's 64)
  classes      use the first n classes (null: all; the stand-in's 10)
  images, test_images   use the first n images: the first of every class by name, then the second of every class, and so
               on (null: all; the stand-in's 1,024 and 256)
  resize       crop (null): resize each image's shorter side to image_size x 256 / 224 and cut out the centre; never:
               images of another size than image_size (null: than the first) are an InputError
  held         with resize=crop: pixels of the shorter side instead of image_size x 256 / 224; the central square of
               this side is stored of training images, for augmentation to crop (null: image_size)
  decode       memory: decode all images before training, and report unreadable ones; lazy: decode each image when it is
               drawn, and read only the headers before training. null: memory up to 4 GiB, else lazy
  ahead        with decode=lazy: the number of training minibatches that a rank decodes in advance, with a thread for
               each core up to 16, into pinned memory for a GPU (null: 2 for a GPU, else 0). Minibatches are the same

In memory an image takes 3 x image_size^2 bytes: 100 classes at 64x64 take 1.6 GB for each rank, all of ImageNet at
227x227 206 GB, which requires lazy. Without all classes and images the data set is named `imagenet-subset`. The
checksum covers the names and sizes of the files, because hashing a million images takes too long. Pixels are normalised
by the usual mean and deviation of each channel.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import Field

from repro.core.errors import InputError
from repro.core.fields import Count, Model, Whole, check_fields
from repro.data import files
from repro.data.augmentation import ALL, DEVIATION
from repro.data.readers import shards

if TYPE_CHECKING:
    from repro.data.base import Dataset, Split
    from repro.data.readers.lazy import Decoder, LazySplit, Source

TRAIN, TEST, CLASSES = 1_281_167, 50_000, 1_000
STANDIN_TRAIN, STANDIN_TEST, STANDIN_CLASSES, STANDIN_SIZE = 1_024, 256, 10, 64
SIZE = 227
STANDIN = "imagenet-standin-seeded"
FILES: dict[str, files.File] = {}
MIRRORS = ()
MISSING = (
    "ImageNet cannot be downloaded without signing for it at image-net.org: put train/<class>/*.JPEG and "
    "val/<class>/*.JPEG, or the WebDataset shards *-train-000000.tar, *-val-000000.tar and so on,"
)

MEAN = (0.485, 0.456, 0.406)
SUFFIXES = (".jpeg", ".jpg", ".png")
PARTS = tuple(shards.PATTERNS)
IN_MEMORY = 4 * 2**30  # bytes of decoded images of a rank


Side = Annotated[int, Field(ge=1, le=2**15)]


class _Options(Model):
    """Options of the configuration; None stands for the default in the module's docstring."""

    image_size: Side | None = None
    classes: Count | None = None
    images: Count | None = None
    test_images: Count | None = None
    resize: Literal["crop", "never"] | None = None
    decode: Literal["memory", "lazy"] | None = None
    held: Side | None = None
    ahead: Whole | None = None


OPTIONS = (*_Options.model_fields, *ALL)


def find(root: str | None = None, name: str = "imagenet") -> Path | None:
    """The first folder of that name in the searched places; InputError if it lacks train or val."""
    for place in files.search_places(root):
        folder = place / name
        folders = [part for part in PARTS if (folder / part).is_dir()]
        sharded = [part for part in PARTS if shards.find_shards(folder, part)]
        if PARTS in (tuple(folders), tuple(sharded)):
            return folder
        if there := folders or sharded:
            (absent,) = set(PARTS) - set(there)
            lacks = f"{absent}/" if folders else f"shards {shards.PATTERNS[absent]}"
            raise InputError(f"data set '{name}' is incomplete: {folder} lacks {lacks}")
    return None


def read(folder: Path, **values: Any) -> Dataset:
    """The images in a folder that `find` returned; InputError for too few classes, wrong sizes and unreadable files."""
    return of_images(folder, check_fields(_Options, values, "dataset"), "imagenet", (CLASSES, TRAIN, TEST))


def of_images(
    folder: Path, options: _Options, name: str, whole: tuple[int, int, int | None], size: int = SIZE
) -> Dataset:
    """A data set in ImageNet's layout. whole: the numbers of classes, training and test images (None: any) of the
    complete data set; others are named `name`-subset. size: the default of `image_size`."""
    from repro.data.base import Dataset
    from repro.data.readers import lazy

    if all((folder / part).is_dir() for part in PARTS):
        classes = of_folders(folder, options.classes)
    else:
        classes = of_shards(folder, options.classes, whole[0])
    images = []
    for part, of_part, most in zip(PARTS, classes, (options.images, options.test_images)):
        rows = by_turns(of_part)
        if not rows:
            raise InputError(f"{folder}: no image of classes 0 to {len(of_part) - 1} in {part}")
        images.append(rows[:most])
    sources = [[row.source for row in rows] for rows in images]
    exact = options.resize == "never"
    sides = (options.image_size or size,) * 2
    if exact:
        sides = common_size(sources[0] + sources[1], sides if options.image_size else None)
    held, decode = options.held, options.decode
    if decode is None:
        side = held or sides[0]
        decode = "memory" if 3 * side**2 * sum(map(len, sources)) <= IN_MEMORY else "lazy"
    lines = sorted(f"{row.name} {row.size}\n" for rows in images for row in rows)
    checksum = hashlib.sha256("".join(lines).encode()).hexdigest()
    if decode == "lazy" and not exact:
        files.check_once("imagenet-headers", checksum, lambda: lazy.image_sizes(sources[0] + sources[1]))
    splits = [
        make_split(part, [row.label for row in rows], decoder, decode, options.ahead)
        for part, rows, decoder in zip(sources, images, _decoders(sides, exact, held))
    ]
    counts = len(classes[0]), len(sources[0]), len(sources[1])
    if any(complete not in (None, count) for complete, count in zip(whole, counts)):
        name = f"{name}-subset"
    return Dataset(name, False, checksum, *splits, classes=counts[0], input_shape=(3, *sides))


def _decoders(sides: tuple[int, int], exact: bool, held: int | None) -> tuple[Decoder, Decoder]:
    """The decoders of training and of test images."""
    from repro.data.readers import lazy

    if held is None:
        return (lazy.Decoder(sides, exact),) * 2
    if exact or held < max(sides):
        raise InputError(f"dataset.held={held}: requires dataset.resize=crop, and must be {max(sides)} or more")
    return lazy.Decoder((held, held), exact, held), lazy.Decoder(sides, exact, held)


class Row(NamedTuple):
    """An image. name: its path below the data set's folder, for the checksum."""

    name: str
    size: int
    label: int
    source: Source


def of_folders(folder: Path, wanted: int | None) -> list[list[list[Row]]]:
    """The images of the first `wanted` classes (None: all) in train/ and in val/, sorted by name.

    InputError for too few classes, and for a class without folder or images.
    """
    names = sorted(entry.name for entry in os.scandir(folder / "train") if entry.is_dir())
    shown = ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")
    count = class_count(wanted, len(names), f"{folder / 'train'}: {len(names)} class folders ({shown or 'none'})")
    return [[_class(folder, f"{part}/{name}", label) for label, name in enumerate(names[:count])] for part in PARTS]


def _class(folder: Path, inner: str, label: int) -> list[Row]:
    try:
        entries = [entry for entry in os.scandir(folder / inner) if entry.name.lower().endswith(SUFFIXES)]
    except OSError as error:
        raise InputError(
            f"{folder / inner}: cannot be read ({error.strerror}); every class of train/ needs a folder in val/"
        ) from None
    if not entries:
        raise InputError(f"{folder / inner}: no image ({', '.join(SUFFIXES)}) in it")
    entries.sort(key=lambda entry: entry.name)
    return [Row(f"{inner}/{file.name}", file.stat().st_size, label, folder / inner / file.name) for file in entries]


def of_shards(folder: Path, wanted: int | None, most: int) -> list[list[list[Row]]]:
    """Like `of_folders`, for shards; most: the data set's number of classes."""
    parts = shards.read_classes(folder, most)
    count = class_count(wanted, len(parts[0]), f"{folder}: classes 0 to {len(parts[0]) - 1} in the shards of train")
    return [
        [
            [Row(f"{entry.shard.name}/{entry.name} {label}", entry.size, label, entry) for entry in part[label]]
            for label in range(count)
        ]
        for part in parts
    ]


def class_count(wanted: int | None, available: int, what: str) -> int:
    """The number of classes to use, at least two; InputError if there are fewer."""
    if not 2 <= (wanted or available) <= available:
        rule = f"dataset.classes={wanted} must be 2 to {available}" if wanted else "at least 2 are needed"
        raise InputError(f"{what}, but {rule}")
    return wanted or available


def by_turns(classes: list[list[Row]]) -> list[Row]:
    """The first image of every class, the second of every class, and so on."""
    return [row for turn in itertools.zip_longest(*classes) for row in turn if row is not None]


def common_size(paths: list[Source], wanted: tuple[int, int] | None) -> tuple[int, int]:
    """The common (height, width) of all images; InputError naming two that differ, and how many do."""
    from repro.data.readers import lazy

    sizes = lazy.image_sizes(paths)
    size = wanted or sizes[0]
    others = [row for row, other in enumerate(sizes) if other != size]
    if others:
        row = next((row for row, other in enumerate(sizes) if other == size), others[-1])
        shown = ", ".join(f"{paths[i]} is {sizes[i][1]}x{sizes[i][0]}" for i in dict.fromkeys((others[0], row)))
        raise InputError(
            f"{len(others)} of {len(paths)} images are not {size[1]}x{size[0]} pixels, and "
            f"dataset.resize=never: {shown}; resize them, or use dataset.resize=crop"
        )
    return size


def make_split(
    paths: list[Source], labels: list[int], decoder: Decoder, decode: str, ahead: int | None
) -> Split | LazySplit:
    """A `Split` of decoded images, or a `LazySplit`."""
    import torch

    from repro.data.base import Split
    from repro.data.readers import lazy

    y = torch.tensor(labels, dtype=torch.int64)
    mean, deviation = (torch.tensor(values).mul_(255).view(3, 1, 1) for values in (MEAN, DEVIATION))
    if decode == "lazy":
        return lazy.LazySplit(paths, y, decoder, mean, deviation, ahead)
    return Split(torch.from_numpy(lazy.decode_images(paths, decoder)), y, mean, deviation)


def standin(**values: Any) -> Dataset:
    """Synthetic images (repro.data.synthetic_images), by default 1,024 and 256 of 64x64 in 10 classes.

    Options of files have no effect."""
    return synthetic_imagenet(check_fields(_Options, values, "dataset"), STANDIN, (CLASSES, TRAIN, TEST))


def synthetic_imagenet(options: _Options, name: str, whole: tuple[int, int, int]) -> Dataset:
    """The stand-in of a data set in ImageNet's layout; whole: the real one's classes, training and test images."""
    from repro.data import synthetic_images

    (train, test), classes, shape = sizes_of(
        options, whole, (STANDIN_CLASSES, STANDIN_TRAIN, STANDIN_TEST), STANDIN_SIZE
    )
    return synthetic_images.synthetic_dataset(name, classes, shape, train, test)


def shapes(**values: Any) -> tuple[tuple[int, int], int, tuple[int, int, int]]:
    """((training images, test images), classes, shape of an image), by default of all of ImageNet at 227x227."""
    whole = CLASSES, TRAIN, TEST
    return sizes_of(check_fields(_Options, values, "dataset"), whole, whole, SIZE)


def sizes_of(
    options: _Options, whole: tuple[int, int, int], default: tuple[int, int, int], size: int
) -> tuple[tuple[int, int], int, tuple[int, int, int]]:
    """Like `shapes`. whole, default: the most and the default classes, training and test images; size: of a side."""
    wanted = options.classes, options.images, options.test_images
    classes, train, test = (min(value or usual, most) for value, usual, most in zip(wanted, default, whole))
    return (train, test), classes, (3, *(options.image_size or size,) * 2)
