"""Make the hosts: P network namespaces, one link each to a bridge, both directions of a link limited by HTB.

All that decides how fast a message travels is here:

- HTB, its bucket as small as the rate allows: a larger one lets messages pass faster than the line. Where a packet of
  64 KB (the kernel's large segments) may enter at once, messages below 256 KB do too; so segments are shorter at 1 and
  2.5 Gbit/s. At 2.5 segments of 16 KB would cost two cores a third of the rate of four hosts.
- A plain first-in-first-out queue in bytes before each shaper: what a switch's port has. Its length in seconds is the
  same at all rates up to 1 Gbit/s, so that a slowed-down network's queue is slowed down with it.
- A sender's own queue holds what a network card's driver lets it (`tcp_limit_output_bytes`): a millisecond of the line,
  two segments at least. TCP takes the rate of these links, whose round trip is microseconds, for that of memory, and
  would keep 4 MB there: at 1 Gbit/s every small message, such as the answer that MPI sends before a large one, waited
  29 ms behind them, and a ring over MPI took 1.18 of the wire's time where it now takes 1.04.
- MAC addresses known beforehand: no ARP, whose first answer takes longer than a small message.
- The congestion window is kept over pauses (`tcp_slow_start_after_idle=0`) and nothing is remembered of earlier
  connections (`tcp_no_metrics_save=1`): a step's time does not depend on how long the one before it took.
- Reno, which every Linux has and lets everybody choose, whatever the machine's own choice: cubic is often reserved to
  the first network namespace, where setting it elsewhere is refused. BBR, a choice of many cloud images, is no network
  of the papers': it empties the pipe for 200 ms every ten seconds, and after pauses underrates a slow link, by which a
  ring of 4 hosts at 1/16 Gbit/s took 1.03 to 1.3 of the wire's time where Reno takes 1.005.
- IPv6 and the bridge's calls of the packet filter are off: no traffic but ours, no work but carrying it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from repro.launch.namespaces import linux

LOWEST_GBIT, HIGHEST_GBIT = 0.02, 25.0
QUEUE_S = 0.032  # of a switch's port below 1 Gbit/s
OWN_QUEUE_S = 0.001
MTU = 1500
GOODPUT_SHARE = 1448 / 1514  # of the line rate that is left for TCP's payload (headers of Ethernet, IP, TCP)
NETWORK = "10.77.0"
SWITCH_NAME, SWITCH_ADDRESS = "reprosw", f"{NETWORK}.1"
MOST_HOSTS = 100
SYSTEM_FOLDERS = ("/usr/sbin", "/sbin")  # not on every user's PATH
CONGESTION = "ipv4/tcp_congestion_control"
SETTINGS = {
    "ipv6/conf/all/disable_ipv6": "1",
    "ipv6/conf/default/disable_ipv6": "1",
    **{f"bridge/bridge-nf-call-{tables}": "0" for tables in ("iptables", "ip6tables", "arptables")},
    "ipv4/tcp_slow_start_after_idle": "0",
    "ipv4/tcp_no_metrics_save": "1",
    CONGESTION: "reno",
}


@dataclass(frozen=True)
class Shaping:
    """In bytes: the shaper's bucket, the largest segment that TCP hands to a link, the queue before the shaper."""

    burst: int
    segment: int
    queue: int


# Tried out, by Gbit/s; a rate between two is shaped as the higher one.
TRIED = {
    0.1: Shaping(12112, 12000, 400_000),
    1.0: Shaping(15140, 16384, 4 << 20),
    2.5: Shaping(32768, 32768, 4 << 20),
    10.0: Shaping(131072, 65536, 4 << 20),
    25.0: Shaping(524288, 65536, 4 << 20),
}


def settings(rate_gbit: float) -> dict[str, str]:
    """What is written below /proc/sys/net in a host."""
    own = max(2 * shaping(rate_gbit).segment, round(OWN_QUEUE_S * rate_gbit * 1e9 / 8))
    return SETTINGS | {"ipv4/tcp_limit_output_bytes": str(own)}


def shaping(rate_gbit: float) -> Shaping:
    """How links of a rate are shaped."""
    tried = TRIED[min(each for each in TRIED if each >= rate_gbit)]
    return tried if rate_gbit >= 1 else replace(tried, queue=round(QUEUE_S * rate_gbit * 1e9 / 8))


