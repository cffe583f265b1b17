"""Program `p2p`: how long messages of different sizes take between ranks 0 and 1 (gTop-k section IV-C, Figure 8).

probe.sizes   bytes of the messages, which take turns
probe.runs    how often each is measured (the paper: 5); a run of a short message is many round trips
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from repro import probes
from repro.common.errors import InputError
from repro.fabric.base import Fabric
from repro.probes import _ping_pong
from repro.probes._common import facts, sizes, whole


def ranks(config: dict[str, Any]) -> int:
    return config["workers"]


def check(config: dict[str, Any]) -> None:
    """InputError for parameters that cannot be used."""
    if config["workers"] < 2:
        raise InputError(f"workers={config['workers']}: program p2p needs 2 or more, of whom two talk")
    whole(config["probe"], "runs")
    sizes(config["probe"], "sizes", least=2)


def run(fabric: Fabric, config: dict[str, Any], folder: Path) -> None:
    """One rank's part."""
    probe = config["probe"]
    probes.start(fabric, 1)
    points = _ping_pong.measure(fabric, probe["sizes"], probe["runs"])
    fitted = _ping_pong.fit(points)
    probes.progress(fabric, 1)
    result = {"points": points, "fit": fitted}
    metrics = {f"seconds/{point['bytes']}": point["mean_s"] for point in points}
    metrics |= {name: fitted[name] for name in ("alpha_s", "beta_s_per_byte")}
    probes.finish(fabric, config, folder, facts(fabric, None, 0, None), result, metrics, line(fitted))


def line(fitted: dict[str, float]) -> str:
    return (
        f"alpha {1e3 * fitted['alpha_s']:.3g} ms, beta {1e3 * fitted['beta_s_per_byte']:.3g} ms a byte, "
        f"off by at most {fitted['relative_error']:.1%}"
    )
