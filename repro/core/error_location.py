"""Describes in one line where an exception of a user's code was raised."""

from __future__ import annotations

import traceback
from collections.abc import Callable


def describe(error: BaseException, *theirs: Callable[[str], bool]) -> str:
    """`FILE:LINE: TYPE: MESSAGE`, with the last executed line in one of the user's files, else the last one anywhere.

    theirs: predicates of a file's path, in order of preference. A file with a syntax error is named with the wrong
    line.
    """
    kind = type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {kind}: {error.msg}"
    what = f"{kind}: {' '.join(str(error).split())}".removesuffix(": ")
    ran = traceback.extract_tb(error.__traceback__)
    if not ran:
        return what
    last = next((frame for each in theirs for frame in reversed(ran) if each(frame.filename)), ran[-1])
    return f"{last.filename}:{last.lineno}: {what}"
