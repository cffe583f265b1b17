"""What would settle the headlines that are not reproduced: the measurement, its hardware and hours, the list price, and
the command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from repro.answers.claims.claims import File, Settles
from repro.answers.pages import untried
from repro.answers.pages.markdown import Markdown
from repro.core.errors import InputError, unknown_name


@dataclass(frozen=True)
class Machine:
    """dollars: of an hour, by the list price."""

    name: str
    dollars: float


MACHINES = {
    "cpu": Machine("c5.4xlarge (16 vCPUs, up to 10 Gbit/s)", 0.68),  # on-demand column of EC2 Auto Scaling's user guide
    "8 gpus": Machine("p5.48xlarge (8 H100s)", 8 * untried.DOLLARS),
    "gpu": Machine("an eighth of a p5.48xlarge (1 H100)", untried.DOLLARS),
    "blade": Machine("c5.12xlarge (48 vCPUs, 12 Gbit/s)", 2.04),  # likewise
    # on demand, us-east-1; from memory, not read
    "v100": Machine("p3.2xlarge (1 V100, up to 10 Gbit/s)", 3.06),
    "t4": Machine("g4dn.4xlarge (1 T4, up to 25 Gbit/s)", 1.20),
    "here": Machine("machine with two cores", 0.0),
}


def check(file: File) -> None:
    """InputError for a measurement of an unknown claim or machine."""
    claims = [claim.id for claim in file.claims]
    for entry in file.settles:
        if entry.machine not in MACHINES:
            raise InputError(f"settles: {unknown_name('machine', entry.machine, MACHINES)}")
        if wrong := next((name for name in entry.claims if name not in claims), None):
            raise InputError(f"settles: {unknown_name('claim', wrong, claims)}")


def lines(file: File, unsettled: Sequence[str], numbers: Mapping[str, int]) -> list[Markdown]:
    """`C1, C3: what; 5 machines, 2 hours, $7: command`, a line for each measurement that settles one of the claims.

    unsettled: ids of claims; numbers: claim -> its number on the paper's pages.
    """
    check(file)
    made = []
    for entry in file.settles:
        if named := [f"C{numbers[name]}" for name in entry.claims if name in unsettled]:
            made.append(Markdown(f"**{', '.join(named)}**: {entry.what}; {price(entry)}: `{entry.command}`"))
    return made


def price(entry: Settles) -> str:
    """`5 x c5.4xlarge (...), 2 h, about $7`"""
    machine = MACHINES[entry.machine]
    dollars = entry.count * entry.hours * machine.dollars
    count = f"{entry.count} x " if entry.count > 1 else ""
    cost = f", about ${max(1, round(dollars)):,}" if dollars else ""
    return f"{count}{machine.name}, {entry.hours:g} h{cost}"
