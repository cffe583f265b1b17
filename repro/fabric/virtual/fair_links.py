"""The network model in which what is under way shares NICs as fluids do, max-min fair: as TCP's flows on average."""

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

EQUAL = 1 + 1e-12  # links whose shares are no further apart than rounding are full at once


class Sending(NamedTuple):
    """A message of a connection; `wire`: seconds that it takes alone."""

    wire: float
    latency: float
    deliver: Callable[[], None]
    left: Callable[[], None]
    lane: Hashable


class Connection:
    """What one node has to send to one other, in order: the first of its messages is a flow."""

    def __init__(self, source: int, to: int, message: Sending):
        self.source, self.to = source, to
        self.messages = deque([message])


@dataclass(slots=True)
class Route:
    """The flows from one host's NIC to another's, which have the same rate: one number says how far all of them are.

    weight   of each flow, where a link is full: it has so many times the share of one of weight 1
    flows    a heap of (`served` at its end, number, connection)
    served   seconds at a NIC's full rate that a flow has had which began when `served` was 0; right at `since`
    rate     of each flow, of a NIC's
    due      when the first of them ends at this rate; `asked`: when the scheduler will ask next, never later
    """

    links: tuple[int, int]
    weight: float = 1.0
    flows: list[tuple[float, int, Connection]] = field(default_factory=list)
    served: float = 0.0
    since: float = 0.0
    rate: float = 0.0
    due: float = inf
    asked: float = inf


class FairLinks(Links):
    """n * beta + alpha for a message alone; p messages to one node, or from it, all end after p * n * beta + alpha.

    The first message of every connection (from one node to one other) is a flow over the NIC that it leaves and the one
    that it enters; with `network.hosts` nodes of a host share its NIC. Rates are max-min fair, by progressive filling
    (Bertsekas and Gallager, Data Networks, section 6.5.2): nobody could have more without taking it from one who has no
    more. They change where a flow begins or ends, and there only those of flows that share NICs with it, however
    indirectly. A connection's next message begins where the one before ends; alpha comes behind, and takes no link.

    A message up to `network.short`, which TCP would send between two packets, is no flow, and takes nobody's bytes,
    unless one of its lane has not left. Within a host as `Links`.
    """

    def __init__(self, scheduler: Scheduler, network: Network, size: int):
        super().__init__(scheduler, network, size)
        self.open: dict[tuple[int, int], Connection] = {}  # by their nodes
        # the routes with flows at each link, by the link at their other end; NICs' ways out come before those in
        self.at: list[dict[int, Route]] = [{} for _ in range(2 * self.hosts)]
        self.changed: dict[tuple[int, int], Route] = {}  # to which flows came, or from which they went, by their links
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
        """Until now."""
        now = self.scheduler.now
        route.served += route.rate * (now - route.since)
        route.since = now

    def _changes(self, route: Route) -> None:
        """More flows, or fewer: there are to be new rates, when whatever else is due now has been done."""
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
                    self._ask(route)

    def _reached(self, link: int) -> list[int]:
        """The link and those that share flows with it, however indirectly."""
        links, reached = [link], {link}
        for one in links:
            for other in self.at[one]:
                if other not in reached:
                    reached.add(other)
                    links.append(other)
        return links

    def _rates(self, links: list[int]) -> list[tuple[Route, float]]:
        """Those of all routes on these links: the link with the least for each weight of its flows gives them that, and
        so on with what the other links have left."""
        found: dict[tuple[int, int], tuple[Route, float]] = {}
        at, free = self.at, dict.fromkeys(links, 1.0)
        weights = {link: sum([len(route.flows) * route.weight for route in at[link].values()]) for link in links}
        while weights := {link: weight for link, weight in weights.items() if weight}:
            least = min([free[link] / weight for link, weight in weights.items()])
            most = least * EQUAL
            for link in [link for link, weight in weights.items() if free[link] <= most * weight]:
                for other, route in at[link].items():
                    if route.links not in found:
                        found[route.links] = route, least * route.weight
                        weight = len(route.flows) * route.weight
                        free[link] -= weight * least
                        free[other] -= weight * least
                        weights[other] -= weight
                weights[link] = 0.0  # to the last bit: weights are no whole numbers
        return list(found.values())

    def _ask(self, route: Route) -> None:
        """Let the scheduler ask for the end of the route's next flow when it is due, if not before."""
        route.due = route.since + max(route.flows[0][0] - route.served, 0.0) / route.rate
        if route.due < route.asked:
            route.asked = route.due
            self.scheduler.at(route.due, self.size, partial(self._asked, route))

    def _asked(self, route: Route) -> None:
        now, flows = self.scheduler.now, route.flows
        if now != route.asked:
            return  # an earlier time was asked for since
        route.asked = inf
        if now < route.due:  # the flows have become slower since
            self._ask(route)
            return
        route.served, route.since = end, _ = flows[0][0], now
        gone = False
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
                gone = True
        if gone:
            self._changes(route)
        else:
            self._ask(route)
