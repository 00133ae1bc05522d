"""A sweep and a study as jobs of a Slurm of one node, which the test starts from Debian's packages as root."""

import filecmp
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("dask_jobqueue", reason="the Python package dask-jobqueue is missing")

PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch", "squeue"]
CONFIG = """
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SchedulerParameters=defer=0,sched_min_interval=1000000
NodeName={host} NodeAddr=127.0.0.1 CPUs={processors} RealMemory=8000 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=60 State=UP
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment in which its commands find it."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if lacking := [name for name in PROGRAMS if shutil.which(name) is None]:
        pytest.skip(f"{lacking[0]} is missing: apt-get install slurmctld slurmd slurm-client munge")
    if os.getuid() != 0:
        pytest.skip("needs root: slurmd starts jobs of others")
    folder = tmp_path_factory.mktemp("slurm")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    # munged refuses folders that others may write to, above too, unless it is forced.
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o600)
    host = socket.gethostname().split(".")[0]
    config = folder / "slurm.conf"
    ports = [free_port(), free_port()]
    config.write_text(CONFIG.format(host=host, folder=folder, ports=ports, processors=os.cpu_count()))
    environment = {**os.environ, "SLURM_CONF": str(config)}
    # Jobs of one processor each, whose workers the scheduler on this machine's own address hears.
    environment |= {"DASK_JOBQUEUE__SLURM__INTERFACE": "lo", "DASK_JOBQUEUE__SLURM__LOG_DIRECTORY": str(folder)}
    munge = ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={folder}/munge.key"]
    munge += [f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed"]
    commands = [munge, ["slurmctld", "-D", "-i"], ["slurmd", "-D", "-N", host]]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            log = (folder / f"{command[0]}.out").open("wb")
            started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
            while command is munge and not (folder / "munge.socket").exists():
                assert started[0].poll() is None, (folder / "munged.out").read_text()
                time.sleep(0.05)
        until = time.monotonic() + 60
        while "idle" not in (said := subprocess.run(["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True)).stdout:
            logs = "".join((folder / f"{command[0]}.out").read_text() for command in commands)
            assert time.monotonic() < until, said.stdout + said.stderr + logs
            time.sleep(0.2)
        yield environment
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(30)


def jobs(slurm: dict[str, str]) -> str:
    return subprocess.run(["squeue", "-h", "-o", "%T"], env=slurm, capture_output=True, text=True, check=True).stdout


def wait_for(wanted: bool, slurm: dict[str, str], process: subprocess.Popen[str] | None = None) -> None:
    """Until there are jobs that run, or none."""
    until = time.monotonic() + 120
    while ("RUNNING" in jobs(slurm)) != wanted if wanted else jobs(slurm).strip() != "":
        assert time.monotonic() < until and (process is None or process.poll() is None)
        time.sleep(0.2)


def test_jobs_give_the_bytes_of_a_local_study_and_end(slurm: dict[str, str], command: str, tmp_path: Path) -> None:
    arguments = [command, "study", "run", "hop-swarm", "--draws", "1..120", "--out", "out"]
    on = ["--on-cluster", "slurm://2", "--python", sys.executable]
    for place, more in (("here", []), ("there", on)):
        (tmp_path / place).mkdir()
        done = subprocess.run([*arguments, *more], cwd=tmp_path / place, env=slurm, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert filecmp.cmp(tmp_path / "here/out/hop-swarm.json", tmp_path / "there/out/hop-swarm.json", shallow=False)
    wait_for(False, slurm)


def test_ctrl_c_takes_the_jobs_back(slurm: dict[str, str], hop: Path, command: str, tmp_path: Path) -> None:
    sweep = [command, "sweep", str(hop), "--sweep", "air.forward.rate=5 Mbit/s,10 Mbit/s", "--set", "page.size=20 GB"]
    sweep += ["--set", "duration=3600 s", "--out", str(tmp_path / "out"), "--on-cluster", "slurm://2"]
    process = subprocess.Popen(
        [*sweep, "--python", sys.executable], env=slurm, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_for(True, slurm, process)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "cancelled" in said
    wait_for(False, slurm)
