"""The probe `validation`: a virtual network measured as a real one is recovered; and the tables of its page."""

from __future__ import annotations

import pytest

from repro import strategies
from repro.answers.claims.evidence import validation_steps
from repro.answers.claims.residuals import validation_runs
from repro.answers.pages.build import build as build_pages
from repro.core.errors import InputError
from repro.experiment import config as configs
from repro.fabric.costs import Costs
from repro.probes import validation
from repro.probes.shared import fabric_model
from repro.probes.shared.computation import Compute
from repro.probes.shared.synthetic import Workload
from repro.probes.shared.twin import Measured
from repro.records import catalogue
from repro.records.record import Found
from repro.reports.validation import emulated, tables
from tests.reports.data import probes as reports_probe_data
from tests.reports.data.summaries import make
from tests.reports.data.undrawn import without_drawing
from tests.support import probes
from tests.support.records import found_of, write_summary

TESTBED = probes.TESTBED | {"alpha_s": 2e-4, "beta_s_per_byte": 8e-9, "gamma_s_per_byte": 1e-9, "sync_s": 0.0}
# divisible by 4 blocks x 12, so that rings of 2, 3 and 4 have equal blocks
WORKLOADS = [
    {"bytes": 4 * 48 * 100, "forward_s": 0.002, "backward_s": 0.004},
    {"bytes": 4 * 48 * 5000, "forward_s": 0.005, "backward_s": 0.01},
]
NATIVE = {"D-Sync, native": {"name": "dsync", "algorithm": "native"}}


def configuration(workers: int, **probe):
    small = {"turns": 2, "rounds": 1, "workloads": WORKLOADS, "sizes": [480, 48000, 480000], "seconds": 0.01}
    config = probes.planned(configs.compose("validation/shaped"), workers, **small | probe)
    return config | {"seed": 0, "testbed": TESTBED}


def run(config, folder):
    return probes.run(config, folder, TESTBED | {"fair": True})


@pytest.mark.parametrize("workers", [2, 3])
def test_a_virtual_network_is_recovered_to_rounding(workers, tmp_path):
    """On the virtual fabric the fitted twin is the fabric itself: every simulated step equals the measured one."""
    config = configuration(workers)
    config["probe"]["strategies"] |= NATIVE
    result = run(config, tmp_path)["result"]
    fitted = result["networks"]["messages"]
    assert fitted["alpha_s"] == pytest.approx(TESTBED["alpha_s"], rel=1e-6)
    assert fitted["beta_s_per_byte"] == pytest.approx(TESTBED["beta_s_per_byte"], rel=1e-6)
    assert len(result["rows"]) == len(WORKLOADS) * len(config["probe"]["strategies"])
    assert all(row["calibration"]["interference"] < 1e-9 for row in result["rows"])
    for row in result["rows"]:
        seen = row["observed_s"]
        assert row["computation_s"] < seen["median"] * 1.0001
        assert row["simulated_s"] == pytest.approx(seen["median"], rel=1e-6), row["variant"]
        assert seen["min"] == pytest.approx(seen["max"], rel=1e-9)


def test_computation_beside_communication_is_stretched():
    """Interference of a fifth: 30 ms of computation, 10 of them beside communication, become 32."""
    compute = Compute(0.010, 0.018, 0.003, 0.001, 0.001, {1: [0.018]})
    measured = Measured(Workload(64, 2, 0.0, 0.0), compute, Costs(True, {}, {}), 0.2)
    alone, beside = measured.blocks(), measured.blocks(0.010)
    assert sum(alone.forward) + sum(alone.backward) == pytest.approx(0.030)
    assert sum(beside.forward) + sum(beside.backward) == pytest.approx(0.032)


def test_alpha_depends_on_the_size():
    """The slope comes from long messages, as with a handshake above a size limit."""
    alpha = {1024: 1e-4, 65536: 1e-4, 262144: 9e-4, 4194304: 9e-4, 10485760: 9e-4}
    fitted = fabric_model.fit_network([(n, 4 * (a + 8e-9 * n)) for n, a in alpha.items()], messages=4)
    assert fitted.beta == pytest.approx(8e-9, rel=1e-3) and fitted.alpha == pytest.approx(1e-4, rel=1e-2)
    assert fitted.latency(262144) == pytest.approx(9e-4, rel=1e-2)
    assert fitted.latency(65536) == pytest.approx(1e-4, rel=1e-1)


