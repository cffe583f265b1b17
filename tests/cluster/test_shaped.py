"""Shaped networks of namespaces: creation, measurement, use by ranks, removal after faults."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from repro import launch
from repro.core.errors import FaultError, InputError
from repro.experiment import config as configs
from repro.experiment import testbeds
from repro.launch.namespaces import links, network
from repro.launch.supervise import Ranks
from repro.records.provenance import versions
from tests.support import shaped_ranks
from tests.support.cli import refused, repro, run, summary
from tests.support.waiting import LIMIT_S, wait_until

PROJECT = Path(__file__).resolve().parents[2]
FABRICS = {"mpirun": "mpi", "torchrun": "torch"}
RATE = 0.1  # Gbit/s: what a machine that is slow, or busy with other tests, carries all the same
TESTBED = "testbed=shaped/100m"

pytestmark = pytest.mark.shaped


def bed(launcher: str = "mpirun", **changes) -> testbeds.Measured:
    given = {"name": "shaped/100m", "kind": "measured", "network": "limited", "launcher": launcher, "rate_gbit": RATE}
    return testbeds.testbed_of(given | changes)


@pytest.fixture(scope="module")
def possible():
    if missing := network.why_not():
        pytest.skip(missing)


@pytest.fixture
def apart(tmp_path, monkeypatch, possible):
    """A folder of states of its own: another command's network is not touched. Nothing may be left in it."""
    monkeypatch.setenv("REPRO_RUNTIME", str(tmp_path))
    monkeypatch.setattr(network, "_mine", [])
    monkeypatch.setattr(network, "_lock", [])
    yield tmp_path / "repro-testbed"
    network.release_network()
    network.take_down()
    network.unlock_networks()


def namespaces(folder: Path) -> set[str]:
    """The networks, beside the machine's own, of all processes that have a folder in their environment."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if os.fsencode(folder) in (path / "environ").read_bytes():
                found.add(os.readlink(path / "ns" / "net"))
        except OSError:
            continue
    return found - {os.readlink("/proc/self/ns/net")}


def skip_if_refused(output: str) -> None:
    """Skip with the self-check's own reason where the machine is too slow, or at the moment too busy, for the links."""
    if "cannot be reached on this machine" in output:
        pytest.skip(output.strip().splitlines()[-1])


def up(results: Path, *arguments: str) -> dict:
    done = repro(results, "testbed", "up", "--json", "--rate", str(RATE), *arguments)
    skip_if_refused(done.stderr)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def on_links(results: Path, *overrides: str, fault: str = "") -> subprocess.CompletedProcess:
    done = run(results, *overrides, TESTBED, fault=fault)
    skip_if_refused(done.stderr)
    return done


# the network


def test_up_measures_itself_and_down_leaves_nothing(tmp_path, apart):
    first = up(tmp_path, "--hosts", "3")
    assert up(tmp_path, "--hosts", "3") == first  # idempotent: the same daemon, measured once
    assert [host["name"] for host in first["hosts"]] == ["repro0", "repro1", "repro2"] and first["rate_gbit"] == RATE
    measured = first["measured"]
    assert len(measured["goodput_gbit"]) == 3
    assert all(each > 0.8 * RATE for each in measured["goodput_gbit"])
    assert measured["round_trip_s"] > 1e-6
    shown = repro(tmp_path, "testbed", "status").stdout
    assert "3 hosts, links of 0.1 Gbit/s" in shown and "round trip" in shown and "repro2" in shown
    inside = repro(tmp_path, "testbed", "exec", "repro1", "sh", "-c", "hostname; cat /etc/hosts; exit 3")
    assert inside.returncode == 3 and inside.stdout.startswith("repro1\n") and "10.77.0.12 repro2" in inside.stdout
    assert not inside.stderr
    assert repro(tmp_path, "testbed", "exec", "repro1", "no-such-command").returncode == 2
    # whatever the machine's own choices: BBR would stand still now and then, 4 MB would wait before every small message
    chosen = ["cat", *(f"/proc/sys/net/ipv4/{name}" for name in ("tcp_congestion_control", "tcp_limit_output_bytes"))]
    reno, own_queue = repro(tmp_path, "testbed", "exec", "repro1", *chosen).stdout.split()
    assert reno == measured["congestion_control"] == "reno"
    assert 8 * int(own_queue) / (RATE * 1e9) < 0.003
    other = up(tmp_path, "--hosts", "2")  # another shape replaces it
    assert other["keeper"] != first["keeper"] and len(other["hosts"]) == 2
    wait_until(lambda: not Path(f"/proc/{first['keeper']}").exists(), "the first daemon ends")
    state = json.loads((apart / network.KEPT).read_text())
    assert "removed" in repro(tmp_path, "testbed", "down").stdout
    wait_until(lambda: not Path(f"/proc/{other['keeper']}").exists(), "the daemon ends")
    assert not links.marked_processes(state["id"]) and not (apart / network.KEPT).exists()
    assert "no shaped network" in repro(tmp_path, "testbed", "down").stdout
    assert json.loads(repro(tmp_path, "testbed", "status", "--json").stdout) == {"networks": [], "in_use_by": None}


