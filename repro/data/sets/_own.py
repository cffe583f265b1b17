"""Data of a user's as a data set's module offers them: an .npz, a torch Dataset, or a class or function that makes one.

    ./spectra.npz            x_train, y_train, x_test, y_test; or x and y
    ./spectra.py:Spectra     called as Spectra(train=True) and Spectra(train=False), if it has an argument `train`;
                             else once, for a Dataset or a pair (train, test)

Without a test part every tenth sample of a shuffle is the test part.
"""

from __future__ import annotations

import inspect
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from repro.core import own_code
from repro.core.errors import InputError

if TYPE_CHECKING:
    import torch

    from repro.data.base import Dataset, Samples

PARTS = ("train", "test")
TENTH = 10
NUMBERS = "biuf"  # numpy's kinds of types: truth values, whole numbers, floating point


def of(name: str, given: Any) -> Any:
    """name: its place; given: a module, a file's path, or what stands at the place."""
    if inspect.ismodule(given):
        return given
    stamp = given.stat().st_mtime_ns if isinstance(given, Path) else 0
    return _own(name, given, stamp)


@lru_cache(maxsize=2)
def _own(name: str, given: Any, stamp: int) -> Own:
    return Own(name, given)


class Own:
    """A module of a data set in `repro.data`'s terms; it has no stand-in."""

    FILES: ClassVar[dict[str, Any]] = {}
    MIRRORS = ()
    STANDIN = None

    def __init__(self, name: str, given: Any):
        self.name, self.given = name, given
        made = callable(given) and not isinstance(given, Path)
        self.arguments = own_code.options(given, PARTS) if made else {}
        self.OPTIONS = tuple(self.arguments)
        self.MISSING = f"{name} is not there"

    @property
    def TASK(self) -> str:
        """Classification, if targets are whole numbers; else regression."""
        return self._read[0].task

    @property
    def KIND(self) -> str:
        """Images, if samples have three dimensions; else vectors."""
        return self._read[0].kind

    def find(self, root: str | None = None) -> Path:
        """The file that it is in."""
        return self.given if isinstance(self.given, Path) else Path(self.name.partition(":")[0])

    def load(self, root: str | None, standin: str, **options: Any) -> Dataset:
        """InputError for what is no data set, or a stand-in that is asked for."""
        if standin == "always":
            raise InputError(f"dataset.standin=always: {self.name} has no stand-in")
        return self._made(options)[0]

    def timing(self, root: str | None = None, **options: Any) -> Dataset:
        """Its shapes without contents."""
        import torch

        from repro.data.base import Dataset, Split
        from repro.data.readers.items import Typed

        made, x = self._made(options)
        splits = []
        for part in (made.train, made.test):
            y = torch.empty(len(part), dtype=part.y.dtype, device="meta")
            splits.append(
                Typed(Split(torch.empty(len(part), *x.shape, dtype=x.dtype, device="meta"), y), made.task, made.kind)
            )
        name = f"{self.name} (shapes only)"
        return Dataset(name, False, made.checksum, *splits, classes=made.classes, input_shape=made.input_shape)

    @cached_property
    def _read(self) -> tuple[Dataset, torch.Tensor]:
        return self._built({})

    def _made(self, options: dict[str, Any]) -> tuple[Dataset, torch.Tensor]:
        return self._built(options) if options else self._read

    def _built(self, options: dict[str, Any]) -> tuple[Dataset, torch.Tensor]:
        """The data set, and its first sample."""
        from repro.data.base import Dataset
        from repro.data.readers.items import Typed

        parts, x, checksum = self._arrays() if isinstance(self.given, Path) else self._items(options)
        if len(parts) == 1:
            parts = held_out(parts[0])
        numbers = parts[0].y.is_floating_point()
        task, kind = "regression" if numbers else "classification", "images" if x.ndim == 3 else "vectors"
        classes = 1 if numbers else 1 + max(int(part.y.max()) for part in parts)
        splits = [Typed(part, task, kind) for part in parts]
        made = Dataset(self.name, False, checksum, *splits, classes=classes, input_shape=tuple(x.shape))
        return made, x

    def _arrays(self) -> tuple[list[Samples], torch.Tensor, str]:
        import zlib
        from zipfile import BadZipFile

        import numpy as np
        import torch

        from repro.data import files
        from repro.data.base import Split
        from repro.data.readers.items import labels, normalised

        try:
            with np.load(self.given, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
        except (OSError, ValueError, EOFError, BadZipFile, zlib.error) as error:
            raise InputError(f"{self.given}: not readable as an .npz of numbers ({error})") from None
        endings = next((ends for ends in (("_train", "_test"), ("",)) if f"x{ends[0]}" in arrays), None)
        lacking = [f"{name}{end}" for end in endings or () for name in "xy" if f"{name}{end}" not in arrays]
        if endings is None or lacking:
            raise InputError(
                f"{self.given}: has {', '.join(arrays) or 'nothing'}; must have "
                "x_train, y_train, x_test, y_test, or x and y"
            )
        for key in (f"{name}{end}" for end in endings for name in "xy"):
            if arrays[key].dtype.kind not in NUMBERS:
                raise InputError(f"{self.given}: {key} has type {arrays[key].dtype}; must be numbers")
            if not np.isfinite(arrays[key]).all():
                raise InputError(f"{self.given}: {key} has NaN or infinite values; must be finite")
        shapes = {f"x{end}": arrays[f"x{end}"].shape[1:] for end in endings}
        if len({*shapes.values()}) > 1:
            raise InputError(f"{self.given}: samples have shapes {shapes}; must be of one shape")
        parts: list[Samples] = []
        for end in endings:
            x, y = torch.from_numpy(arrays[f"x{end}"]), torch.from_numpy(np.asarray(arrays[f"y{end}"]))
            if len(x) != len(y) or not len(x):
                raise InputError(
                    f"{self.given}: x{end} has {len(x)} samples and y{end} {len(y)}; must be as many, above 0"
                )
            parts.append(Split(normalised(x), labels(y, f"{self.given}: y{end}")))
        return parts, parts[0].slice(0, 1)[0][0], files.sha256(self.given)

    def _items(self, options: dict[str, Any]) -> tuple[list[Samples], torch.Tensor, str]:
        import hashlib

        from repro.data.readers.items import read

        given = self.given
        if callable(given):
            by_part = "train" in inspect.signature(given).parameters
            try:
                given = tuple(given(train=part, **options) for part in (True, False)) if by_part else given(**options)
            except TypeError as error:
                raise InputError(f"data set {self.name}: {error}") from None
        parts = given if isinstance(given, tuple | list) and len(given) == 2 and _are_sets(given) else (given,)
        found = [read(part, f"data set {self.name}, {which}") for part, which in zip(parts, PARTS)]
        if len({first.shape for _, first, _ in found}) > 1:
            shapes = " and ".join(str(tuple(first.shape)) for _, first, _ in found)
            raise InputError(f"data set {self.name}: train and test have samples of shapes {shapes}; must be of one")
        digest = hashlib.sha256("".join(checksum for *_, checksum in found).encode()).hexdigest()
        return [split for split, *_ in found], found[0][1], digest


def _are_sets(given: Any) -> bool:
    return all(
        hasattr(part, "__getitem__") and hasattr(part, "__len__") and not hasattr(part, "shape") for part in given
    )


def held_out(whole: Samples) -> list[Samples]:
    """A training and a test part of a split that has none."""
    from repro.data.base import Subset
    from repro.data.minibatches import seeded_order

    order = seeded_order(len(whole), "held out")
    if len(whole) < TENTH:
        raise InputError(f"{len(whole)} samples are too few to hold some out for tests; must be {TENTH} or more")
    test, train = order[: len(whole) // TENTH].sort().values, order[len(whole) // TENTH :].sort().values
    return [Subset(whole, train), Subset(whole, test)]