@pytest.mark.parametrize("blocking", [False, True])
def test_a_librarys_network_is_fitted_to_its_own_call(blocking):
    """Horovod calls MPI's blocking allreduce, for which Open MPI chooses other algorithms."""

    class Fabric(MadeUpClock):
        size = 4

        def native_allreduce(self, vector):
            self.clock += 6 * (1e-3 + 3e-8 * vector.nbytes / 4)
            return self

        def blocking_allreduce(self, vector):
            self.clock += 6 * (1e-3 + 1e-8 * vector.nbytes / 4)

        def wait(self):
            pass

    fitted = fabric_model.fit_native(Fabric(), [1 << 20, 1 << 21, 1 << 22], 1, blocking)
    assert fitted.network.beta == pytest.approx(1e-8 if blocking else 3e-8)
    horovod = strategies.load_strategy("horovod")
    assert validation.network_of(horovod(horovod.Options())) == validation.BLOCKING
    dsync = strategies.load_strategy("dsync")
    assert validation.network_of(dsync(dsync.parse({"algorithm": "native"}))) == validation.NATIVE
    assert validation.network_of(dsync(dsync.Options())) == validation.MESSAGES


class MadeUpClock:
    """The methods of a fabric that time work."""

    clock = 0.0

    def now(self):
        return self.clock

    def barrier(self):
        pass

    def exchange(self, value):
        return [value]


def test_every_strategy_is_validated():
    """A new strategy must be added to an experiment under paper_configs/experiment/validation/."""
    composed = [configs.compose(name) for name in configs.experiment_names("validation")]
    strategy_entries = [config["probe"]["strategies"] for config in composed if config["program"] == "validation"]
    assert {*strategies.strategy_names()} <= {one["name"] for entries in strategy_entries for one in entries.values()}


@pytest.mark.parametrize(
    ("workers", "probe", "message"),
    [
        (1, {}, "workers=1"),
        (2, {"sizes": [1024]}, "probe.sizes.*at least 2"),
        (2, {"workloads": [{"bytes": 64, "forward_s": -1, "backward_s": 0}]}, "forward_s=-1"),
        (2, {"strategies": {"x": {"name": "dsync", "codec": "zip"}}}, "zip"),
    ],
)
def test_unusable_configurations_are_refused(workers, probe, message):
    with pytest.raises(InputError, match=message):
        probes.check(configuration(workers, **probe))


def test_steps_follow_the_simulated_time():
    probe = probes.check(configuration(2, seconds=1.0, least_steps=3)).probe
    assert [validation.steps_for(probe, s) for s in (10.0, 0.1, 1e-4)] == [3, 10, validation.MOST_STEPS]


# --- the page


def summary(error: float, variant: str = "p=2", finished: str = "2026-01-01T00:00:00+00:00", scale: str = "full"):
    row = {
        "variant": "D-Sync",
        "strategy": "dsync",
        "twin": "dsync",
        "bytes": 1024,
        "observed_s": {"median": 0.1, "min": 0.09, "max": 0.12},
        "simulated_s": 0.1 * (1 + error),
        "computation_s": 0.05,
    }
    fit = {"alpha_s": 1e-4, "beta_s_per_byte": 8e-9, "points": [{"bytes": 4, "seconds": 1e-4, "fitted_s": 1.1e-4}]}
    return {
        "paper": "validation",
        "variant": variant,
        "testbed": "shaped-1g",
        "factors": {"workers": 2},
        "scale": scale,
        "hardware": {"class": "made-up", "network": "made up", "links": {"goodput": 0.95}},
        "provenance": {"finished_at": finished, "versions": {"torch": "2"}, "commit": "abcdef0123"},
        "result": {"computation": "sleep", "networks": {"messages": fit}, "rows": [row]},
    }


def write(root, name, found):
    folder = root / "validation" / "shaped" / name
    folder.mkdir(parents=True)
    made = reports_probe_data.probe("validation", "shaped", found["variant"], found["result"], workers=2)
    write_summary(folder, made | found | {"result": made["result"], "run": name, "key": name})


@pytest.mark.parametrize(
    ("error", "present", "absent"),
    [
        (0.01, ["off by 1.0 % in the median", "5 % met and 15 % met"], "Where it fails"),
        (-0.2, ["5 % missed and 15 % missed", "Where it fails", "-20.0"], "5 % met"),
    ],
)
def test_the_page_states_whether_the_goal_is_reached(error, present, absent, tmp_path, monkeypatch):
    without_drawing(monkeypatch)
    write(tmp_path / "results", "a", summary(error))
    build_pages("validation", tmp_path / "results", tmp_path / "out")
    page = (tmp_path / "out" / "validation.md").read_text()
    assert all(text in page for text in present) and absent not in page


