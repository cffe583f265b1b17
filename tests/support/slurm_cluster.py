"""A real Slurm on this machine for tests: munged, slurmctld and four slurmd, as child processes, in one folder."""

import ctypes
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from tests.support.waiting import LIMIT_S, wait_until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "scancel", "sinfo")
NODES, CPUS = 4, 4
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random")  # in place of GPUs
PR_SET_PDEATHSIG = 1
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"

# cred_expire: the delay of a requeued job (values under 5 s mean 120 s). TmpFS: PMIx needs one per node. KillWait: time
# limit for the checkpoint of a cancelled job. MessageTimeout: of the daemons, when the machine is busy.
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
TmpFS={folder}/tmp.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
MailProg=/bin/true
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=600
MessageTimeout=60
MinJobAge=86400
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
{gres}
{nodes}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=60
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=2 PreemptMode=OFF
"""


def missing() -> str | None:
    """Why a cluster cannot be started here, or None."""
    absent = [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]
    return f"no {', '.join(absent)} here (apt-get install slurm-wlm munge libpmix-dev)" if absent else None


class NotStarted(Exception):
    """The cluster did not start; the message gives the reason."""


class Cluster:
    """Call `up`, use `environment` for Slurm's commands, then call `down`, which ends all processes and jobs."""

    def __init__(self, folder: Path, gpus: int = 0):
        """gpus: number per node, for which other device files are used, because Slurm only counts them."""
        self.folder, self.gpus = folder, gpus
        self.environment = os.environ | {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": PATH}
        self.processes: list[subprocess.Popen] = []

    def up(self) -> None:
        host, user = socket.gethostname().split(".")[0], pwd.getpwuid(os.getuid()).pw_name
        port = free_ports(NODES + 1)
        nodes = [f"node{number}" for number in range(NODES)]
        gres = f"Gres=gpu:{self.gpus}" if self.gpus else ""
        lines = [
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port + 1 + number} CPUs={CPUS} {gres} "
            "State=UNKNOWN"
            for number, name in enumerate(nodes)
        ]
        settings = {"host": host, "port": port, "user": user, "folder": self.folder, "nodes": "\n".join(lines)}
        settings["gres"] = "GresTypes=gpu" if self.gpus else ""
        if self.gpus:
            devices = "File=" + ",".join(DEVICES[: self.gpus])
            (self.folder / "gres.conf").write_text(f"NodeName=node[0-{NODES - 1}] Name=gpu {devices}\n")
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(**settings))
        for name in ("state", *(f"{kind}.{node}" for kind in ("spool", "tmp") for node in nodes)):
            (self.folder / name).mkdir()
        (self.folder / "munge.key").write_bytes(os.urandom(128))
        (self.folder / "munge.key").chmod(0o400)
        options = {"socket": "munge.sock", "key-file": "munge.key", "pid-file": "munged.pid", "log-file": "munged.log"}
        paths = [f"--{name}={self.folder / file}" for name, file in (options | {"seed-file": "munge.seed"}).items()]
        self.start("munged", "--foreground", "--force", *paths)
        self.await_(lambda: (self.folder / "munge.sock").exists(), "munged")
        self.start("slurmctld", "-D", "-c")
        for node in nodes:
            self.start("slurmd", "-D", "-N", node)
        self.await_(lambda: self.run("sinfo", "-h", "-t", "idle", "-o", "%D").stdout.strip() == str(NODES), "slurmctld")

    def start(self, program: str, *arguments: str) -> None:
        with open(self.folder / f"{program}.out", "ab") as out:
            command = [shutil.which(program, path=PATH), *arguments]
            self.processes.append(
                subprocess.Popen(command, env=self.environment, stdout=out, stderr=out, preexec_fn=end_with_parent)
            )

    def await_(self, ready, what: str) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not ready():
            ended = [process for process in self.processes if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                said = (self.folder / f"{Path(ended[0].args[0]).name if ended else what}.out").read_text(
                    errors="replace"
                )
                raise NotStarted(f"{what} did not start: {' '.join(said.split())[-300:]}")
            time.sleep(0.05)

    def run(self, *command: str) -> subprocess.CompletedProcess:
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=LIMIT_S)

    def cancel_all(self) -> None:
        """Cancel all jobs, and wait until they have ended."""
        self.run("scancel", f"--user={os.getuid()}")
        wait_until(lambda: not self.run("squeue", "-h").stdout.strip(), "all jobs end")

    def down(self) -> None:
        try:
            if len(self.processes) > 1 and all(process.poll() is None for process in self.processes):
                self.cancel_all()
        finally:
            for process in reversed(self.processes):  # munged last, since the others need it
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            self.processes.clear()


def end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def free_ports(count: int) -> int:
    """The first of `count` consecutive unused ports."""
    while True:
        first = random.randrange(31000, 32700)  # neither ephemeral ports nor those of the ranks
        sockets = []
        try:
            for port in range(first, first + count):
                sockets.append(socket.socket())
                sockets[-1].bind(("127.0.0.1", port))
            return first
        except OSError:
            pass
        finally:
            for each in sockets:
                each.close()
