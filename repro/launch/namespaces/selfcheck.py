"""Measurement of a shaped network's links: goodput with all hosts sending at once in a ring, and the round trip.

It uses plain TCP sockets with one sender and one receiver process per host, an upper bound of what ranks can reach.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import statistics
import sys
import termios
import time
from collections.abc import Callable, Sequence
from functools import partial

from repro.core.ethernet import GOODPUT_SHARE
from repro.launch.namespaces import links, linux

PORT = 7070
LIMIT_S = 20.0
# Both are minima: on a slow link a single lost packet would matter in half a second.
WINDOW_S, WINDOW_BYTES = 0.5, 12e6
WARM_UP_SHARE = 0.3  # of a window, before it: TCP's slow start
ROUND_TRIPS, FIRST_TRIPS = 150, 30
CHUNK = 1 << 18
LEAST_SHARE = {1.0: 0.97, float("inf"): 0.9}  # share of the possible goodput that each link must reach, by upper Gbit/s
# The machine may be busy for a moment: measure again, and more often if most of the rate was reached.
ATTEMPTS, PATIENT_ATTEMPTS, NEAR_SHARE, PAUSE_S = 3, 12, 0.5, 0.3


def measure_links(hosts: Sequence[links.Host], rate_gbit: float) -> dict[str, object]:
    """Payload in Gbit/s of each link i -> i + 1 with all hosts sending, and seconds of a small message's round trip."""
    possible = GOODPUT_SHARE * rate_gbit
    window_s = max(WINDOW_S, 8e-9 * WINDOW_BYTES / possible)
    goodput, attempts = _ring(hosts, window_s), 1
    while min(goodput) < least_payload(rate_gbit):
        if attempts >= (PATIENT_ATTEMPTS if min(goodput) > NEAR_SHARE * possible else ATTEMPTS):
            break
        time.sleep(PAUSE_S)
        goodput, attempts = max(goodput, _ring(hosts, window_s), key=min), attempts + 1
    links.enter_host(hosts[0])
    congestion_control = links.congestion_control()
    trips = [_round_trip(host, hosts[(i + 1) % len(hosts)]) for i, host in enumerate(hosts)]
    return {
        "goodput_gbit": [round(each, 4) for each in goodput],
        "goodput_gbit_min": round(min(goodput), 4),
        "goodput_gbit_median": round(statistics.median(goodput), 4),
        "possible_gbit": round(possible, 4),
        "round_trip_s": round(statistics.median(trips), 7),
        "round_trip_max_s": round(max(trips), 7),  # 8 us on one core, 55 us if another core has to wake up
        "congestion_control": congestion_control,
        "attempts": attempts,
        "load": round(os.getloadavg()[0], 1),
    }


def reached_rate(measured: dict, rate_gbit: float) -> bool:
    """Whether every link reaches the required share of its rate."""
    return measured["goodput_gbit_min"] >= least_payload(rate_gbit)


def least_payload(rate_gbit: float) -> float:
    """Required payload of each link in Gbit/s."""
    return next(share for below, share in LEAST_SHARE.items() if rate_gbit < below) * GOODPUT_SHARE * rate_gbit


def capacity_advice(measured: dict, rate_gbit: float) -> str:
    """Advice: the number of hosts, or the rate, that this machine's total goodput would have sufficed for."""
    total = sum(measured["goodput_gbit"])
    full_links = total / measured["possible_gbit"]
    lower = rate_gbit * full_links / len(measured["goodput_gbit"])
    return (
        f"all links together carried {total:.3g} Gbit/s: use at most {int(full_links)} hosts, or "
        f"links of {float(f'{lower:.2g}'):g} Gbit/s"
    )


def _ring(hosts: Sequence[links.Host], window_s: float) -> list[float]:
    listening = [_listener(host) for host in hosts]
    receivers = [_child(host, partial(_receive, each, window_s)) for host, each in zip(hosts, listening)]
    targets = [hosts[(i + 1) % len(hosts)] for i in range(len(hosts))]
    senders = [_child(host, partial(_send, to)) for host, to in zip(hosts, targets)]
    for each in listening:
        each.close()
    rates = [_answer(receiver) for receiver in receivers]
    for sender in senders:
        _end(sender)
    return [rates[(i + 1) % len(hosts)] for i in range(len(hosts))]


def _round_trip(host: links.Host, other: links.Host) -> float:
    listening = _listener(other)
    echo = _child(other, lambda: _echo(listening))
    trip = _child(host, lambda: _trips(other))
    listening.close()
    seconds = _answer(trip)
    _end(echo)
    return seconds


def _listener(host: links.Host) -> socket.socket:
    links.enter_host(host)
    return socket.create_server((host.address, PORT), reuse_port=False)


def _receive(listening: socket.socket, window_s: float) -> float:
    """Gbit/s that arrive within the window, including bytes that this process has not read yet."""
    connection, _ = listening.accept()
    buffer, total, before = bytearray(CHUNK), 0, 0
    first = last = began = time.monotonic()
    while last < began + (WARM_UP_SHARE + 1) * window_s:
        received = connection.recv_into(buffer)
        if not received:
            break
        total, last = total + received, time.monotonic()
        if last < began + WARM_UP_SHARE * window_s:
            first, before = last, total + _unread(connection)
    return 8e-9 * (total + _unread(connection) - before) / max(last - first, 1e-9)


def _unread(connection: socket.socket) -> int:
    """Bytes that have arrived and were not read yet."""
    return int.from_bytes(fcntl.ioctl(connection, termios.FIONREAD, bytes(4)), sys.byteorder)


def _send(to: links.Host) -> None:
    with socket.create_connection((to.address, PORT), LIMIT_S) as connection:
        buffer = bytes(CHUNK)
        while True:  # until it is killed, so that no sender stops while others still measure
            connection.sendall(buffer)


def _echo(listening: socket.socket) -> None:
    connection, _ = listening.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while word := connection.recv(4):
        connection.sendall(word)


def _trips(to: links.Host) -> float:
    seconds = []
    with socket.create_connection((to.address, PORT), LIMIT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(FIRST_TRIPS + ROUND_TRIPS):
            started = time.perf_counter()
            connection.sendall(b"ping")
            connection.recv(4)
            seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[FIRST_TRIPS:])


def _child(host: links.Host, work: Callable[[], float | None]) -> tuple[int, int]:
    """Fork a process that calls `work` inside a host; returns (process, pipe with the result)."""
    reading, writing = os.pipe()
    parent = os.getpid()
    if child := os.fork():
        os.close(writing)
        return child, reading
    status = 1
    try:
        linux.killed_with_parent(parent)
        signal.alarm(round(LIMIT_S))
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        links.enter_host(host)
        os.write(writing, json.dumps(work()).encode())
        status = 0
    except OSError:
        pass  # the other side has ended, which the parent notices
    finally:
        os._exit(status)


def _answer(child: tuple[int, int]) -> float:
    text = os.read(child[1], 100)
    _end(child)
    return json.loads(text) if text else 0.0


def _end(child: tuple[int, int]) -> None:
    os.kill(child[0], signal.SIGKILL)
    os.waitpid(child[0], 0)
    os.close(child[1])
