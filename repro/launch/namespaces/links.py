"""Hosts of a shaped network: network namespaces with a link each to a bridge, limited by HTB in both directions.

Everything that determines the speed of a message is here:

- HTB with the smallest bucket that the rate permits: a larger one lets messages pass faster than the line. If a packet
  of 64 KB (the kernel's large segments) fits into the bucket, messages below 256 KB pass at once too; therefore
  segments are shorter at 1 and 2.5 Gbit/s. At 2.5 segments of 16 KB would cost two cores a third of four hosts' rate.
- A first-in-first-out queue in bytes before each shaper, like that of a switch's port. Its length in seconds is the
  same at all rates up to 1 Gbit/s, so that it scales with a slowed-down network.
- A short queue at the sender (`tcp_limit_output_bytes`), as with a network card's driver: one millisecond of the line,
  at least two segments. TCP would otherwise keep 4 MB there, since the round trip is microseconds. At 1 Gbit/s every
  small message, such as MPI's answer before a large one, then waited 29 ms, and a ring over MPI took 1.18 of the wire's
  time instead of 1.04.
- Static MAC addresses: no ARP, whose first answer takes longer than a small message.
- The congestion window is kept over pauses (`tcp_slow_start_after_idle=0`) and metrics of earlier connections are not
  saved (`tcp_no_metrics_save=1`), so that a step's time does not depend on that of the previous one.
- Reno, which every Linux has and permits. Cubic can often not be set outside the first network namespace. BBR, the
  default of many cloud images, differs from the papers' networks: it drains the pipe for 200 ms every ten seconds, and
  underestimates a slow link after pauses; a ring of 4 hosts at 1/16 Gbit/s took 1.03 to 1.3 of the wire's time, with
  Reno 1.005.
- IPv6 and the bridge's packet filter are off: no other traffic, no other work.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from repro.core.ethernet import MTU
from repro.launch.namespaces import linux

LOWEST_GBIT, HIGHEST_GBIT = 0.02, 25.0
QUEUE_S = 0.032  # of a switch's port below 1 Gbit/s
OWN_QUEUE_S = 0.001  # of a sender
NETWORK = "10.77.0"
SWITCH_NAME, SWITCH_ADDRESS = "reprosw", f"{NETWORK}.1"
MOST_HOSTS = 100
SYSTEM_FOLDERS = ("/usr/sbin", "/sbin")  # may be missing from PATH
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
    """Bytes of the shaper's bucket, of TCP's largest segment on a link, and of the queue before the shaper."""

    burst: int
    segment: int
    queue: int


# Found by experiment, by Gbit/s; a rate in between is shaped like the next higher one.
TESTED = {
    0.1: Shaping(12112, 12000, 400_000),
    1.0: Shaping(15140, 16384, 4 << 20),
    2.5: Shaping(32768, 32768, 4 << 20),
    10.0: Shaping(131072, 65536, 4 << 20),
    25.0: Shaping(524288, 65536, 4 << 20),
}


def host_settings(rate_gbit: float) -> dict[str, str]:
    """A host's settings below /proc/sys/net."""
    own_queue = max(2 * link_shaping(rate_gbit).segment, round(OWN_QUEUE_S * rate_gbit * 1e9 / 8))
    return SETTINGS | {"ipv4/tcp_limit_output_bytes": str(own_queue)}


def link_shaping(rate_gbit: float) -> Shaping:
    tested = TESTED[min(each for each in TESTED if each >= rate_gbit)]
    return tested if rate_gbit >= 1 else replace(tested, queue=round(QUEUE_S * rate_gbit * 1e9 / 8))


@dataclass(frozen=True)
class Host:
    """A network namespace; handle: the daemon's file descriptor of it."""

    name: str
    address: str
    handle: int


class LinkError(Exception):
    """An error message of `ip` or `tc`."""


def find_tool(name: str) -> str | None:
    """The path of `ip` or `tc`, or None."""
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *SYSTEM_FOLDERS]))


