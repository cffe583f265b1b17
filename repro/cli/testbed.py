"""`repro testbed up | status | down | exec`: manage a persistent network with limited links."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from repro.cli.options import Parser, as_json
from repro.core.errors import InputError, TooBusy
from repro.core.paths import PACKAGE

if TYPE_CHECKING:
    from repro.launch.namespaces.network import ShapedNetwork

# not `python -m`, which warns because the package imports the module
ENTER = (
    f"import sys; sys.path.append({str(PACKAGE.parent)!r}); "
    "from repro.launch.namespaces.enter import main; main(sys.argv[1:])"
)


def add_commands(commands: Any) -> None:
    testbed = commands.add_parser("testbed", help="manage a network with limited links on this machine")
    testbed.set_defaults(command=lambda args: testbed.print_help())
    actions = testbed.add_subparsers(metavar="ACTION", parser_class=Parser)

    up = actions.add_parser("up", help="create and measure a persistent network (runs create their own)")
    up.add_argument("--rate", type=float, default=1.0, help="Gbit/s of each link, in each direction: 0.02 to 25")
    up.add_argument("--hosts", type=int, default=4, help="number of network namespaces, one for each rank")
    as_json(up)
    up.set_defaults(command=cmd_up)

    status = actions.add_parser("status", help="show hosts, rates, measurements and users")
    as_json(status)
    status.set_defaults(command=cmd_status)

    down = actions.add_parser("down", help="remove the network, and the rest of a crashed one")
    as_json(down)
    down.set_defaults(command=cmd_down)

    inside = actions.add_parser("exec", help="run a command on a host: repro testbed exec repro0 ping -c3 repro1")
    inside.add_argument("host", help="repro0, repro1, ..., or reprosw (the switch)")
    inside.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND")
    inside.set_defaults(command=cmd_exec)


def cmd_up(args: argparse.Namespace) -> None:
    from repro.launch.namespaces import network

    network.check_shaping(args.rate, args.hosts)
    with network.locking_networks():
        shaped = network.find_network()
        if not shaped or (shaped.rate_gbit, shaped.hosts) != (args.rate, args.hosts):
            network.take_down()  # or the rest of a killed daemon
            try:
                shaped = network.start_network(args.rate, args.hosts, kept=True)
            except TooBusy as error:  # here the user chose the rate
                raise InputError(str(error)) from None
    print(json.dumps(describe_network(shaped), indent=1) if args.json else format_network(shaped))


def cmd_status(args: argparse.Namespace) -> None:
    from repro.launch.namespaces import network

    networks = [each for each in (network.find_network(network.KEPT), network.find_network(network.OWN)) if each]
    user, left = network.network_user(), network.left_inside()
    if args.json:
        state = {"networks": [describe_network(each) for each in networks], "in_use_by": user or None}
        print(json.dumps(state | ({"left_inside": left} if left else {}), indent=1))
        return
    for each in networks:
        print(format_network(each))
    if not networks:
        print("no shaped network is up (repro testbed up; runs on testbed=shaped/... bring up their own)")
    if left:
        pids = ", ".join(map(str, left))
        print(f"left over from a killed network: process {pids} (repro testbed down ends them)")
    if user:
        print(f"in use by {user}")


def cmd_down(args: argparse.Namespace) -> None:
    from repro.launch.namespaces import network

    with network.locking_networks():
        was_up = any([network.take_down(name) for name in (network.KEPT, network.OWN)])
    if args.json:
        print(json.dumps({"was_up": was_up}))
    else:
        print("removed the shaped network" if was_up else "no shaped network was up")


def cmd_exec(args: argparse.Namespace) -> int:
    from repro.launch.namespaces import network

    shaped = network.find_network(network.KEPT) or network.find_network(network.OWN)
    if shaped is None:
        raise InputError("no shaped network is up; `repro testbed up` makes one")
    names = [host["name"] for host in (*shaped.state["hosts"], shaped.state["switch"])]
    if args.host not in names:
        raise InputError(f"no host {args.host}; valid: {', '.join(names)}")
    if not args.words:
        raise InputError(f"repro testbed exec {args.host} needs a command, for instance: ip address")
    if not shutil.which(args.words[0]):
        raise InputError(f"{args.words[0]}: no such command on this machine")
    program = [sys.executable, "-P", "-c", ENTER, args.host, *args.words]
    return subprocess.run(program, env=os.environ | shaped.variables).returncode


def describe_network(shaped: ShapedNetwork) -> dict[str, Any]:
    """A network as JSON, without internal entries."""
    hosts = [{"name": host["name"], "address": host["address"]} for host in shaped.state["hosts"]]
    kept = {"kept": shaped.state["kept"], "keeper": shaped.state["keeper"]}
    return {**kept, "rate_gbit": shaped.rate_gbit, "hosts": hosts, "measured": shaped.state["measured"]}


def format_network(shaped: ShapedNetwork) -> str:
    """Hosts, and the goodput of each link while all hosts send."""
    measured, hosts = shaped.state["measured"], shaped.state["hosts"]
    lines = [f"{len(hosts)} hosts, links of {shaped.rate_gbit:g} Gbit/s both ways, measured {measured['checked_at']}"]
    for i, (host, goodput) in enumerate(zip(hosts, measured["goodput_gbit"])):
        to = hosts[(i + 1) % len(hosts)]["name"]
        lines.append(f"  {host['name']:8} {host['address']:12} -> {to:8} {goodput:7.3f} Gbit/s, all sending at once")
    share = measured["goodput_gbit_min"] / measured["possible_gbit"]
    lines.append(
        f"  slowest {100 * share:.1f} % of the {measured['possible_gbit']:.3f} Gbit/s that headers leave; "
        f"empty round trip {1e3 * measured['round_trip_s']:.3f} ms"
    )
    end = "stays until `repro testbed down`" if shaped.state["kept"] else "belongs to a run and ends with it"
    return "\n".join([*lines, f"  {end} (process {shaped.state['keeper']})"])
