"""UCF101 (Soomro, Zamir, Shah 2012): 13,320 videos of 101 actions, as sequences of a 2,048-wide feature a frame.

eager-SGD section 6.3 extracts the features with Inception-v3 beforehand and trains an LSTM on them. These files are
searched below `data.root`, $REPRO_DATA and the cache:

  ucf101/*.txt                         lists and frame counts (repro.data.readers.ucf101_videos), downloaded if possible
  ucf101/features/<Class>/<video>.npy  (frames, 2048) float16 or float32, with the list's number of frames; a run with
                                       `data.videos=DIR` extracts them (repro.data.extract_ucf101)

Missing files are replaced, under another name: `ucf101-standin-features` has the real videos in their real lengths with
generated features (`repro.data.readers.ucf101_videos`); `ucf101-standin-lengths` has generated lengths too, from the
paper's distribution. A part of the real data set is named `ucf101-subset`.

Options:
  split         1, 2 or 3 of the official lists (null: 1)
  videos, test_videos   the number of videos, equally many of each class (null: all)
  features      the number of values used of a frame's 2,048 (null: all)
  stride        use every n-th frame (null: 1)
  max_frames    use at most the first n frames of a video, counted after `stride` (null: all). The paper's runtimes of
                201 to 3,410 ms with a mean of 1,235 ms imply 6.6 ms a frame at the mean of 187 frames, and so a longest
                sequence of about 516 frames: the authors' code may have truncated longer ones; the paper does not say.
  buckets       groups of similar length from which minibatches are drawn (null: 50, some 190 videos each)
  bucketing     groups have equal numbers of videos (count) or equal ranges of lengths (width; null: count). The
                authors' sampler has 30 groups of equal width up to 500 frames, and longer videos each alone
                (github.com/Shigangli/eager-SGD, eager-SGD-modules/deep500/deep500/lv2/sampler.py:173 to 202, and
                eager-SGD-modules/deep500/samples/ucf101_resnetlstm.py:95, a sample of another network). Minibatches
                have one size here, so longer videos must be cut (max_frames)

Minibatches are those of `repro.data.readers.sequences.Buckets`: x (size, longest, features), y (size,). Shorter videos
are padded with zeros at the front, because the network uses its last output. `input_shape` is (mean length of the
training videos, features), and `work` is relative to that length.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from repro.core.errors import InputError, NotHere
from repro.core.fields import Count, Model, check_fields
from repro.data import files
from repro.data.readers import ucf101_videos
from repro.data.readers.ucf101_videos import CLASSES, FEATURES, MIRRORS, Frames, Video, find_lists

if TYPE_CHECKING:
    from repro.data.base import Dataset
    from repro.data.readers.ucf101_videos import Source

FILES = ucf101_videos.FILES
KIND = "sequences"
STANDIN, STANDIN_FEATURES = "ucf101-standin-lengths", "ucf101-standin-features"
BUCKETS = 50
find = find_lists
__all__ = ["CLASSES", "FILES", "KIND", "MIRRORS", "OPTIONS", "STANDIN", "besides", "extract", "find", "load", "timing"]


class _Options(Model):
    """Options of the configuration; None stands for the default in the module's docstring."""

    split: Literal[1, 2, 3] | None = None
    videos: Count | None = None
    test_videos: Count | None = None
    features: Count | None = None
    stride: Count | None = None
    max_frames: Count | None = None
    buckets: Count | None = None
    bucketing: Literal["count", "width"] | None = None

    @property
    def frames(self) -> Frames:
        return Frames(self.stride or 1, self.max_frames)

    @property
    def width(self) -> int:
        if self.features is not None and self.features > FEATURES:
            raise InputError(f"dataset.features={self.features}: a frame has {FEATURES}")
        return self.features or FEATURES

    def chosen(self, videos: tuple[list[Video], list[Video]]) -> list[list[Video]]:
        """The training and test videos to use; InputError if a class has no training video."""
        if self.videos is not None and self.videos < CLASSES:
            raise InputError(f"dataset.videos={self.videos} is fewer than the {CLASSES} classes")
        counts = self.videos or len(videos[0]), self.test_videos or len(videos[1])
        return [ucf101_videos.balance_classes(part, count) for part, count in zip(videos, counts)]


