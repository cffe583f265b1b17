"""Downloads and verifies a data set's public files."""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from repro.core.errors import InputError
from repro.data import files
from repro.data.files import load_source, missing_message

Result = TypeVar("Result")


def run_within(limit_s: float, task: Callable[[], Result]) -> Result:
    """The result of `task()`, or its exception; TimeoutError if it takes longer than limit_s seconds.

    The task runs in a daemon thread: a peer that sends a byte now and then satisfies any timeout of a socket, and no
    other way ends the wait in a name look-up, a TLS handshake and a response's headers too. A late task goes on until
    it notices; it blocks neither its caller nor the end of the process.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(task())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="time limit", daemon=True).start()
    return future.result(limit_s)


CHUNK = 1 << 16


def fetch_dataset(
    name: str,
    into: str | os.PathLike | None = None,
    *,
    mirrors: Sequence[str] | None = None,
    timeout_s: float = 20.0,
    total_s: float = 3600.0,
    say: Callable[[str], Any] = lambda line: None,
) -> Path:
    """Download the files of data set `name` into `<into>/<name>/` (default: the user's cache); returns that folder.

    Existing correct files are kept. The others are downloaded into a temporary folder and moved when all are complete,
    so that a failed download leaves nothing. Mirrors are tried in order. timeout_s: longest silence of a mirror;
    total_s: longest download. The tarball of a data set with an `ARCHIVE` is deleted after unpacking. InputError for an
    unknown name, a folder that cannot be written, mirrors without the right files, or data without download.
    """
    source = load_source(name)
    if not source.FILES:
        raise InputError(missing_message(name))
    mirrors = source.MIRRORS if mirrors is None else mirrors
    folder = (Path(into).expanduser() if into is not None else files.cache_root()) / name
    wanted = [
        file
        for file, expected in source.FILES.items()
        if not (folder / file).is_file() or files.file_sha256(folder / file) != expected.sha256
    ]
    if not wanted:
        say(f"{name}: complete in {folder}, checksums right")
        return folder
    temporary, new = None, not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".fetch-", dir=folder))
        deadline = time.monotonic() + total_s
        archive = getattr(source, "ARCHIVE", None)
        for file, expected in {archive.name: archive.file}.items() if archive else source.FILES.items():
            if archive or file in wanted:
                host = _from_any(mirrors, file, expected, temporary / file, timeout_s, deadline)
                say(f"{name}: {file}, {expected.size / 1e6:.1f} MB from {host}, checksum right")
        if archive:
            archive.unpack(temporary / archive.name, wanted, temporary)
            for file in wanted:
                files.check_file(temporary / file, source.FILES[file])
        for file in wanted:
            os.replace(temporary / file, folder / file)
    except _Refused as error:
        raise InputError(
            f"cannot download data set '{name}' ({error}); put {', '.join(wanted)} "
            f"into {folder} by hand, or into a folder named in REPRO_DATA"
        ) from None
    except OSError as error:
        raise InputError(f"{folder}: cannot write data set '{name}' there ({error.strerror or error})") from None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        if new and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    return folder


class _Refused(Exception):
    """No mirror provides the file; the message has each mirror's reason."""


def _from_any(
    mirrors: Sequence[str], file: str, expected: files.File, target: Path, timeout_s: float, deadline: float
) -> str:
    """Download a file from the first mirror that has the right content; returns the mirror's host."""
    reasons = []
    for mirror in mirrors:
        host = urllib.parse.urlsplit(mirror).netloc
        task = partial(_download, urllib.parse.urljoin(mirror, file), expected, target, timeout_s, deadline)
        try:
            run_within(deadline - time.monotonic(), task)
            return host
        except _Refused as error:
            reasons.append(f"{host}: {error}")
        except TimeoutError:
            reasons.append(f"{host}: {file} too slow for the time limit, which is that of all mirrors")
            break
    raise _Refused("; ".join(reasons) or "no mirrors")


def _download(url: str, expected: files.File, target: Path, timeout_s: float, deadline: float) -> None:
    """Download one address into `target`; _Refused for errors of the server, OSError for those of the disk."""
    digest, size, name = hashlib.sha256(), 0, urllib.parse.urlsplit(url).path.rsplit("/", 1)[-1]
    with open(target, "wb") as out:
        try:
            response = urllib.request.urlopen(url, timeout=timeout_s)
        except urllib.error.URLError as error:
            raise _Refused(getattr(error.reason, "strerror", None) or str(error.reason)) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _Refused(str(error) or type(error).__name__) from None
        with response:
            while True:
                try:
                    chunk = response.read1(CHUNK)  # what has arrived: `read` waits for a whole chunk
                except (OSError, http.client.HTTPException) as error:
                    raise _Refused(f"{name} stopped after {size} bytes ({error})") from None
                size += len(chunk)
                if not chunk or size > expected.size:
                    break
                if time.monotonic() > deadline:  # `run_within` has given up
                    raise TimeoutError
                digest.update(chunk)
                out.write(chunk)
    if digest.hexdigest() != expected.sha256 or size != expected.size:
        raise _Refused(
            f"{name} corrupt: expected sha256 {expected.sha256} ({expected.size} bytes), got {digest.hexdigest()} "
            f"({size} bytes)"
        )
