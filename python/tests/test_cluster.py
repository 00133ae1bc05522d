"""Sweeps on a Dask cluster on this machine: the same bytes as here, goes on, says what is wrong, and stops."""

import filecmp
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import wavelane
from wavelane import cluster

distributed = pytest.importorskip("distributed", reason="the Python package distributed is missing")

RATES = "air.forward.rate=5 Mbit/s,10 Mbit/s,15 Mbit/s"
# What every rate meets.
BOUND = ["--set", "page-fills-the-link.at-least=1 Mbit/s"]
# Minutes of simulation, which the end of the test ends.
LONG = ["--set", "page.size=20 GB", "--set", "duration=3600 s"]


def sweep(command: str, hop: Path, out: Path, *more: str, repeat: str = "2", **how: Any) -> subprocess.CompletedProcess[str]:
    arguments = [command, "sweep", str(hop), "--sweep", RATES, "--repeat", repeat, "--out", str(out), *BOUND, *more]
    return subprocess.run(arguments, capture_output=True, text=True, **how)


def test_a_cluster_gives_the_bytes_of_a_local_sweep(on: list[str], hop: Path, command: str, tmp_path: Path) -> None:
    here, there = tmp_path / "here/sweep", tmp_path / "there/sweep"
    for out, more in ((here, []), (there, on)):
        out.parent.mkdir()
        done = subprocess.run(
            [command, "sweep", str(hop), "--sweep", RATES, "--repeat", "2", "--out", "sweep", *BOUND, *more],
            cwd=out.parent,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    files = sorted(str(path.relative_to(here)) for path in here.rglob("*") if path.is_file())
    assert files == sorted(str(path.relative_to(there)) for path in there.rglob("*") if path.is_file())
    assert sum(name.endswith("record.json") for name in files) == 3
    _, different, missing = filecmp.cmpfiles(here, there, files, shallow=False)
    assert missing == [] and {Path(name).name for name in different} == {"environment.json"}
    # Who ran it is the one thing that differs.
    arguments = json.loads((there / different[0]).read_text())["arguments"]
    assert "sweep" not in arguments


def test_kept_cells_are_not_sent_again(
    on: list[str], hop: Path, command: str, tmp_path: Path
) -> None:
    assert sweep(command, hop, tmp_path / "out", *on).returncode == 0
    # Nothing is left, so nobody is asked.
    again = sweep(command, hop, tmp_path / "out", "--on-cluster", "tcp://127.0.0.1:1", "--python", "/nonexistent")
    assert again.returncode == 0 and "3 combinations" in again.stdout


def test_only_missing_seeds_are_sent(on: list[str], hop: Path, command: str, tmp_path: Path) -> None:
    out, fresh = tmp_path / "out", tmp_path / "fresh"
    assert sweep(command, hop, out).returncode == 0
    more = sweep(command, hop, out, *on, repeat="3")
    assert more.returncode == 0 and "3 combinations are there with fewer seeds" in more.stderr
    assert sweep(command, hop, fresh, repeat="3").returncode == 0
    assert (out / "sweep.csv").read_bytes() == (fresh / "sweep.csv").read_bytes()
    assert sorted(path.name for path in (out / "cells").iterdir()) == sorted(
        path.name for path in (fresh / "cells").iterdir()
    )


@pytest.mark.parametrize(
    ("address", "python", "words"),
    [
        ("ray://here", sys.executable, "'ray://here' names no engine: use tcp://, tls://, slurm://"),
        ("slurm://here", sys.executable, "'slurm://here' names no number of jobs: use slurm://N"),
        ("tcp://127.0.0.1:1", sys.executable, "no Dask scheduler answers at tcp://127.0.0.1:1"),
        ("tcp://127.0.0.1:1", "/nonexistent/python", "cannot start /nonexistent/python"),
        ("tcp://127.0.0.1:1", "/bin/false", "is the package installed there?"),
    ],
)
def test_failures_are_reported(
    address: str, python: str, words: str, hop: Path, command: str, tmp_path: Path
) -> None:
    said = sweep(command, hop, tmp_path / "out", "--on-cluster", address, "--python", python)
    assert said.returncode == 2 and words in said.stderr.splitlines()[-1], said.stderr


def test_workers_of_another_build_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    shard = cluster.Shard(
        shard=0, version="0.0.1", commit="ba9876543210", scenario="", name="x", repeat=1, rerun="", record="x"
    )
    with pytest.raises(wavelane.Error, match="whoever asks has 0.0.1: install the same version"):
        cluster.work(shard)
    monkeypatch.setattr(cluster._wavelane, "COMMIT", "0123456789ab+changes")
    with pytest.raises(wavelane.Error, match="of commit 0123456789ab, whoever asks has ba9876543210: install the same"):
        cluster.work({**shard, "version": wavelane.__version__})
    # Older ones do not compare, and their Records say what they are.
    with pytest.raises(wavelane.Error, match="of commit 0123456789ab, whoever asks has ba9876543210"):
        cluster.same_commit(cluster.built_of({"environment.json": b'{"commit": "0123456789ab"}'}), "ba9876543210+changes")
    assert cluster.built_of({}) is None
    for wrong in (b"[]", b"no"):
        with pytest.raises(ValueError, match="whose environment.json is none"):
            cluster.built_of({"environment.json": wrong})


def test_a_record_says_what_built_it(hop: Path, tmp_path: Path) -> None:
    record = wavelane.run(hop, out=tmp_path / "record")
    assert cluster.built_of({"environment.json": (record.path / "environment.json").read_bytes()}) == cluster._wavelane.COMMIT


def test_ctrl_c_stops_command_and_workers(dask: Any, on: list[str], hop: Path, command: str, tmp_path: Path) -> None:
    arguments = [command, "sweep", str(hop), "--sweep", RATES, "--out", str(tmp_path / "out"), *LONG, *on]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def busy() -> int:
        with distributed.Client(dask, set_as_default=False) as client:
            return sum(client.run(lambda dask_worker: dask_worker.state.executing_count).values())

    until = time.monotonic() + 120
    while busy() == 0:
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130 and "cancelled; the same command goes on" in said
    while busy() > 0:
        assert time.monotonic() < until
        time.sleep(0.1)
    assert not list(tmp_path.rglob("record.json"))


def test_files_of_others_in_a_record_stay(tmp_path: Path) -> None:
    record = tmp_path / "record"
    cluster.keep(record, {"record.json": b"1", "series/wavelane-page.csv": b"1"})
    cluster.keep(record, {"record.json": b"2"})
    assert (record / "record.json").read_bytes() == b"2" and not list((record / "series").iterdir())
    (record / "notes.md").write_text("years")
    with pytest.raises(ValueError, match="holds notes.md, which no run wrote"):
        cluster.keep(record, {"record.json": b"3"})
    assert (record / "record.json").read_bytes() == b"2" and (record / "notes.md").exists()
