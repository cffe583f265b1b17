"""A fluid network model: concurrent messages share NICs max-min fairly, as TCP flows do on average."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random
from typing import NamedTuple

from repro.fabric.virtual.links import Links
from repro.fabric.virtual.network import Network
from repro.fabric.virtual.scheduler import Scheduler

EQUAL = 1 + 1e-12  # links whose shares differ by rounding only are saturated together


class Sending(NamedTuple):
    """A message of a connection. wire: its seconds on an otherwise idle link."""

    wire: float
    latency: float
    deliver: Callable[[], None]
    left: Callable[[], None]
    lane: Hashable


class Connection:
    """The queue of messages from one node to another; its first message is a flow."""

    def __init__(self, source: int, to: int, message: Sending):
        self.source, self.to = source, to
        self.messages = deque([message])


@dataclass(slots=True)
class Route:
    """The flows between the NICs of two hosts. All have the same rate, so one number holds the progress of all.

    weight    of each flow: its share of a saturated link, relative to a flow of weight 1
    flows     a heap of (`served` at its end, number, connection)
    served    seconds at a NIC's full rate that a flow has received if it started when `served` was 0; valid at `since`
    rate      of each flow, as a share of a NIC's rate
    due       when the first flow ends at this rate
    check_at  when the scheduler checks next, never later than `due`
    """

    links: tuple[int, int]
    weight: float = 1.0
    flows: list[tuple[float, int, Connection]] = field(default_factory=list)
    served: float = 0.0
    since: float = 0.0
    rate: float = 0.0
    due: float = inf
    check_at: float = inf


class FairLinks(Links):
    """A lone message takes n * beta + alpha; p messages to or from one node all end after p * n * beta + alpha.

    The first message of every connection (from one node to another) is a flow over the sender's outgoing and the
    receiver's incoming NIC; with `network.hosts` the nodes of a host share its NIC. Rates are max-min fair, by
    progressive filling (Bertsekas and Gallager, Data Networks, section 6.5.2): no flow could be faster without slowing
    down a flow that is no faster. Rates change when a flow starts or ends, but only those of flows that share NICs with
    it, directly or indirectly. A connection's next message starts when the previous one ends; alpha follows and
    occupies no link.

    A message of at most `network.short` bytes, which TCP would send between two packets, is no flow and takes no
    bandwidth, unless an earlier message of its lane is still queued. Messages within a host behave as in `Links`.
    """

    def __init__(self, scheduler: Scheduler, network: Network, size: int):
        super().__init__(scheduler, network, size)
        self.open: dict[tuple[int, int], Connection] = {}  # by (source, target)
        # for each link its active routes, by the link at their other end; outgoing links precede incoming ones
        self.at: list[dict[int, Route]] = [{} for _ in range(2 * self.hosts)]
        self.changed: dict[tuple[int, int], Route] = {}  # routes whose set of flows changed, by their links
        self.numbers = count()
        self.draws = Random(network.seed)

    def between_hosts(
        self, source: int, to: int, nbytes: int, deliver: Callable[[], None], left: Callable[[], None], lane: Hashable
    ) -> None:
        wire, latency = nbytes * self.network.beta, self.network.latency(nbytes)
        connection = self.open.get((source, to))
        if nbytes <= self.network.short and not (connection and any(m.lane == lane for m in connection.messages)):
            end = self.scheduler.now + wire
            self.scheduler.at(self.in_order(source, to, lane, end + latency), to, deliver)
            self.scheduler.at(end, source, left)
            return
        message = Sending(wire, latency, deliver, left, lane)
        if connection:
            connection.messages.append(message)
            return
        self.open[source, to] = connection = Connection(source, to, message)
        way_out, way_in = source % self.hosts, self.hosts + to % self.hosts
        route = self.at[way_out].get(way_in)
        if route is None:
            weight = self.draws.lognormvariate(0.0, self.network.spread) if self.network.spread else 1.0
            route = self.at[way_out][way_in] = self.at[way_in][way_out] = Route((way_out, way_in), weight)
        self._serve(route)
        heappush(route.flows, (route.served + wire, next(self.numbers), connection))
        self._changes(route)

    def _serve(self, route: Route) -> None:
        """Account for the service until now."""
        now = self.scheduler.now
        route.served += route.rate * (now - route.since)
        route.since = now

    def _changes(self, route: Route) -> None:
        """Recompute rates after all events of the current time, because the route's flows changed."""
        if not self.changed:
            self.scheduler.at(self.scheduler.now, self.size, self._settle)
        self.changed[route.links] = route

    def _settle(self) -> None:
        changed, self.changed = self.changed, {}
        for (way_out, way_in), route in changed.items():
            if not route.flows:
                del self.at[way_out][way_in], self.at[way_in][way_out]
        settled: set[int] = set()
        for link in (link for links in changed for link in links):
            if link in settled:
                continue
            links = self._reached(link)
            settled.update(links)
            for route, rate in self._rates(links):
                if rate != route.rate or route.links in changed:
                    self._serve(route)
                    route.rate = rate
                    self._schedule_check(route)

    def _reached(self, link: int) -> list[int]:
        """The links that share flows with this one, directly or indirectly, itself included."""
        links, reached = [link], {link}
        for one in links:
            for other in self.at[one]:
                if other not in reached:
                    reached.add(other)
                    links.append(other)
        return links

    def _rates(self, links: list[int]) -> list[tuple[Route, float]]:
        """The rates of all routes on these links, by progressive filling: the link with the least capacity for each
        unit of weight fixes the rates of its flows; then the remaining links, with their remaining capacity."""
        rates: dict[tuple[int, int], tuple[Route, float]] = {}
        at, free = self.at, dict.fromkeys(links, 1.0)
        weights = {link: sum([len(route.flows) * route.weight for route in at[link].values()]) for link in links}
        while weights := {link: weight for link, weight in weights.items() if weight}:
            least = min([free[link] / weight for link, weight in weights.items()])
            most = least * EQUAL
            for link in [link for link, weight in weights.items() if free[link] <= most * weight]:
                for other, route in at[link].items():
                    if route.links not in rates:
                        rates[route.links] = route, least * route.weight
                        weight = len(route.flows) * route.weight
                        free[link] -= weight * least
                        free[other] -= weight * least
                        weights[other] -= weight
                weights[link] = 0.0  # exactly, because weights are not whole numbers
        return list(rates.values())

    def _schedule_check(self, route: Route) -> None:
        """Schedule a check for the end of the route's next flow, unless an earlier one is scheduled."""
        route.due = route.since + max(route.flows[0][0] - route.served, 0.0) / route.rate
        if route.due < route.check_at:
            route.check_at = route.due
            self.scheduler.at(route.due, self.size, partial(self._check_ends, route))

    def _check_ends(self, route: Route) -> None:
        now, flows = self.scheduler.now, route.flows
        if now != route.check_at:
            return  # replaced by an earlier check
        route.check_at = inf
        if now < route.due:  # the flows have slowed down meanwhile
            self._schedule_check(route)
            return
        route.served, route.since = end, _ = flows[0][0], now
        any_closed = False
        while flows and flows[0][0] == end:
            connection = heappop(flows)[2]
            message = connection.messages.popleft()
            message.left()
            arrival = self.in_order(connection.source, connection.to, message.lane, now + message.latency)
            self.scheduler.at(arrival, connection.to, message.deliver)
            if connection.messages:
                heappush(flows, (end + connection.messages[0].wire, next(self.numbers), connection))
            else:
                del self.open[connection.source, connection.to]
                any_closed = True
        if any_closed:
            self._changes(route)
        else:
            self._schedule_check(route)
