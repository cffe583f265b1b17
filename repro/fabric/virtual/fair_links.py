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

    links     the sender's outgoing NIC, the trunks between switches on the way, the receiver's incoming NIC
    weight    of each flow: its share of a saturated link, relative to a flow of weight 1
    flows     a heap of (`served` at its end, number, connection)
    served    seconds at a NIC's full rate that a flow has received if it started when `served` was 0; valid at `since`
    rate      of each flow, as a share of a NIC's rate
    due       when the first flow ends at this rate
    check_at  when the scheduler checks next, never later than `due`
    """

    links: tuple[int, ...]
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
    receiver's incoming NIC; with `network.hosts` the nodes of a host share its NIC. With `network.switch_hosts`
    switches with so many hosts each form a chain, joined by trunks of a NIC's rate, and a flow takes the trunks between
    its hosts' switches too. Rates are max-min fair, by progressive filling (Bertsekas and Gallager, Data Networks,
    section 6.5.2): no flow could be faster without slowing down a flow that is no faster. Rates change when a flow
    starts or ends, but only those of flows that share NICs with it, directly or indirectly. A connection's next message
    starts when the previous one ends; alpha follows and occupies no link.

    A message of at most `network.short` bytes, which TCP would send between two packets, is no flow and takes no
    bandwidth, unless an earlier message of its lane is still queued. Messages within a host behave as in `Links`.
    """

    def __init__(self, scheduler: Scheduler, network: Network, size: int):
        super().__init__(scheduler, network, size)
        self.open: dict[tuple[int, int], Connection] = {}  # by (source, target)
        # for each link its active routes, by their links: outgoing NICs, incoming ones, trunks to the right and left
        self.at: list[dict[tuple[int, ...], Route]] = [{} for _ in range(4 * self.hosts)]
        self.changed: dict[tuple[int, ...], Route] = {}  # routes whose set of flows changed, by their links
        self.numbers = count()
        self.draws = Random(network.seed)
        self.place = list(range(self.hosts))  # of each host along the chain of switches
        if network.shuffled:
            Random(network.seed).shuffle(self.place)

    def links_between(self, source: int, to: int) -> tuple[int, ...]:
        """The links of a flow from one host to another, in its order."""
        hosts, trunks = self.hosts, range(0)
        if self.network.switch_hosts:
            left, right = (self.place[host] // self.network.switch_hosts for host in (source, to))
            to_right, to_left = range(2 * hosts + left, 2 * hosts + right), range(3 * hosts + right, 3 * hosts + left)
            trunks = to_right or to_left  # of trunk i, which joins switches i and i + 1
        return source, *trunks, hosts + to

    def between_hosts(
        self, source: int, to: int, nbytes: int, deliver: Callable[[], None], left: Callable[[], None], lane: Hashable
    ) -> None:
        wire, latency = nbytes * self.network.beta, self.latency(source, to, nbytes)
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
        links = self.links_between(source % self.hosts, to % self.hosts)
        route = self.at[links[0]].get(links)
        if route is None:
            weight = self.draws.lognormvariate(0.0, self.network.spread) if self.network.spread else 1.0
            route = Route(links, weight)
            for link in links:
                self.at[link][links] = route
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
        for links, route in changed.items():
            if not route.flows:
                for link in links:
                    del self.at[link][links]
        settled: set[int] = set()
        for link in (link for links in changed for link in links):
            if link in settled:
                continue
            together = self._reached(link)
            settled.update(together)
            for route, rate in self._rates(together):
                if rate != route.rate or route.links in changed:
                    self._serve(route)
                    route.rate = rate
                    self._schedule_check(route)

    def _reached(self, link: int) -> list[int]:
        """The links that share flows with this one, directly or indirectly, itself included."""
        links, reached = [link], {link}
        for each in links:
            for other in (other for route in self.at[each] for other in route):
                if other not in reached:
                    reached.add(other)
                    links.append(other)
        return links

    def _rates(self, links: list[int]) -> list[tuple[Route, float]]:
        """The rates of all routes on these links, by progressive filling: the link with the least capacity for each
        unit of weight fixes the rates of its flows; then the remaining links, with their remaining capacity."""
        rates: dict[tuple[int, ...], tuple[Route, float]] = {}
        at, free = self.at, dict.fromkeys(links, 1.0)
        weights = {link: sum([len(route.flows) * route.weight for route in at[link].values()]) for link in links}
        while weights := {link: weight for link, weight in weights.items() if weight}:
            least = min([free[link] / weight for link, weight in weights.items()])
            most = least * EQUAL
            for link in [link for link, weight in weights.items() if free[link] <= most * weight]:
                for route in at[link].values():
                    if route.links not in rates:
                        rates[route.links] = route, least * route.weight
                        weight = len(route.flows) * route.weight
                        for each in route.links:
                            free[each] -= weight * least
                            weights[each] -= weight
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
