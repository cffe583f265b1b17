"""Limits for the responses of a tracking server: MLflow would read them to their end, and follow them anywhere."""

from __future__ import annotations

import http.client
import io
import time
from collections.abc import Iterator
from functools import cache
from typing import Any

MOST_BYTES = 128 * 2**20  # as sent, and again decompressed; a thousand runs of our largest configurations have 20 MB
MOST_S = 120.0
TOO_LONG, REDIRECTED = "longer than the limit of a response", "redirected to another address"  # the errors


class BoundedResponse(http.client.HTTPResponse):
    """A response that fails with OSError at either limit, its headers and what is not used of its body included."""

    def __init__(self, sock: Any, *others: Any, **more: Any):
        super().__init__(sock, *others, **more)
        self.fp = io.BufferedReader(_BoundedStream(self.fp.detach()))  # type: ignore[attr-defined]


class _BoundedStream(io.RawIOBase):
    """What a socket receives, up to the limits."""

    def __init__(self, raw: Any):
        self._raw, self._size, self._deadline = raw, 0, time.monotonic() + MOST_S

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        count: int | None = self._raw.readinto(buffer)
        self._size += count or 0
        if self._size > MOST_BYTES or time.monotonic() > self._deadline:
            raise OSError(TOO_LONG)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _BoundedBody:
    """A body of urllib3 whose decompressed content is bounded too."""

    def __init__(self, body: Any):
        self._body = body

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)

    def stream(self, *amount: int, **how: Any) -> Iterator[bytes]:
        size = 0
        for piece in self._body.stream(*amount, **how):
            size += len(piece)
            if size > MOST_BYTES:
                self._body.close()
                raise OSError(TOO_LONG)
            yield piece


@cache
def limit_responses() -> None:
    """Bound every response that this process receives through `requests`, MLflow's one way to a server, and refuse
    redirects: files and credentials are for the address that the user named."""
    import requests.adapters
    import urllib3.connection

    build = requests.adapters.HTTPAdapter.build_response

    def build_limited(adapter: Any, request: Any, body: Any) -> Any:
        response = build(adapter, request, body)
        if response.is_redirect:
            response.close()
            raise requests.TooManyRedirects(REDIRECTED)
        response.raw = _BoundedBody(body)
        return response

    requests.adapters.HTTPAdapter.build_response = build_limited  # type: ignore[assignment, method-assign]
    urllib3.connection.HTTPConnection.response_class = BoundedResponse
