"""What links deliver to a collective library, as others measured it: the distributions of `links.yaml`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from repro.core import user_files
from repro.experiment.inputs import Quantiles

FILE = Path(__file__).with_name("links.yaml")
Transport = Literal["tcp", "rdma"]
Link = Literal["nvlink", "pcie3", "pcie4"]
TRANSPORTS, LINKS = get_args(Transport), get_args(Link)
NEAR = 2.0  # lines within this factor of another are like it
GOODPUT, INSIDE = "goodput", "local beta"  # names of inputs


@cache
def _lists() -> dict[str, list[dict[str, Any]]]:
    return user_files.read_entries(FILE)


def goodput_of(transport: Transport, line_bits: float) -> Quantiles:
    """Seconds a byte over a line (bits/s), by the shares of such lines that were measured."""
    measured = [each for each in _lists()["goodput"] if each["transport"] == transport]
    away = {each["line_gbit"]: abs(np.log(1e9 * each["line_gbit"] / line_bits)) for each in measured}
    reach = max(np.log(NEAR), min(away.values())) * (1 + 1e-9)
    near = [each for each in measured if away[each["line_gbit"]] <= reach]
    return Quantiles.of("beta_s_per_byte", (8 * each["line_gbit"] / each["gbit"] / line_bits for each in near))


def inside_of(link: Link | None) -> Quantiles:
    """Seconds a byte between two GPUs of a machine; None: of any kind."""
    rates = [each["gbytes_per_s"] for each in _lists()["intra"] if link in (None, each["link"])]
    return Quantiles.of("local_beta_s_per_byte", (1e-9 / rate for rate in rates))
