"""Sweeps and studies on a cluster: ``python -m wavelane.cluster ADDRESS`` is what ``--on-cluster ADDRESS`` starts.

It reads shards on standard input, one JSON object a line and an empty line, and hands each to the engine at ADDRESS. A shard is a
combination of a sweep, whose Record it puts in its place as it comes, or some tasks of a study. It says so on standard output:
``{"done": NUMBER}``, for a study with ``"results"``, or ``{"failed": TEXT}`` and exit code 1. The end of the input, or Ctrl-C, ends
it and what the engine does for it. The engine's workers need this package, of the same version and commit, and
no files in common with this machine. What a worker that is lost had is done again by another.

Dask unpickles what workers and scheduler send: whoever speaks for one of them runs code here (see the guide, "Sweeps").

An engine is a function that takes the address and the shards and yields, in any order, each shard's number with the files
that :func:`work` gave for it; ``ENGINES`` has them by the address's scheme.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypedDict, final

from . import Error, __version__, _wavelane


@final
class Shard(TypedDict):
    """One combination of a sweep."""

    #: Its number, by which the sweep knows it.
    shard: int
    #: The program that handed it out.
    version: str
    #: What that was built of, if it is known.
    commit: str | None
    #: The resolved scenario.
    scenario: str
    name: str
    repeat: int
    rerun: str
    #: Where its Record belongs, for whoever asked for the sweep.
    record: str


@final
class Tasks(TypedDict):
    """Some tasks of a study."""

    shard: int
    version: str
    commit: str | None
    #: The study's id.
    study: str
    #: What its workers know how to do.
    tasks: list[Any]


#: The files of a Record, by their path in it; of a study one, ``RESULTS``.
Files = dict[str, bytes]
Engine = Callable[[str, list[Shard | Tasks]], Iterator[tuple[int, Files]]]

#: The name of a list with what each task gave.
RESULTS = "results.json"
#: Most bytes of it that are taken from a worker.
RESULTS_MAX = 256 << 20


def work(shard: Shard | Tasks, stop: Callable[[], bool] | None = None) -> Files:
    """Run a shard, here, on one processor; what a worker does. It ends early once ``stop()`` is true."""
    if shard["version"] != __version__:
        raise Error(
            f"a worker has wavelane {__version__}, whoever asks has {shard['version']}: install the same version"
        )
    same_commit(_wavelane.COMMIT, shard["commit"])
    if "study" in shard:
        return {RESULTS: _wavelane.tasks(shard["study"], json.dumps(shard["tasks"]), stop).encode()}
    with tempfile.TemporaryDirectory(prefix="wavelane-") as folder:
        out = Path(folder) / "record"
        parts = (shard["scenario"], shard["name"], shard["repeat"], 1, shard["rerun"])
        _wavelane.shard(*parts, out, shard["record"], stop)
        return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def same_commit(worker: str | None, asking: str | None) -> None:
    """Refuse two commits that differ by more than the mark that files were changed since."""
    here, there = ((commit or "").split("+")[0] for commit in (worker, asking))
    if here and there and here != there:
        raise Error(f"a worker has wavelane of commit {here}, whoever asks has {there}: install the same there")


def built_of(files: Files) -> str | None:
    """The commit that ran a Record, as it says itself: a worker of before commits were compared runs what it gets."""
    try:
        commit = json.loads(files.get("environment.json", b"{}")).get("commit")
    except (AttributeError, RecursionError, ValueError):
        raise ValueError("a worker sent a Record whose environment.json is none") from None
    return commit if isinstance(commit, str) else None


def results(files: Files) -> list[Any]:
    """What each task of a shard gave."""
    text = files.get(RESULTS, b"")
    if len(text) > RESULTS_MAX:
        raise ValueError(f"a worker sent {len(text)} bytes of results, at most {RESULTS_MAX} are taken")

    def refuse(number: str) -> Any:
        raise ValueError(f"a worker sent {number}, which is no number in JSON")

    try:
        found = json.loads(text, parse_constant=refuse)
    except RecursionError:
        raise ValueError("a worker sent results nested too deep") from None
    if not isinstance(found, list):
        raise ValueError("a worker sent no list of results")
    return found


def keep(record: Path, files: Files) -> None:
    """Put a Record in its place, whole or not at all."""
    record.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{record.name}.draft-", dir=record.parent) as folder:
        draft = Path(folder) / "record"
        for name in ("series", "pcap"):
            (draft / name).mkdir(parents=True)
        for name, content in files.items():
            path = draft / name
            # A worker is another machine, and names what it likes.
            if Path(name).is_absolute() or ".." in Path(name).parts:
                raise ValueError(f"a worker sent a file called {name!r}, which lies outside its Record")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        if (found := _wavelane.foreign(record)) is not None:
            raise ValueError(f"{record} holds {found}, which no run wrote: move it away, or choose another --out")
        if record.exists() and not (record / "record.json").exists():
            raise ValueError(f"{record} exists and is not a record: choose another --out or remove it")
        if record.exists():
            record.rename(Path(folder) / "earlier")
        draft.rename(record)


def _on_dask(shard: Shard | Tasks) -> Files:
    """What a Dask worker does: nobody waits for a task that is cancelled."""
    from distributed import get_worker

    worker: Any = get_worker()
    key = worker.get_current_task()

    def stop() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state != "executing"

    return work(shard, stop)


def dask(address: str, shards: list[Shard | Tasks]) -> Iterator[tuple[int, Files]]:
    """A Dask scheduler, such as ``tcp://192.0.2.1:8786``."""
    yield from dask_at(address, shards)


