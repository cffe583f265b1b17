"""MSVD (Chen, Dolan, ACL 2011): 1,970 clips with 80,827 English captions, 12,592 different words in them.

It uses S2VT's standard split (1,200 training, 100 validation, 670 test clips), with the 567,874 words of S2VT's Table
1; the validation clips only add to the vocabulary. These files are searched below `data.root`, $REPRO_DATA and the
cache:

  msvd/MSVD_{train,val,test}.tsv.gz   one clip a line: captions joined by ", ", a tab, the clip's id, which ends in its
                                      first and last second; upstream has no licence, so there is no mirror
  msvd/features/<clip id>.npy         (frames, 4096) float16 or float32, such as VGG's fc7 of every tenth frame

Missing files are replaced, under another name: `msvd-standin-features` has the real captions and lengths (three frames
a second) with features generated from the captions (`repro.data.readers.msvd_clips`); `msvd-standin-grammar` has
generated captions too (`repro.data.readers.msvd_clips`). A part of the real data set is named `msvd-subset`.

Options:
  clips, test_clips          use the first n clips (null: all)
  captions, test_captions    use the first n captions of each clip for training and for the test loss (null: all). The
                             score uses all captions of a test clip
  vocabulary                 number of words: <pad>, <bos>, <eos>, <unk> and the most frequent ones of all clips, ties
                             in alphabetical order (null: 12,594 as in PipeDream: 12,592 words and two of S2VT's tokens)
  features                   the number of values used of a frame's (null: 4,096)
  steps                      frames of a clip that the network reads, and words that it writes, with <eos> (null: 40,
                             which gives S2VT's 80 steps). ASSUMPTION: half for each; in S2VT's code the words of a
                             caption follow the frames of its clip, up to 80 of both together
  scored                     test clips whose captions are decoded and scored at every evaluation (null: 100)

Minibatches are those of `repro.data.readers.captioned.Captioned`.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from repro.core.errors import NotHere
from repro.core.fields import Count, Model, check_fields
from repro.core.word_numbers import OWN
from repro.data import files
from repro.data.files import File, combined_checksum
from repro.data.readers.tokens import build_vocabulary

if TYPE_CHECKING:
    from repro.data.base import Dataset
    from repro.data.readers.msvd_clips import Clip, Source

FILES = {
    "MSVD_test.tsv.gz": File(226501, "28b12c96d977c98a1d32af9ffb6a790e2d799e05f6275e5d2ec0e91d24388f07"),
    "MSVD_train.tsv.gz": File(391980, "ea8f0d6548916f6542a8593eaf249c57ef82ae46a85df3b35e06d9df196b8b20"),
    "MSVD_val.tsv.gz": File(35149, "2e04b1e016743627a62f3f0372ec7e9ed66dd60f5f822b457e782f0870c1dd01"),
}
MIRRORS = ()
TASK, KIND = "text", "captioned clips"
STANDIN, STANDIN_FEATURES = "msvd-standin-grammar", "msvd-standin-features"


class _Options(Model):
    """Options of the configuration; None stands for the default in the module's docstring."""

    clips: Count | None = None
    test_clips: Count | None = None
    captions: Count | None = None
    test_captions: Count | None = None
    vocabulary: Annotated[int, Field(ge=len(OWN) + 1)] | None = None
    features: Count | None = None
    steps: Annotated[int, Field(ge=2)] | None = None
    scored: Count | None = None


OPTIONS = tuple(_Options.model_fields)
VOCABULARY, FEATURES, STEPS, SCORED = 12_594, 4_096, 40, 100


def find(root: str | None = None) -> Path | None:
    """The folder of the three files, verified; None if there is none."""
    return files.find_files("msvd", FILES, root)


