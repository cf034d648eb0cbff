"""A real SLURM on this machine: a controller, two CPU nodes and one GPU node whose GPU is a reservation (GRES) only.

Every node is a slurmd of its own with its own port, so that one of them can die while the others go on. The SLURM
plugin of Snakemake drops every SLURM_* variable, a private SLURM_CONF included, so the configuration has to be in
/etc/slurm; it is taken away again, and a machine that has one of its own is left alone.
"""

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil

ETC = Path("/etc/slurm")
NODES = {"cpu1": "", "cpu2": "", "gpu1": "Gres=gpu:h200:1"}
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol")
SLURM_CONF = """# Written by the lab's tests, which take it away again.
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthInfo=socket={root}/munge.socket
MpiDefault=none
TaskPlugin=task/none
ProctrackType=proctrack/linuxproc
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
MinJobAge=3600
ReturnToService=2
SlurmdTimeout=3
MessageTimeout=2
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,bf_interval=1
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/%n.log
PartitionName=cpu Nodes=cpu1,cpu2 Default=YES MaxTime=UNLIMITED State=UP
PartitionName=gpu Nodes=gpu1 MaxTime=UNLIMITED State=UP
"""
NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=64000 {gres}\n"


def reason_to_skip() -> str | None:
    """Why no SLURM can be brought up here, or None."""
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if missing:
        return f"no SLURM here ({missing[0]} is missing): apt-get install --no-install-recommends slurm-wlm munge"
    if os.getuid():
        return "SLURM's daemons are started as root only"
    if (ETC / "slurm.conf").exists():
        return f"{ETC}/slurm.conf is there: this machine has a SLURM of its own, or these tests ran and were killed"
    return None


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on: daemons of tests that were killed may still hold those of the last time."""
    with ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]


class Cluster:
    """A SLURM that is up, from `start` to `stop`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._held: dict[str, str] = {}

    def start(self) -> None:
        host = socket.gethostname()
        for folder in ("state", *NODES):
            (self.root / folder).mkdir(parents=True)
        key = self.root / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        own, *ports = free_ports(1 + len(NODES))
        nodes = "".join(
            NODE.format(name=name, host=host, port=port, gres=gres)
            for port, (name, gres) in zip(ports, NODES.items(), strict=True)
        )
        ETC.mkdir(exist_ok=True)
        (ETC / "slurm.conf").write_text(SLURM_CONF.format(host=host, port=own, root=self.root) + nodes)
        (ETC / "gres.conf").write_text("NodeName=gpu1 Name=gpu Type=h200 File=/dev/null\n")
        (ETC / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        places = {"key-file": key, "socket": self.root / "munge.socket", "pid-file": self.root / "munged.pid"}
        places |= {"log-file": self.root / "munged.log", "seed-file": self.root / "munged.seed"}
        run("munged", "--force", *(f"--{option}={path}" for option, path in places.items()))
        run("slurmctld")
        for name in NODES:
            run("slurmd", "-N", name)
        self.wait(self._is_idle, "the nodes to be idle")

    def _is_idle(self) -> bool:
        answer = subprocess.run(["sinfo", "-h", "-N", "-o", "%T"], text=True, capture_output=True)
        return answer.stdout.split() == ["idle"] * len(NODES)

    def stop(self) -> None:
        """End what was started, each by its process number, and take the configuration away."""
        for name in NODES:
            self.kill_node(name)
        for pid_file in self.root.glob("*.pid"):
            end(int(pid_file.read_text()), signal.SIGTERM)
        for name in ("slurm.conf", "gres.conf", "cgroup.conf"):
            (ETC / name).unlink(missing_ok=True)

    def kill_node(self, name: str) -> None:
        """What a power cut does to a node: its slurmd and all processes of its jobs end at once, without a word."""
        pid_file = self.root / f"{name}.pid"
        if pid_file.exists():
            end(int(pid_file.read_text()), signal.SIGKILL)
            pid_file.unlink()
        for process in psutil.process_iter():
            try:
                if process.environ().get("SLURMD_NODENAME") == name:
                    stepd = process.parent()
                    if stepd and stepd.name() == "slurmstepd":
                        end(stepd.pid, signal.SIGKILL)
                    end(process.pid, signal.SIGKILL)
            except psutil.Error:
                continue

    def wait(self, happened, what: str, seconds: float = 300) -> None:
        """Wait until `happened()`.

        Raises:
            TimeoutError: it did not; the message ends with the controller's log.
        """
        end_of_wait = time.monotonic() + seconds
        while not happened():
            if time.monotonic() > end_of_wait:
                log = (self.root / "slurmctld.log").read_text()[-2000:]
                raise TimeoutError(f"waited {seconds:g} s for {what}; the controller's log ends:\n{log}")
            time.sleep(0.2)

    def jobs(self) -> list[dict[str, str]]:
        """What `scontrol` has recorded of every job: its fields, in the order of submission.

        Which GPU a job holds (`GRES`) SLURM forgets when the job ends; whoever asks while it runs learns it for good.
        """
        text = run("scontrol", "--details", "--oneliner", "show", "jobs")
        jobs = [dict(re.findall(r"(\S+?)=(\S*)", line)) for line in text.splitlines() if line.startswith("JobId=")]
        self._held |= {job["JobId"]: job["GRES"] for job in jobs if job.get("GRES")}
        return [job | {"GRES": self._held.get(job["JobId"], "")} for job in jobs]


def run(*command: str) -> str:
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def end(pid: int, how: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, how)
