"""Where an exception of somebody's code comes from, in one line."""

from __future__ import annotations

import traceback
from collections.abc import Callable


def describe(error: BaseException, *theirs: Callable[[str], bool]) -> str:
    """`FILE:LINE: TYPE: MESSAGE` of the last line that ran in a file of theirs; without one, of the last that ran.

    theirs: each says whether a file, by its path, is theirs; the first of which a line ran counts. A file that is no
    Python is named with the line that is wrong.
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