OPTIONS = tuple(_Options.model_fields)


def load(root: str | None = None, standin: str = "auto", **values: Any) -> Dataset:
    """The data set; InputError for a malformed list or feature file, NotHere if `standin` is "never" and files are
    missing."""
    from repro.data.readers.ucf101_videos import Extracted, Generated

    options = check_fields(_Options, values, "dataset")
    folder = None if standin == "always" else find_lists(root)
    extracted = None if folder is None else files.find_folder("ucf101/features", root)
    if standin == "never" and extracted is None:
        raise NotHere(missing_message(root, folder))
    train, test = options.chosen(_videos(folder, options.split or 1))
    checksum = hashlib.sha256(repr((train, test, options.frames, options.width)).encode())
    if extracted is None:
        source: Source = Generated(options.width, options.frames)
        name = STANDIN if folder is None else STANDIN_FEATURES
        checksum.update(source(train[0]).tobytes())
    else:
        source = Extracted(extracted, options.width, options.frames)
        checksum.update(source.check([*train, *test]).encode())
        whole = not any((options.videos, options.test_videos, options.features, options.stride, options.max_frames))
        name = "ucf101" if whole else "ucf101-subset"
    return _dataset(name, extracted is None, checksum.hexdigest(), (train, test), source, options)


def extract(videos: str, root: str | None, device: str, say: Callable[[str], Any], /, **values: Any) -> None:
    """Extract the missing features of the videos that the options select, from a folder of videos.

    They are written to the existing folder of features, else to the cache. InputError if a video is missing or cannot
    be decoded; NotHere without the lists, a video decoder or the network's weights.
    """
    from repro.data import extract_ucf101
    from repro.data.fetch import fetch_dataset

    options = check_fields(_Options, values, "dataset")
    lists = find_lists(root) or fetch_dataset("ucf101")
    wanted = [video for part in options.chosen(_videos(lists, options.split or 1)) for video in part]
    out = files.find_folder("ucf101/features", root) or files.cache_root() / "ucf101" / "features"
    extract_ucf101.extract_missing(Path(videos).expanduser(), out, wanted, device, say)


def timing(root: str | None = None, **values: Any) -> Dataset:
    """Lengths only, on the meta device: the real ones if the lists are found, else those of the stand-in."""
    options = check_fields(_Options, values, "dataset")
    folder = find_lists(root)
    parts = options.chosen(_videos(folder, options.split or 1))
    name = "ucf101 (shapes only)" if folder else f"{STANDIN} (shapes only)"
    checksum = hashlib.sha256(repr((parts, options.frames, options.width)).encode()).hexdigest()
    return _dataset(name, folder is None, checksum, parts, None, options)


def besides(root: str | None, standin: str) -> str:
    """A note on the features that are used with the lists."""
    if extracted := files.find_folder("ucf101/features", root):
        return f"; features in {extracted}"
    if standin == "never":
        raise NotHere(missing_message(root, find_lists(root)))
    return f"; no extracted features: {STANDIN_FEATURES}"


def missing_message(root: str | None, lists: Path | None) -> str:
    """The message for missing files."""
    from repro.data import files

    if lists is None:
        return files.missing_message("ucf101", root)
    return (
        f"data set 'ucf101': lists in {lists}, but no extracted features (looked for ucf101/features in "
        f"{', '.join(map(str, files.search_places(root)))}): get the videos from www.crcv.ucf.edu/data/UCF101.php and "
        "give their folder: data.videos=DIR"
    )


def _videos(folder: Path | None, split: int) -> tuple[list[Video], list[Video]]:
    return ucf101_videos.generate_videos() if folder is None else ucf101_videos.read_lists(folder, split)


def _dataset(name: str, standin: bool, checksum: str, parts: Any, source: Source | None, options: _Options) -> Dataset:
    from repro.data.base import Dataset
    from repro.data.readers.sequences import Videos

    frames, buckets = options.frames, options.buckets or BUCKETS
    nominal = max(1, round(fmean(frames.count(video.frames) for video in parts[0])))
    bucketing = options.bucketing or "count"
    splits = [Videos(part, source, frames, options.width, nominal, buckets, bucketing) for part in parts]
    return Dataset(name, standin, checksum, *splits, classes=CLASSES, input_shape=(nominal, options.width))
