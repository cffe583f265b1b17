"""Program `p2p`: how long messages of different sizes take between ranks 0 and 1 (gTop-k section IV-C, Figure 8)."""

from __future__ import annotations

from pathlib import Path

from repro import probes
from repro.core.fields import Count, Model
from repro.experiment.schema import RunConfig
from repro.fabric.base import Fabric
from repro.probes.shared import ping_pong
from repro.probes.shared.options import Sizes, facts, needs_several


class Options(Model):
    """runs: how often each is measured (the paper: 5); a run of a short message is many round trips."""

    sizes: Sizes  # of the messages, which take turns
    runs: Count


def check(config: RunConfig) -> None:
    """InputError without two workers."""
    needs_several(config, "of whom two talk")


def run(fabric: Fabric, config: RunConfig, folder: Path) -> None:
    """One rank's part."""
    probe = config.probe
    probes.start(fabric, 1)
    points = ping_pong.measure(fabric, probe.sizes, probe.runs)
    fitted = ping_pong.fit(points)
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
