"""Adapts a user's .npz file, torch Dataset, or function that makes one, to the interface of a data set's module.

    ./spectra.npz            x_train, y_train, x_test, y_test; or x and y
    ./spectra.py:Spectra     called as Spectra(train=True) and Spectra(train=False), if it has an argument `train`;
                             else once, for a Dataset or a pair (train, test)

Without test set, a random tenth of the samples becomes the test set.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from repro.core import errors, own_code
from repro.core.errors import InputError, ReproError, exhausted_memory
from repro.core.without_pytorch import require_pytorch

if TYPE_CHECKING:
    import torch

    from repro.data.base import Dataset, Samples

PARTS = ("train", "test")
TENTH = 10
NUMBERS = "biuf"  # numpy's kinds of types: booleans, integers, floating point


def adapt_module(name: str, source: Any) -> Any:
    """The data set's module. name: FILE or FILE:NAME; source: the file's path, or the object that NAME names. A module
    is returned as it is."""
    if inspect.ismodule(source):
        return source
    return _own(name, source, source.stat().st_mtime_ns if isinstance(source, Path) else 0)


@lru_cache(maxsize=2)
def _own(name: str, source: Any, modified_ns: int) -> Own:
    return Own(name, source)


class Own:
    """A user's data set with the attributes of a data set's module (see `repro.data`); it has no stand-in."""

    FILES: ClassVar[dict[str, Any]] = {}
    MIRRORS = ()
    STANDIN = None

    def __init__(self, name: str, source: Any):
        self.name, self.source = name, source
        made = callable(source) and not isinstance(source, Path)
        self.arguments = own_code.plugin_parameters(source, PARTS) if made else {}
        self.OPTIONS = tuple(self.arguments)
        self.MISSING = f"{name} is missing"

    @property
    def TASK(self) -> str:
        """Classification for integer targets, else regression."""
        return self._read[0].task

    @property
    def KIND(self) -> str:
        """Images for samples of three dimensions, else vectors."""
        return self._read[0].kind

    def find(self, root: str | None = None) -> Path:
        """The user's file."""
        return self.source if isinstance(self.source, Path) else Path(self.name.partition(":")[0])

    def load(self, root: str | None, standin: str, **options: Any) -> Dataset:
        """InputError for an invalid data set, and for `standin` "always"."""
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

        parts, x, checksum = self._arrays() if isinstance(self.source, Path) else self._called(options)
        if len(parts) == 1:
            parts = held_out(parts[0])
        regression = parts[0].y.is_floating_point()
        task, kind = "regression" if regression else "classification", "images" if x.ndim == 3 else "vectors"
        classes = 1 if regression else 1 + max(int(part.y.max()) for part in parts)
        splits = [Typed(part, task, kind) for part in parts]
        return Dataset(self.name, False, checksum, *splits, classes=classes, input_shape=tuple(x.shape)), x

    def _arrays(self) -> tuple[list[Samples], torch.Tensor, str]:
        import zlib
        from zipfile import BadZipFile, is_zipfile

        import numpy as np
        import torch

        from repro.data import files
        from repro.data.base import Split
        from repro.data.readers.items import check_labels, normalise_inputs

        path = self.source
        if not is_zipfile(path):
            raise InputError(f"{path}: not an .npz file; must be what numpy.savez writes")
        arrays: dict[str, Any] = {}
        name = ""  # of the array that is read
        try:
            with np.load(path, allow_pickle=False) as stored:
                for name in stored.files:
                    arrays[name] = stored[name]
        except (OSError, ValueError, EOFError, BadZipFile, zlib.error) as error:
            where = f"{path}: {name}" if name else f"{path}"
            raise InputError(f"{where}: not readable as numbers of an .npz ({error}); must be numbers") from None
        endings = next((ends for ends in (("_train", "_test"), ("",)) if f"x{ends[0]}" in arrays), ())
        keys = [f"{name}{end}" for end in endings for name in "xy"]
        if not keys or any(key not in arrays for key in keys):
            names = ", ".join(arrays) or "nothing"
            raise InputError(f"{path}: has {names}; must have x_train, y_train, x_test, y_test, or x and y")
        for key in keys:
            if arrays[key].dtype.kind not in NUMBERS:
                raise InputError(f"{path}: {key} has type {arrays[key].dtype}; must be numbers")
            if not np.isfinite(arrays[key]).all():
                raise InputError(f"{path}: {key} has NaN or infinite values; must be finite")
        for end in endings:  # before PyTorch is imported
            (many,), (targets,) = (arrays[f"{name}{end}"].shape[:1] or (0,) for name in "xy")
            if many != targets or not many:
                raise InputError(
                    f"{path}: x{end} has {many} samples and y{end} {targets}; must have equal numbers above 0"
                )
        shapes = {f"x{end}": arrays[f"x{end}"].shape[1:] for end in endings}
        if len({*shapes.values()}) > 1:
            raise InputError(f"{path}: samples have shapes {shapes}; must be of one shape")
        parts: list[Samples] = []
        for end in endings:
            x, y = torch.from_numpy(arrays[f"x{end}"]), torch.from_numpy(np.asarray(arrays[f"y{end}"]))
            parts.append(Split(normalise_inputs(x), check_labels(y, f"{path}: y{end}")))
        return parts, parts[0].slice(0, 1)[0][0], files.file_sha256(path)

    def _called(self, options: dict[str, Any]) -> tuple[list[Samples], torch.Tensor, str]:
        """`_items`; InputError naming the user's file and line if the user's code raises an exception."""
        require_pytorch()  # the code may take long
        try:
            return self._items(options)
        except ReproError:
            raise
        except Exception as error:
            if exhausted_memory(error):
                raise
            line = errors.describe_error(error, lambda file: Path(file).parent in own_code.plugin_folders())
            raise InputError(f"data set {self.name}: {line}") from error

    def _items(self, options: dict[str, Any]) -> tuple[list[Samples], torch.Tensor, str]:
        import hashlib

        from repro.data.readers.items import read_items

        made = source = self.source
        if callable(source):
            by_part = "train" in inspect.signature(source).parameters
            try:
                made = tuple(source(train=part, **options) for part in (True, False)) if by_part else source(**options)
            except TypeError as error:
                raise InputError(f"data set {self.name}: {error}") from None
        parts = made if isinstance(made, tuple | list) and len(made) == 2 and _are_sets(made) else (made,)
        splits, samples, checksums = zip(
            *(read_items(part, f"data set {self.name}, {which}") for part, which in zip(parts, PARTS))
        )
        if len({sample.shape for sample in samples}) > 1:
            shapes = " and ".join(str(tuple(sample.shape)) for sample in samples)
            raise InputError(f"data set {self.name}: train and test have samples of shapes {shapes}; must be of one")
        return list(splits), samples[0], hashlib.sha256("".join(checksums).encode()).hexdigest()


def _are_sets(parts: Sequence[Any]) -> bool:
    return all(hasattr(part, "__getitem__") and not hasattr(part, "shape") for part in parts)


def held_out(whole: Samples) -> list[Samples]:
    """Cut a split into a training and a test set."""
    from repro.data.base import Subset
    from repro.data.minibatches import seeded_order

    order = seeded_order(len(whole), "held out")
    if len(whole) < TENTH:
        raise InputError(f"{len(whole)} samples are too few to hold out a test set; must be {TENTH} or more")
    test, train = order[: len(whole) // TENTH].sort().values, order[len(whole) // TENTH :].sort().values
    return [Subset(whole, train), Subset(whole, test)]
