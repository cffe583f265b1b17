"""The one door through which image files are opened: JPEG and PNG alone, and no more pixels than memory should hold.

Pillow knows by the first bytes of a file what it is, whatever its name, and has Ghostscript interpret an EPS file. A
hundred bytes of a PNG can stand for as many pixels as they like.
"""

from __future__ import annotations

import stat
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from PIL import Image, UnidentifiedImageError

from repro.core.errors import InputError
from repro.data.readers.shards import Entry

FORMATS = ("JPEG", "PNG")
MOST_PIXELS = 2**30 // 12  # above it Pillow warns, and refuses only twice as many; 360 MB as RGB
LARGE_PIXELS = 2**24  # images with more are decoded one at a time
_LARGE = threading.Lock()

Source = Path | Entry  # of an image: its str() names it, open("rb") has its bytes

# of what `_opened` refuses
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


class Unreadable(InputError):
    """A file that is no image, a damaged one or one that is too large."""

    def __init__(self, source: Source, reason: str):
        super().__init__(f"{source} ({reason})")
        self.reason = reason


@contextmanager
def decoded(source: Source) -> Iterator[Image.Image]:
    """Its pixels as RGB, for as long as the context is open; Unreadable."""
    with ExitStack() as held:
        with _named(source):
            image = _opened(source, held)
            if image.width * image.height > LARGE_PIXELS:
                held.enter_context(_LARGE)
            rgb = image.convert("RGB")
        yield rgb


def size(source: Source) -> tuple[int, int]:
    """(Height, width), from its first bytes; Unreadable."""
    with ExitStack() as held, _named(source):
        image = _opened(source, held)
        return image.height, image.width


def _opened(source: Source, held: ExitStack) -> Image.Image:
    if isinstance(source, Path) and not stat.S_ISREG(source.stat().st_mode):
        raise OSError("no regular file")
    file: IO[bytes] = source.open("rb")
    image = held.enter_context(Image.open(held.enter_context(file), formats=FORMATS))
    if image.width * image.height > MOST_PIXELS:
        raise OSError(f"{image.width}x{image.height}, more than {MOST_PIXELS} pixels")
    return image


@contextmanager
def _named(source: Source) -> Iterator[None]:
    """Pillow's errors with the file's name. Its readers raise nearly everything on bytes that they do not expect."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        reason = "no image" if isinstance(error, UnidentifiedImageError) else " ".join(str(error).split())
        raise Unreadable(source, reason or type(error).__name__) from None
