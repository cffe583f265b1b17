"""Opens image files safely: only JPEG and PNG, up to a limit of pixels.

Pillow detects formats by content and would run Ghostscript on an EPS file of any name, and a PNG of a hundred bytes can
decode to any number of pixels.
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
MOST_PIXELS = 2**30 // 12  # Pillow warns above it and refuses twice as many; 360 MB as RGB
LARGE_PIXELS = 2**24  # images with more are decoded one at a time
_LARGE = threading.Lock()

Source = Path | Entry  # str() names the image, open("rb") reads its bytes

# `_opened` refuses these images
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


class Unreadable(InputError):
    """A file is no image, is damaged, or has too many pixels."""

    def __init__(self, source: Source, reason: str):
        super().__init__(f"{source} ({reason})")
        self.reason = reason


@contextmanager
def open_image(source: Source) -> Iterator[Image.Image]:
    """A context with the image as RGB; Unreadable."""
    with ExitStack() as stack:
        with _named(source):
            image = _opened(source, stack)
            if image.width * image.height > LARGE_PIXELS:
                stack.enter_context(_LARGE)
            rgb = image.convert("RGB")
        yield rgb


def image_size(source: Source) -> tuple[int, int]:
    """(height, width) from the header; Unreadable."""
    with ExitStack() as stack, _named(source):
        image = _opened(source, stack)
        return image.height, image.width


def _opened(source: Source, stack: ExitStack) -> Image.Image:
    if isinstance(source, Path) and not stat.S_ISREG(source.stat().st_mode):
        raise OSError("no regular file")
    file: IO[bytes] = source.open("rb")
    image = stack.enter_context(Image.open(stack.enter_context(file), formats=FORMATS))
    if image.width * image.height > MOST_PIXELS:
        raise OSError(f"{image.width}x{image.height}, more than {MOST_PIXELS} pixels")
    return image


@contextmanager
def _named(source: Source) -> Iterator[None]:
    """Convert errors to Unreadable. Pillow's readers raise almost any exception on malformed bytes."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        reason = "no image" if isinstance(error, UnidentifiedImageError) else " ".join(str(error).split())
        raise Unreadable(source, reason or type(error).__name__) from None
