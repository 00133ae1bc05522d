"""Studies on a Dask cluster of two processes: the same bytes as here, also when a worker is lost; goes on, and stops."""

import filecmp
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import wavelane
from wavelane import cluster

distributed = pytest.importorskip("distributed", reason="the Python package distributed is missing")

#: The smallest share of each study.
SMALL = {
    "hop": ["--part", "beside"],
    "hop-swarm": ["--draws", "1..120"],
    "link-population": ["--draws", "1003..1004"],
    "link-population --part lanes": ["--draws", "1010..1010"],
    "petrovic": ["--part", "nodes"],
    "traces": [],
}


def study(command: str, study: str, out: Path, *more: str, **how: Any) -> subprocess.CompletedProcess[str]:
    # Rows name the folder of --out if they name any: it is the same word here and there.
    out.parent.mkdir(parents=True, exist_ok=True)
    arguments = [command, "study", "run", *study.split(), *SMALL[study], "--out", out.name, *more]
    return subprocess.run(arguments, cwd=out.parent, capture_output=True, text=True, **how)


def is_same(here: Path, there: Path) -> bool:
    """Whether two folders hold the same, but for the order of the lines that were kept as they came."""
    files = sorted(str(path.relative_to(here)) for path in here.rglob("*") if path.is_file())
    assert files == sorted(str(path.relative_to(there)) for path in there.rglob("*") if path.is_file())
    kept = [name for name in files if name.endswith("kept.jsonl")]
    _, different, missing = filecmp.cmpfiles(here, there, [name for name in files if name not in kept], shallow=False)
    lines = [[sorted((folder / name).read_text().splitlines()) for name in kept] for folder in (here, there)]
    return different == missing == [] and lines[0] == lines[1]


def is_busy(dask: Any) -> dict[str, int]:
    """The process of each worker that does something, by its address."""

    def busy(dask_worker: Any) -> int:
        return os.getpid() if dask_worker.state.executing_count else 0

    with distributed.Client(dask, set_as_default=False) as client:
        return {worker: pid for worker, pid in client.run(busy).items() if pid}


@pytest.mark.parametrize("name", ["hop", "hop-swarm", "link-population", "link-population --part lanes", "petrovic"])
def test_a_cluster_gives_the_bytes_of_a_local_study(on: list[str], command: str, tmp_path: Path, name: str) -> None:
    here, there = tmp_path / "here/out", tmp_path / "there/out"
    assert (local := study(command, name, here)).returncode in (0, 1, 3), local.stderr
    remote = study(command, name, there, *on)
    assert remote.returncode == local.returncode, remote.stderr
    assert is_same(here, there) and remote.stdout == local.stdout


def test_recordings_travel_with_their_scenario(on: list[str], command: str, tmp_path: Path) -> None:
    recordings = tmp_path / "recordings"
    recordings.mkdir()
    # 1.2 Mbit/s, and half of it: a packet may go at each of these milliseconds.
    (recordings / "steady.down").write_text("10\n20\n")
    (recordings / "steady.up").write_text("20\n")
    here, there = tmp_path / "here/out", tmp_path / "there/out"
    more = ["--traces", str(recordings)]
    assert (local := study(command, "traces", here, *more)).returncode in (0, 1, 3), local.stderr
    remote = study(command, "traces", there, *more, *on)
    assert remote.returncode == local.returncode, remote.stderr
    assert is_same(here, there)


def test_what_a_lost_worker_had_is_done_by_another(dask: Any, on: list[str], command: str, tmp_path: Path) -> None:
    here, there = tmp_path / "here/out", tmp_path / "there/out"
    done: list[subprocess.CompletedProcess[str]] = []
    asking = threading.Thread(target=lambda: done.append(study(command, "hop-swarm", there, *on)))
    asking.start()
    until = time.monotonic() + 120
    while not (busy := is_busy(dask)):
        assert asking.is_alive() and time.monotonic() < until
        time.sleep(0.1)
    os.kill(next(iter(busy.values())), signal.SIGKILL)
    asking.join()
    assert done[0].returncode == 0, done[0].stderr
    assert study(command, "hop-swarm", here).returncode == 0
    assert is_same(here, there)


def test_ctrl_c_stops_command_and_workers_and_the_same_command_goes_on(
    dask: Any, on: list[str], command: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    arguments = [command, "study", "run", "hop-swarm", "--draws", "1..100000", "--out", str(out), *on]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    kept, until = out / "hop-swarm/kept.jsonl", time.monotonic() + 120
    while not kept.exists():
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130 and "the same command goes on from there" in said
    until = time.monotonic() + 120
    while is_busy(dask):
        assert time.monotonic() < until
        time.sleep(0.1)
    lines, until = kept.read_text(), time.monotonic() + 120
    again = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while kept.read_text() == lines:
        assert again.poll() is None and time.monotonic() < until
        time.sleep(0.1)
    again.send_signal(signal.SIGINT)
    again.communicate(timeout=120)
    # Nothing was done twice.
    keys = [line.split('"key":')[1].split(",")[0] for line in kept.read_text().splitlines()]
    assert len(keys) == len(set(keys)) and kept.read_text().startswith(lines)


def test_studies_of_this_machine_are_refused(command: str, tmp_path: Path) -> None:
    arguments = [command, "study", "run", "main-job", "--on-cluster", "tcp://127.0.0.1:1", "--out", str(tmp_path / "out")]
    said = subprocess.run(arguments, capture_output=True, text=True)
    assert said.returncode == 2 and "study main-job runs on this machine only" in said.stderr


def test_workers_of_another_commit_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster._wavelane, "COMMIT", "0123456789ab+changes")
    tasks = cluster.Tasks(
        shard=0, version=wavelane.__version__, commit="ba9876543210", study="hop-swarm", tasks=[[0, 1]]
    )
    with pytest.raises(wavelane.Error, match="of commit 0123456789ab, whoever asks has ba9876543210"):
        cluster.work(tasks)
    assert len(cluster.results(cluster.work({**tasks, "commit": "0123456789ab"}))) == 1


def test_results_of_workers_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="no list of results"):
        cluster.results({cluster.RESULTS: b"{}"})
    for text, words in ((b"[NaN]", "sent NaN, which"), (b"[" * 100_000, "nested too deep")):
        with pytest.raises(ValueError, match=words):
            cluster.results({cluster.RESULTS: text})
    monkeypatch.setattr(cluster, "RESULTS_MAX", 3)
    with pytest.raises(ValueError, match="4 bytes of results, at most 3"):
        cluster.results({cluster.RESULTS: b"[12]"})