def test_what_a_crash_left_is_removed(tmp_path, apart):
    made = up(tmp_path, "--hosts", "2")
    state = json.loads((apart / network.KEPT).read_text())
    entered = subprocess.Popen(
        [sys.executable, "-m", "repro.launch.namespaces.enter", "repro0", "sleep", "300"],
        env=os.environ | network.find_network().variables,
        cwd=PROJECT,
    )
    wait_until(lambda: len(links.marked_processes(state["id"])) >= 3, "the command runs inside")
    os.kill(made["keeper"], signal.SIGKILL)
    wait_until(
        lambda: network.find_network(network.OWN) is None and not Path(f"/proc/{made['keeper']}").exists(), "it dies"
    )
    assert links.marked_processes(state["id"]) and namespaces(tmp_path)  # a process inside keeps its namespace
    for _ in range(2):  # looking does not forget it
        shown = repro(tmp_path, "testbed", "status").stdout
        assert "no shaped network is up" in shown and f"{entered.pid}" in shown and "testbed down ends them" in shown
    assert "removed" in repro(tmp_path, "testbed", "down").stdout
    assert entered.wait(LIMIT_S) != 0
    wait_until(lambda: not namespaces(tmp_path), "the namespaces go")
    assert not links.marked_processes(state["id"])


def test_up_ends_what_a_killed_keeper_left(tmp_path, apart):
    made = up(tmp_path, "--hosts", "2")
    state = json.loads((apart / network.KEPT).read_text())
    inside = [sys.executable, "-m", "repro.launch.namespaces.enter", "repro0", "sleep", "300"]
    entered = subprocess.Popen(inside, env=os.environ | network.find_network().variables, cwd=PROJECT)
    wait_until(lambda: len(links.marked_processes(state["id"])) >= 3, "the command runs inside")
    os.kill(made["keeper"], signal.SIGKILL)
    wait_until(lambda: network.find_network() is None, "it dies")
    again = up(tmp_path, "--hosts", "2")
    assert again["keeper"] != made["keeper"] and not links.marked_processes(state["id"]) and entered.wait(LIMIT_S) != 0


def test_a_rate_that_cannot_be_reached_is_refused_and_removed(tmp_path, apart):
    if (os.cpu_count() or 1) > 64:
        pytest.skip("this machine may carry 32 hosts at 25 Gbit/s")
    refused(
        repro(tmp_path, "testbed", "up", "--rate", "25", "--hosts", str(min(32, 4 * (os.cpu_count() or 1)))),
        "25 Gbit/s with",
        "cannot be reached on this machine: the slowest link carried",
        "all links together carried",
        "Gbit/s: use at most",
        "Gbit/s where 23.9",
    )
    wait_until(lambda: not namespaces(tmp_path), "the namespaces go")
    assert network.find_network() is None


def test_one_command_at_a_time_and_the_other_is_named(tmp_path, apart):
    network.lock_networks()
    refused(repro(tmp_path, "testbed", "up"), "a shaped network is in use by", f"process {os.getpid()}")
    network.unlock_networks()
    assert network.network_user() == ""


# refusals


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rate_gbit": 30}, ["rate of 30 Gbit/s", "0.02 to 25"]),
        ({"rate_gbit": "fast"}, ["testbed.rate_gbit=fast: must be a number"]),
        ({"hosts": 2}, ["2 hosts for 3 ranks", "one host a rank"]),
        ({"hosts": 1000}, ["1000 hosts", "2 to 100"]),
        ({"hosts": "all"}, ["testbed.hosts=all: must be a whole number"]),
        ({"launcher": "slurm"}, ["unknown testbed.launcher 'slurm'", "mpirun, torchrun"]),
    ],
)
def test_values_that_cannot_be(changes, words):
    with pytest.raises(InputError) as refusal:
        launch.launcher_for(bed(**changes)).check(3)
    assert all(word in str(refusal.value) for word in words) and "\n" not in str(refusal.value)


