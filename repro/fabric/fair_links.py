"""The network model in which connections share a NIC: each in turn sends a quantum, as TCP's flows do on average."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from repro.fabric.links import Links
from repro.fabric.network import Network
from repro.fabric.scheduler import Scheduler


@dataclass
class Sending:
    """A message under way: bytes that have not left yet, bytes that have not been taken in yet."""

    to: int
    nbytes: int
    to_leave: int
    to_come: int
    deliver: Callable[[], None]
    left: Callable[[], None]


@dataclass
class Connection:
    """What one node has to send to one other, in order."""

    nodes: tuple[int, int]
    messages: deque[Sending]


class FairLinks(Links):
    """As `Links`, cut into quanta: alpha + n * beta for a message alone, and p messages to one node still end after
    alpha + p * n * beta; but they end together, where `Links` serves one after the other. Messages from one node to one
    other are a connection's, and go one after the other.

    A quantum is far longer than a packet, and a turn of all connections takes long: a message up to `network.short`,
    which TCP would send between two packets, takes no turn, and its bytes none of the others' time.

    With `network.hosts` the connections of all nodes of a host take turns on its NIC; within a host as `Links`.
    """

    def __init__(self, scheduler: Scheduler, network: Network, size: int):
        super().__init__(scheduler, network, size)
        # of each host its connections with something to send, the one whose turn it is first
        self.sending: list[deque[Connection]] = [deque() for _ in range(self.hosts)]
        self.open: dict[tuple[int, int], Connection] = {}  # those among them, by their nodes
        self.coming: Counter[tuple[int, int, Hashable]] = Counter()  # messages under way that take turns, of each lane

    def between_hosts(
        self, source: int, to: int, nbytes: int, deliver: Callable[[], None], left: Callable[[], None], lane: Hashable
    ) -> None:
        """In turns with the other connections of the sender's host, or at once where it is short."""
        if nbytes <= self.network.short and not self.coming[source, to, lane]:
            end = self.scheduler.now + nbytes * self.network.beta
            self.scheduler.at(end + self.network.latency(nbytes), to, deliver)
            self.scheduler.at(end, source, left)
            return
        self.coming[source, to, lane] += 1

        def delivered() -> None:
            self.coming[source, to, lane] -= 1
            deliver()

        message = Sending(to, nbytes, nbytes, nbytes, delivered, left)
        if connection := self.open.get((source, to)):
            connection.messages.append(message)
            return
        self.open[source, to] = connection = Connection((source, to), deque([message]))
        host = source % self.hosts
        self.sending[host].append(connection)
        if len(self.sending[host]) == 1:
            self._send_quantum(host)

    def _send_quantum(self, host: int) -> None:
        scheduler, connections = self.scheduler, self.sending[host]
        source, message = connections[0].nodes[0], connections[0].messages[0]
        quantum = min(self.network.quantum or message.to_leave, message.to_leave)
        wire = quantum * self.network.beta

        def head_arrives() -> None:
            there = message.to % self.hosts
            rx = max(scheduler.now, self.rx_free[there])
            self.rx_free[there] = rx + wire
            message.to_come -= quantum
            if not message.to_come:
                scheduler.at(rx + wire, message.to, message.deliver)

        def tail_leaves() -> None:
            connection = connections.popleft()
            message.to_leave -= quantum
            if not message.to_leave:
                connection.messages.popleft()
                message.left()
            if connection.messages:
                connections.append(connection)
            else:
                del self.open[connection.nodes]
            if connections:
                self._send_quantum(host)

        scheduler.at(scheduler.now + self.network.latency(message.nbytes), message.to, head_arrives)
        scheduler.at(scheduler.now + wire, source, tail_leaves)
