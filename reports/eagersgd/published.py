"""The paper's own numbers (reference/eagersgd.csv), looked up by place, row, variant and quantity."""

from __future__ import annotations

from repro.reports.eagersgd.experiments import HOROVOD, MAJORITY, SOLO
from repro.reports.reference import Quoted

STATISTICS = ("min", "mean", "median", "sd", "max")


class Published(Quoted):
    """The reference table; every number on the page that is the paper's comes from here."""

    paper = "eagersgd"

    def table1(self, task: str, quantity: str) -> int:
        """A number of Table 1."""
        return int(self.text("Table 1", task, "all", quantity))

    def tasks(self) -> list[str]:
        return list(dict.fromkeys(self.table[self.table["place"] == "Table 1"]["row"]))

    def statistics(self, place: str, row: str) -> dict[str, float]:
        """min, mean, median, sd, max of Figures 2 to 4 as far as they are printed, in the table's unit."""
        t = self.table
        found = t[(t["place"] == place) & (t["row"] == row) & t["quantity"].isin(STATISTICS)]
        return {name: float(value) for name, value in zip(found["quantity"], found["value"], strict=True)}

    def speedup(self, place: str, delay: str, over: str = "Deep500") -> float:
        """Of eager-SGD (solo) with that delay."""
        return self.value(place, delay, SOLO, f"speed-up over {over}")


# Printed ratios that belong above the bars of throughput: experiment -> variant -> (place, row, quantity).
BARS = {
    "fig10": {f"{SOLO} {ms} ms": ("Figure 10", f"{ms} ms", "speed-up over Deep500") for ms in (200, 300, 400)},
    "fig11": {f"{SOLO} {ms} ms": ("Figure 11", f"{ms} ms", "speed-up over Deep500") for ms in (300, 460)},
    "fig12": {MAJORITY: ("Figure 12", "50 to 400 ms", "speed-up over Synch-SGD")},
    "fig13": {name: ("Figure 13", "all", "speed-up over Horovod") for name in (SOLO, MAJORITY)},
}
BARS["fig10-padded"] = BARS["fig10-padded-ratio"] = BARS["fig10"]
# The variant that those ratios are over, where it is not Deep500.
OVER = {"fig13": HOROVOD}