def test_without_the_tools_it_says_how_to_get_them(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(links, "SYSTEM_FOLDERS", ())
    network.why_not.cache_clear()
    try:
        with pytest.raises(InputError, match=r"no shaped network here: `ip` was not found: apt-get install iproute2"):
            launch.launcher_for(bed()).check(2)
    finally:
        network.why_not.cache_clear()


def test_where_namespaces_are_not_permitted_it_says_so(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can give up its capabilities")
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-m", "repro", "testbed", "up"]
    environment = os.environ | {"REPRO_RUNTIME": str(tmp_path)}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=PROJECT)
    except FileNotFoundError:
        pytest.skip("no setpriv here")
    refused(done, "no shaped network here: network namespaces are not permitted", "user namespaces")


# ranks


def start(launcher: str, ranks: int, program: str, on_message, testbed: testbeds.Testbed | None = None) -> dict:
    program = ["-m", "tests.support.shaped_ranks", program, FABRICS[launcher]]
    try:
        allocation = launch.launcher_for(testbed or bed(launcher)).allocate(ranks, program, 1)
    except InputError as refusal:
        skip_if_refused(str(refusal))
        raise
    processes = Ranks(allocation.command, allocation.environment | {"PYTHONPATH": str(PROJECT)}, None)
    try:
        processes.follow(on_message, LIMIT_S)
    finally:
        processes.stop()
    return allocation.network


@pytest.mark.ranks
def test_an_emulated_run_sends_what_a_simulated_one_does_and_records_its_sleeps(apart, tmp_path):
    # the links slowed down so much that a busy machine's lateness is small against a step
    slowed = ("testbed=emulated/pipesgd-alexnet", "testbed.slow_down=400", "testbed.shrink=1")
    short = ("strategy=dsync", "epochs=0.004", "eval_every=0.004", "checkpoint_every=0.004")
    emulated = summary(run(tmp_path, *slowed, *short))
    simulated = summary(run(tmp_path, "testbed=paper/pipesgd-alexnet", *short))
    assert (emulated["kind"], simulated["kind"]) == ("emulated", "simulated")
    assert emulated["bytes_sent"] == simulated["bytes_sent"] and emulated["iterations"] == simulated["iterations"]
    assert len(emulated["observed"]) == 2 and all(rank["sleeps"] > 0 for rank in emulated["observed"])
    assert emulated["final"][emulated["metric"]] is None  # nothing is computed
    # nothing is faster than its sleeps and the wire
    computing = sum(simulated["phases"][name] for name in ("forward", "backward"))
    assert emulated["step"]["mean_s"] > computing


@pytest.mark.ranks
@pytest.mark.parametrize(("launcher", "ranks"), [("mpirun", 3), ("torchrun", 2)])
def test_bytes_go_by_the_link_and_no_faster_than_it(apart, launcher, ranks):
    messages: list[dict] = []
    facts = start(launcher, ranks, "traffic", messages.append)
    assert facts["rate_gbit"] == RATE and facts["goodput_gbit_min"] > 0.8 * RATE and facts["checked_at"]
    found = messages[0]["ranks"]
    share = 2 * (ranks - 1) / ranks * 4 * shaped_ranks.ELEMENTS
    for rank, mine in enumerate(found):
        assert mine["host"] == f"repro{rank}" and mine["sum"] == ranks * (ranks + 1) / 2 and mine["threads"] == "1"
        assert share < mine["sent"] < 1.15 * share  # all of it, with headers and acknowledgements
        assert mine["processes"] < 12  # those of its own host alone
        assert not [name for name in mine["shared_memory"] if "vader" in name]
    # from the first rank's start to the last one's end, by the machine's clock: bits at the line rate, less what the
    # buckets at both ends of a link let pass
    seconds = max(mine["ended"] for mine in found) - min(mine["started"] for mine in found)
    assert seconds > 8e-9 * (share - 2 * links.link_shaping(RATE).burst) / RATE
    assert network._mine[0].daemon.poll() is None  # kept for the next run of this command


@pytest.mark.ranks
def test_connections_keep_as_much_as_the_testbed_says(apart):
    composed = configs.compose(
        "pipedream/table1-vgg16-4a", ["testbed=emulated/pipedream-a", "testbed.send_buffer=65536"]
    )
    messages: list[dict] = []
    start("mpirun", 2, "traffic", messages.append, testbeds.testbed_of(composed["testbed"]))
    for mine in messages[0]["ranks"]:
        assert mine["send_buffers"] and set(mine["send_buffers"]) == {65536}


@pytest.mark.ranks
@pytest.mark.parametrize("launcher", FABRICS)
def test_a_killed_rank_is_named_and_the_network_goes_on(apart, launcher):
    with pytest.raises(FaultError) as end:
        start(launcher, 2, "kill", lambda message: None)
    if launcher == "torchrun" or "Open MPI 5" not in (versions()["mpi"] or ""):  # 5 may see rank 0 give up first
        assert re.search(r"rank 1 (was lost: ended|had ended) by SIGKILL", str(end.value)), end.value
    mine = network._mine[0]
    wait_until(lambda: set(links.marked_processes(mine.state["id"])) <= {mine.daemon.pid}, "all ranks end")
    assert mine.daemon.poll() is None


@pytest.mark.ranks
@pytest.mark.parametrize("launcher", FABRICS)
def test_nothing_survives_a_parent_that_is_killed(apart, tmp_path, launcher):
    code = (
        "import sys; from tests.cluster.test_shaped import start;"
        f"start({launcher!r}, 2, 'wait', lambda message: print(message, flush=True))"
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=PROJECT, **pipes)
    output = parent.stdout.readline()
    if "ready" not in output:
        output += parent.stdout.read()
        skip_if_refused(output)
        pytest.fail(output)
    state = json.loads((apart / network.OWN).read_text())
    assert (
        len(links.marked_processes(state["id"])) > 4
        and namespaces(tmp_path)
        and network.network_user().startswith("process ")
    )
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not links.marked_processes(state["id"]), "all processes end")
    wait_until(lambda: not namespaces(tmp_path) and not (apart / network.OWN).exists(), "the network goes")
    assert network.network_user() == ""


