"""An HTTP server on loopback with answers that no library of servers would give: endless, or a byte now and then.

It listens on 127.0.0.1 alone, sends a bounded number of pieces to a bounded number of clients, and ends by itself.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

MOST_CLIENTS = 50
SILENCE_S = 30.0  # the longest wait for a client, and for its next request or its reading

Answer = Callable[[str, bytes], Iterable[bytes]]  # request line, body -> the pieces of the response


@dataclass
class Hostile:
    """address: of the server, with the slash at its end; requests: the request lines; whole: whether a client took a
    whole response, which ends the server's connection to it."""

    address: str
    requests: list[str] = field(default_factory=list)
    whole: bool = False


@contextlib.contextmanager
def hostile_server(answer: Answer) -> Iterator[Hostile]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(SILENCE_S)
        server = Hostile(f"http://127.0.0.1:{listener.getsockname()[1]}/")

        def accept() -> None:
            with contextlib.suppress(OSError):  # closed, or no client for long
                for _ in range(MOST_CLIENTS):
                    client = listener.accept()[0]
                    client.settimeout(SILENCE_S)
                    threading.Thread(target=respond, args=(client,), daemon=True).start()

        def respond(client: socket.socket) -> None:
            with client, client.makefile("rb") as sent, contextlib.suppress(OSError):
                line = sent.readline().decode().strip()
                headers = dict(entry.lower().split(b":", 1) for entry in iter(sent.readline, b"\r\n") if b":" in entry)
                server.requests.append(line)
                for piece in answer(line, sent.read(int(headers.get(b"content-length", 0)))):
                    client.sendall(piece)
                server.whole = True

        threading.Thread(target=accept, daemon=True).start()
        yield server
        listener.shutdown(socket.SHUT_RDWR)
