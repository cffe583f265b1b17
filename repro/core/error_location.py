"""Describes in one line where an exception of a user's code was raised."""

from __future__ import annotations

import traceback
from collections.abc import Callable


def describe_error(error: BaseException, *preferred: Callable[[str], bool]) -> str:
    """`FILE:LINE: TYPE: MESSAGE` of the last executed line in a preferred file, else of the last executed line.

    preferred: predicates of a file's path, in order of preference. A syntax error names its own file and line.
    """
    kind = type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {kind}: {error.msg}"
    message = f"{kind}: {' '.join(str(error).split())}".removesuffix(": ")
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return message
    last = next((frame for is_of in preferred for frame in reversed(frames) if is_of(frame.filename)), frames[-1])
    return f"{last.filename}:{last.lineno}: {message}"