def dask_at(address: Any, shards: list[Shard | Tasks]) -> Iterator[tuple[int, Files]]:
    """A Dask scheduler's address, or what started one."""
    try:
        import distributed
    except ImportError:
        raise Error("a Dask cluster needs the package distributed: pip install './python[cluster]'") from None
    try:
        client: Any = distributed.Client(address, timeout=5)
    except (OSError, ValueError) as error:
        raise Error(f"no Dask scheduler answers at {address}: {error}") from None
    futures: dict[str, Any] = {}
    with client:
        try:
            numbers = {}
            for shard in shards:
                key = f"wavelane-{os.getpid()}-{shard['shard']}"
                numbers[key] = shard["shard"]
                futures[key] = client.submit(_on_dask, shard, key=key, pure=False)
            for future in distributed.as_completed(list(futures.values())):
                yield numbers[future.key], future.result()
                # The scheduler and its workers may forget it.
                del futures[future.key]
                future.release()
        except ModuleNotFoundError as error:
            raise Error(f"a worker lacks a package: {error}; install wavelane {__version__} there") from None
        finally:
            client.cancel(list(futures.values()), force=True)


#: What a Slurm job asks for, unless Dask's own configuration (`jobqueue.slurm`) says it.
SLURM_JOB = {"cores": 1, "memory": "2 GiB"}
#: Most jobs that are asked for.
SLURM_JOBS_MAX = 10_000


def slurm(address: str, shards: list[Shard | Tasks]) -> Iterator[tuple[int, Files]]:
    """``slurm://64``: a scheduler here and 64 jobs of Slurm as its workers, which end with the work."""
    count = address.removeprefix("slurm://")
    if not count.isdecimal() or not 1 <= int(count) <= SLURM_JOBS_MAX:
        raise Error(f"'{address}' names no number of jobs: use slurm://N, N from 1 to {SLURM_JOBS_MAX}")
    try:
        import dask.config
        import dask_jobqueue
    except ImportError:
        raise Error("jobs of Slurm need the package dask-jobqueue: pip install './python[slurm]'") from None
    if shutil.which("sbatch") is None:
        raise Error("Slurm's command sbatch is not in PATH: run this where jobs are submitted")
    asked = {key: value for key, value in SLURM_JOB.items() if not dask.config.get(f"jobqueue.slurm.{key}", None)}
    # No more jobs than there is work; each is submitted before the first shard goes out.
    with dask_jobqueue.SLURMCluster(**asked, scheduler_options={"dashboard": False}) as jobs:
        jobs.scale(jobs=min(int(count), len(shards)))
        yield from dask_at(jobs, shards)


ENGINES: dict[str, Engine] = {"tcp": dask, "tls": dask, "slurm": slurm}


def _end_with_input() -> None:
    """Whoever asked is gone, or wants no more."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGINT)


def main(address: str) -> int:
    """Read shards, have them run, write Records, tell results."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    shards: list[Shard | Tasks] = []
    while (line := sys.stdin.readline()).strip():
        shards.append(json.loads(line))
    threading.Thread(target=_end_with_input, daemon=True).start()
    places = {shard["shard"]: (Path(shard["record"]), shard["commit"]) for shard in shards if "record" in shard}
    scheme = address.split("://")[0] if "://" in address else ""
    try:
        engine = ENGINES.get(scheme)
        if engine is None:
            known = ", ".join(f"{scheme}://" for scheme in ENGINES)
            raise Error(f"'{address}' names no engine: use {known}, such as tcp://192.0.2.1:8786 for a Dask scheduler, or slurm://64 for 64 jobs")
        for number, files in engine(address, shards):
            if (place := places.get(number)) is not None:
                record, commit = place
                same_commit(built_of(files), commit)
                keep(record, files)
                print(json.dumps({"done": number}), flush=True)
            else:
                print(json.dumps({"done": number, "results": results(files)}), flush=True)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        print(json.dumps({"failed": " ".join(str(error).split()) or type(error).__name__}), flush=True)
        return 1
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m wavelane.cluster ADDRESS, with shards on standard input")
    sys.exit(main(sys.argv[1]))