def load(root: str | None = None, standin: str = "auto", **values: Any) -> Dataset:
    """The data set; InputError for a malformed caption or feature file, NotHere if `standin` is "never" and files are
    missing."""
    from repro.data.readers.msvd_clips import Extracted, Generated

    options = check_fields(_Options, values, "dataset")
    folder = None if standin == "always" else find(root)
    extracted = None if folder is None else files.find_folder("msvd/features", root)
    if standin == "never" and extracted is None:
        raise NotHere(missing_message(root, folder))
    train, rest, test = _clips(folder, options)
    features = options.features or FEATURES
    checksum = hashlib.sha256(repr((combined_checksum(FILES) if folder else "", options)).encode())
    if extracted is None:
        source: Source = Generated(features)
        name = STANDIN if folder is None else STANDIN_FEATURES
        checksum.update(source(train[0], 1).tobytes() + repr([train, test]).encode())
    else:
        source = Extracted(extracted, features)
        checksum.update(source.check([*train, *test]).encode())
        name = "msvd-subset" if any(values.get(option) for option in OPTIONS if option != "scored") else "msvd"
    return _dataset(name, extracted is None, checksum.hexdigest(), train, rest, test, source, options)


def timing(root: str | None = None, **values: Any) -> Dataset:
    """Sizes only, on the meta device: the real ones if the captions are found, else those of the stand-in."""
    options = check_fields(_Options, values, "dataset")
    folder = find(root)
    name = f"{'msvd' if folder else STANDIN} (shapes only)"
    parts = _clips(folder, options)
    checksum = hashlib.sha256(repr((parts, options)).encode()).hexdigest()
    made = _dataset(name, folder is None, checksum, *parts, None, options)
    return made if folder else replace(made, classes=options.vocabulary or VOCABULARY)


def besides(root: str | None, standin: str) -> str:
    """A note on the features that are used with the captions."""
    if extracted := files.find_folder("msvd/features", root):
        return f"; features in {extracted}"
    if standin == "never":
        raise NotHere(missing_message(root, find(root)))
    return f"; no extracted features: {STANDIN_FEATURES}"


def missing_message(root: str | None, folder: Path | None) -> str:
    """The message for missing files."""
    from repro.data import files

    if folder is None:
        return files.missing_message("msvd", root)
    searched = ", ".join(map(str, files.search_places(root)))
    return (
        f"data set 'msvd': captions in {folder}, but no extracted features (looked for msvd/features in {searched}): "
        f"put <clip id>.npy of VGG's fc7, (frames, {FEATURES}), into {files.cache_root() / 'msvd' / 'features'}"
    )


def _clips(folder: Path | None, options: _Options) -> tuple[list[Clip], list[Clip], list[Clip]]:
    """Training clips, clips that only add to the vocabulary, and test clips."""
    from repro.data.readers import msvd_clips

    train, rest, test = (
        msvd_clips.read_clips(folder, part) if folder else msvd_clips.generate_clips(part) for part in msvd_clips.PARTS
    )
    clips, test_clips = options.clips or len(train), options.test_clips or len(test)
    return train[:clips], [*train[clips:], *rest, *test[test_clips:]], test[:test_clips]


def _dataset(
    name: str,
    standin: bool,
    checksum: str,
    train: list[Clip],
    rest: list[Clip],
    test: list[Clip],
    source: Any,
    options: _Options,
) -> Dataset:
    from repro.data.base import Dataset
    from repro.data.readers.captioned import Captioned

    captions = (caption for clip in (*train, *rest, *test) for caption in clip.captions)
    numbers = build_vocabulary((word for caption in captions for word in caption), options.vocabulary or VOCABULARY)
    sizes = options.steps or STEPS, options.features or FEATURES

    def split(clips: list[Clip], captions: int | None, scored: int) -> Captioned:
        rows = [(place, i) for place, clip in enumerate(clips) for i in range(len(clip.captions[:captions]))]
        return Captioned(clips, rows, numbers, source, *sizes, scored)

    splits = split(train, options.captions, 0), split(test, options.test_captions, options.scored or SCORED)
    shape = sizes[0], sizes[1] + 1
    return Dataset(name, standin, checksum, *splits, classes=len(OWN) + len(numbers), input_shape=shape)