@dataclass(frozen=True)
class Host:
    """A namespace: `handle` is the keeper's file descriptor of it."""

    name: str
    address: str
    handle: int


class LinkError(Exception):
    """`ip` or `tc` refused: its words."""


def tool(name: str) -> str | None:
    """Where `ip` or `tc` is, or None."""
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *SYSTEM_FOLDERS]))


def build(rate_gbit: float, count: int) -> tuple[Host, list[Host]]:
    """The switch and `count` hosts. This process must be root of its namespaces; afterwards it is in the switch.

    OSError or LinkError where something is not permitted or missing in the kernel.
    """
    shaped = shaping(rate_gbit)
    switch = _namespace(SWITCH_NAME, SWITCH_ADDRESS, rate_gbit)
    hosts = [_namespace(f"repro{i}", f"{NETWORK}.{10 + i}", rate_gbit) for i in range(count)]
    neighbours = {switch.address: _mac(0)} | {host.address: _mac(10 + i) for i, host in enumerate(hosts)}
    enter(switch)
    bridge = [
        f"link add br0 mtu {MTU} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
        f"link set br0 address {_mac(0)}",
        *(_veth(i, host) for i, host in enumerate(hosts)),
        *(f"link set p{i} gso_max_size {shaped.segment} master br0 up" for i in range(count)),
    ]
    _batch("ip", [*bridge, *_address("br0", switch, neighbours)])
    _batch("tc", [line for i in range(count) for line in _shaper(f"p{i}", rate_gbit)])
    for host in hosts:
        enter(host)
        segments = f"link set eth0 gso_max_size {shaped.segment}"
        _batch("ip", [segments, *_address("eth0", host, neighbours)])
        _batch("tc", _shaper("eth0", rate_gbit))
    enter(switch)
    return switch, hosts


def enter(host: Host) -> None:
    """Move this process, the daemon or a fork of it, into a host's network."""
    linux.enter(f"/proc/self/fd/{host.handle}")


def congestion_control() -> str:
    """Of the host in whose network this process is."""
    return Path("/proc/sys/net", CONGESTION).read_text().strip()


def hosts_file(hosts: Sequence[Mapping[str, str]]) -> str:
    """/etc/hosts of every host; with the form in which sockets of torch's rendezvous name addresses."""
    named = [f"{form}{each['address']} {each['name']}\n" for each in hosts for form in ("", "::ffff:")]
    return "".join(["127.0.0.1 localhost\n", *named])


def _namespace(name: str, address: str, rate_gbit: float) -> Host:
    linux.unshare(linux.NEWNET)
    for setting, value in settings(rate_gbit).items():
        with contextlib.suppress(OSError):
            Path("/proc/sys/net", setting).write_text(value)
    return Host(name, address, os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC))


def _mac(number: int) -> str:
    return f"02:72:65:70:72:{number:02x}"


def _veth(number: int, host: Host) -> str:
    peer = f"peer name eth0 address {_mac(10 + number)} mtu {MTU} netns /proc/{os.getpid()}/fd/{host.handle}"
    return f"link add p{number} mtu {MTU} type veth {peer}"


def _address(device: str, host: Host, neighbours: Mapping[str, str]) -> list[str]:
    others = [(address, mac) for address, mac in neighbours.items() if address != host.address]
    return [
        "link set lo up",
        f"link set {device} up",
        f"addr add {host.address}/24 dev {device}",
        *(f"neigh replace {address} lladdr {mac} dev {device} nud permanent" for address, mac in others),
    ]


def _shaper(device: str, rate_gbit: float) -> list[str]:
    rate, shaped = f"{round(rate_gbit * 1e6)}kbit", shaping(rate_gbit)
    return [
        f"qdisc add dev {device} root handle 1: htb default 10",
        f"class add dev {device} parent 1: classid 1:10 htb "
        f"rate {rate} ceil {rate} burst {shaped.burst} cburst {shaped.burst} quantum 60000",
        f"qdisc add dev {device} parent 1:10 handle 10: bfifo limit {shaped.queue}",
    ]


def _batch(name: str, lines: Sequence[str]) -> None:
    ran = subprocess.run(
        [tool(name) or name, "-batch", "-"], input="\n".join(lines) + "\n", text=True, capture_output=True
    )
    if ran.returncode:
        raise LinkError(f"{name}: {' '.join(ran.stderr.split())[:200]}")