@pytest.mark.ranks
def test_a_run_resumes_to_the_bits_of_other_testbeds_and_records_its_links(apart, tmp_path):
    overrides = ("strategy=dsync", "strategy.algorithm=ring")
    killed = on_links(tmp_path / "shaped", *overrides, fault="kill:1:17")
    assert killed.returncode == 1 and "rank 1 was lost: ended by SIGKILL" in killed.stderr
    resumed = on_links(tmp_path / "shaped", *overrides, fault="kill:1:17")
    assert "resuming" in resumed.stderr
    again, here = summary(resumed), summary(run(tmp_path / "here", *overrides, "testbed=here"))
    assert again["weights_sha256"] == here["weights_sha256"] and again["key"] != here["key"]
    facts = again["hardware"]["links"]
    assert facts["rate_gbit"] == RATE and facts["hosts"] == 2 and facts["goodput_gbit_min"] > 0.8 * RATE
    assert facts["round_trip_s"] > 0 and facts["checked_at"]
    # each step both halves of the gradient go there and come back, less what the buckets let pass of each
    assert again["step"]["mean_s"] > 8e-9 * (again["bytes_sent"] - 4 * links.link_shaping(RATE).burst) / RATE
    assert "0.1 Gbit/s" in again["hardware"]["network"]
    assert json.loads(repro(tmp_path, "testbed", "status", "--json").stdout)["networks"] == []


@pytest.mark.ranks
def test_runs_by_torch_in_a_network_that_is_up(apart, tmp_path):
    kept = up(tmp_path, "--hosts", "4")
    overrides = ("strategy=dsync", "strategy.algorithm=ring", "workers=3", "batch=60")
    shaped = summary(on_links(tmp_path / "shaped", *overrides, "testbed.launcher=torchrun"))
    virtual = summary(run(tmp_path / "virtual", *overrides, "testbed=virtual"))
    assert shaped["fabric"] == "torch" and shaped["weights_sha256"] == virtual["weights_sha256"]
    facts = shaped["hardware"]["links"]
    assert facts["hosts"] == 4 and facts["checked_at"] == kept["measured"]["checked_at"]
    assert network.find_network().state["keeper"] == kept["keeper"]  # not the run's to take down
