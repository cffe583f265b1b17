"""The network model in which connections share a NIC: each in turn sends a quantum, as TCP's flows do on average."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from repro.fabric.links import Network
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


class FairLinks:
    """As `Links`, cut into quanta: alpha + n * beta for a message alone, and p messages to one node still end after
    alpha + p * n * beta; but they end together, where `Links` serves one after the other. Messages from one node to one
    other are a connection's, and go one after the other.
    """

    def __init__(self, scheduler: Scheduler, network: Network, size: int):
        self.scheduler, self.network = scheduler, network
        # of each node its connections with something to send, the one whose turn it is first
        self.sending: list[deque[deque[Sending]]] = [deque() for _ in range(size)]
        self.rx_free = [0.0] * size
        self.messages = 0

    def transmit(
        self, source: int, to: int, nbytes: int, deliver: Callable[[], None], left: Callable[[], None]
    ) -> None:
        """Send now; `left` runs when the sender's NIC has let go of the last byte, `deliver` when it is in."""
        self.messages += 1
        if source == to:
            self.scheduler.at(self.scheduler.now, to, deliver)
            self.scheduler.at(self.scheduler.now, source, left)
            return
        message = Sending(to, nbytes, nbytes, nbytes, deliver, left)
        connections = self.sending[source]
        for connection in connections:
            if connection[0].to == to:
                connection.append(message)
                return
        connections.append(deque([message]))
        if len(connections) == 1:
            self._send_quantum(source)

    def _send_quantum(self, source: int) -> None:
        scheduler, connections = self.scheduler, self.sending[source]
        message = connections[0][0]
        quantum = min(self.network.quantum, message.to_leave)
        wire = quantum * self.network.beta

        def head_arrives() -> None:
            rx = max(scheduler.now, self.rx_free[message.to])
            self.rx_free[message.to] = rx + wire
            message.to_come -= quantum
            if not message.to_come:
                scheduler.at(rx + wire, message.to, message.deliver)

        def tail_leaves() -> None:
            connection = connections.popleft()
            message.to_leave -= quantum
            if not message.to_leave:
                connection.popleft()
                message.left()
            if connection:
                connections.append(connection)
            if connections:
                self._send_quantum(source)

        scheduler.at(scheduler.now + self.network.latency(message.nbytes), message.to, head_arrives)
        scheduler.at(scheduler.now + wire, source, tail_leaves)