def test_the_latest_whole_run_counts(tmp_path):
    write(tmp_path, "old", summary(0.3, finished="2026-01-01T00:00:00+00:00"))
    write(tmp_path, "new", summary(0.1, finished="2026-01-02T00:00:00+00:00"))
    write(tmp_path, "trial", summary(0.9, finished="2026-01-03T00:00:00+00:00", scale="quick"))
    steps = tables.steps(validation_runs(catalogue.runs("validation", tmp_path)))
    assert steps["error"].tolist() == [pytest.approx(10)]
    (step,) = validation_steps(tmp_path)  # the error of simulated numbers is that of the page
    assert step["simulated_s"] == pytest.approx(1.1 * step["observed_s"])


def test_errors_by_strategy_are_closed_forms(tmp_path):
    for i, error in enumerate((0.01, -0.02, 0.03, 0.5)):
        write(tmp_path, str(i), summary(error, variant=f"p={i}"))
    (row,) = tables.errors(tables.steps(validation_runs(catalogue.runs("validation", tmp_path))), []).to_dict("records")
    assert row["median"] == pytest.approx(2.5) and row["worst"] == pytest.approx(50)
    assert row["mean"] == pytest.approx(13) and row["met"] == "no" and row["spread"] == pytest.approx(30)


def test_errors_of_ratios_are_those_of_steps_of_one_run(tmp_path):
    """Two steps of one run, 10 % and 21 % too long, make a ratio that is 10 % off; other runs make none with them."""
    first, second = summary(0.1), summary(0.21)
    first["result"]["rows"] += second["result"]["rows"]
    write(tmp_path, "both", first)
    write(tmp_path, "alone", summary(-0.5, variant="p=3") | {"workers": 3, "factors": {"workers": 3}})
    write(tmp_path, "slow", first | {"experiment": "slowed", "factors": {"workers": 2, "slowed": 4}})
    steps = tables.steps(validation_runs(catalogue.runs("validation", tmp_path)))
    for row in tables.ratios(steps).to_dict("records"):
        assert row["p95"] == pytest.approx(10) and row["met"] == "no" and row["ratios"] == 1
    (found,) = tables.slowed(steps).to_dict("records")
    assert found["by 4"] == pytest.approx((10 + 21) / 2)
    assert len(tables.counted(steps)) == 3


# --- the controls of the emulation


NAMES = {"D-Sync": "dsync", "WFBP": "wfbp", "Pipe-SGD": "pipe_sgd", "iBatch": "ibatch"}
LINKS = {"alpha_s": 1e-4, "beta_s_per_byte": 8e-9, "slow_down": 40, "shrink": 8}


def control(
    method: str, kind: str, ms: float, experiment: str = "control-null", links: dict = LINKS, **factors
) -> Found:
    changes = {"factors": {"method": method, **factors}, "step": {"median_s": ms / 1e3}, "strategy": NAMES[method]}
    varied = {name: value for name, value in factors.items() if value}
    replaced = {"experiment": experiment, "variant": ", ".join([method, *factors.values()])}
    replaced["testbed_model"] = links | varied
    return found_of(make(kind=kind, **changes) | replaced | {"testbed": f"{kind}/made-up"})


def test_an_emulated_step_is_paired_with_a_simulated_one_of_the_same_links():
    simulated = control("D-Sync", "simulated", 380, links=LINKS | {"slow_down": None, "shrink": None, "fair": True})
    other_links = control("WFBP", "simulated", 300, links=LINKS | {"beta_s_per_byte": 1e-9})
    emulated_runs = [control("D-Sync", "emulated", 400), control("WFBP", "emulated", 330)]
    (row,) = emulated.pairs([simulated, other_links, *emulated_runs]).to_dict("records")
    assert (row["variant"], row["emulated"], row["simulated"]) == ("D-Sync", 400, 380)
    assert row["error"] == pytest.approx(-5.0)


def test_ratios_are_over_dsync_where_all_else_is_equal():
    runs = [control("D-Sync", "emulated", ms, dilation=dilation) for ms, dilation in ((400, "40, 8"), (410, "80, 8"))]
    runs += [
        control("Pipe-SGD", "emulated", 205, dilation="80, 8"),
        control("Pipe-SGD", "emulated", 1, dilation="9, 9"),
    ]
    found = emulated.ratios(runs).set_index("variant")["ratio"]
    assert found.to_dict() == {"D-Sync, 40, 8": 1, "D-Sync, 80, 8": 1, "Pipe-SGD, 80, 8": 0.5}


def test_steps_by_buffer_come_from_the_experiment_that_varies_it():
    runs = [
        control("iBatch", "emulated", ms, "control-buffers", buffer=kept) for ms, kept in ((392, "128"), (490, "2"))
    ]
    (row,) = emulated.by_factor([*runs, control("iBatch", "emulated", 445)], "buffer").to_dict("records")
    assert row == {"method": "iBatch", "by 128": 392, "by 2": 490}
    assert emulated.by_factor([control("iBatch", "emulated", 445)], "buffer").empty