def build_network(rate_gbit: float, count: int) -> tuple[Host, list[Host]]:
    """Make the switch and `count` hosts. This process must be root of its namespaces; it ends up in the switch.

    OSError or LinkError if something is not permitted, or missing in the kernel.
    """
    shaped = link_shaping(rate_gbit)
    switch = _namespace(SWITCH_NAME, SWITCH_ADDRESS, rate_gbit)
    hosts = [_namespace(f"repro{i}", f"{NETWORK}.{10 + i}", rate_gbit) for i in range(count)]
    neighbours = {switch.address: _mac(0)} | {host.address: _mac(10 + i) for i, host in enumerate(hosts)}
    enter_host(switch)
    bridge = [
        f"link add br0 mtu {MTU} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
        f"link set br0 address {_mac(0)}",
        *(_veth(i, host) for i, host in enumerate(hosts)),
        *(f"link set p{i} gso_max_size {shaped.segment} master br0 up" for i in range(count)),
    ]
    _batch("ip", [*bridge, *_address("br0", switch, neighbours)])
    _batch("tc", [line for i in range(count) for line in _shaper(f"p{i}", rate_gbit)])
    for host in hosts:
        enter_host(host)
        segments = f"link set eth0 gso_max_size {shaped.segment}"
        _batch("ip", [segments, *_address("eth0", host, neighbours)])
        _batch("tc", _shaper("eth0", rate_gbit))
    enter_host(switch)
    return switch, hosts


def enter_host(host: Host) -> None:
    """Move this process, which is the daemon or its fork, into a host's network."""
    linux.enter_namespace(f"/proc/self/fd/{host.handle}")


def congestion_control() -> str:
    """The setting of this process's network namespace."""
    return Path("/proc/sys/net", CONGESTION).read_text().strip()


def hosts_file(hosts: Sequence[Mapping[str, str]]) -> str:
    """/etc/hosts of every host; ::ffff: is the form of addresses in torch's rendezvous."""
    lines = [f"{form}{each['address']} {each['name']}\n" for each in hosts for form in ("", "::ffff:")]
    return "".join(["127.0.0.1 localhost\n", *lines])


def _namespace(name: str, address: str, rate_gbit: float) -> Host:
    linux.unshare_namespaces(linux.NEWNET)
    for setting, value in host_settings(rate_gbit).items():
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
    rate, shaped = f"{round(rate_gbit * 1e6)}kbit", link_shaping(rate_gbit)
    return [
        f"qdisc add dev {device} root handle 1: htb default 10",
        f"class add dev {device} parent 1: classid 1:10 htb "
        f"rate {rate} ceil {rate} burst {shaped.burst} cburst {shaped.burst} quantum 60000",
        f"qdisc add dev {device} parent 1:10 handle 10: bfifo limit {shaped.queue}",
    ]


def _batch(name: str, lines: Sequence[str]) -> None:
    ran = subprocess.run(
        [find_tool(name) or name, "-batch", "-"], input="\n".join(lines) + "\n", text=True, capture_output=True
    )
    if ran.returncode:
        raise LinkError(f"{name}: {' '.join(ran.stderr.split())[:200]}")


GRACE_S = 5.0


def marked_processes(network_id: str) -> list[int]:
    """The processes, other than this one, whose environment has the network's id."""
    others = [each for each in psutil.process_iter(["environ"]) if each.pid != os.getpid()]
    return [each.pid for each in others if any(network_id in value for value in (each.info["environ"] or {}).values())]


def start_ticks(pid: int) -> int | None:
    """Start of a process in clock ticks since boot, which distinguishes it from a later process with its number.

    psutil reports the time of day instead, which changes when the clock is set.
    """
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return None


def end_processes(network_id: str, grace_s: float = GRACE_S) -> list[int]:
    """Wait until the network's processes have ended, and kill those left after `grace_s`; returns the survivors."""
    until = time.monotonic() + grace_s
    while (left := marked_processes(network_id)) and time.monotonic() < until + GRACE_S:
        if time.monotonic() > until:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
    return left
