"""Runs of a sweep on a cluster: ``python -m wavelane.cluster ADDRESS`` is what ``wavelane sweep --on-cluster ADDRESS`` starts.

It reads shards on standard input, one JSON object a line and an empty line, hands each to the engine at ADDRESS, puts each
Record in its place as it comes, and says so on standard output: ``{"done": NUMBER}``, or ``{"failed": TEXT}`` and exit code 1.
The end of the input, or Ctrl-C, ends it and what the engine does for it. The engine's workers need this package, of the same version, and no files in common with this machine.

An engine is a function that takes the address and the shards and yields, in any order, each shard's number with the files
that :func:`work` gave for it; ``ENGINES`` has them by the address's scheme.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypedDict

from . import Error, __version__, _wavelane


class Shard(TypedDict):
    """One combination of a sweep."""

    #: Its number, by which the sweep knows it.
    shard: int
    #: The program that handed it out.
    version: str
    #: The resolved scenario.
    scenario: str
    name: str
    repeat: int
    rerun: str
    #: Where its Record belongs, for whoever asked for the sweep.
    record: str


#: The files of a Record, by their path in it.
Files = dict[str, bytes]
Engine = Callable[[str, list[Shard]], Iterator[tuple[int, Files]]]


def work(shard: Shard, stop: Callable[[], bool] | None = None) -> Files:
    """Run a shard, here, on one processor; what a worker does. It ends early once ``stop()`` is true."""
    if shard["version"] != __version__:
        raise Error(f"a worker has wavelane {__version__}, the sweep is of {shard['version']}: install the same version")
    with tempfile.TemporaryDirectory(prefix="wavelane-") as folder:
        out = Path(folder) / "record"
        parts = (shard["scenario"], shard["name"], shard["repeat"], 1, shard["rerun"])
        _wavelane.shard(*parts, out, shard["record"], stop)
        return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


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


def _on_dask(shard: Shard) -> Files:
    """What a Dask worker does: nobody waits for a task that is cancelled."""
    from distributed import get_worker

    worker: Any = get_worker()
    key = worker.get_current_task()

    def stop() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state != "executing"

    return work(shard, stop)


def dask(address: str, shards: list[Shard]) -> Iterator[tuple[int, Files]]:
    """A Dask scheduler, such as ``tcp://192.0.2.1:8786``."""
    try:
        import distributed
    except ImportError:
        raise Error("a Dask cluster needs the package distributed: pip install 'wavelane[cluster]'") from None
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


ENGINES: dict[str, Engine] = {"tcp": dask, "tls": dask}


def _end_with_input() -> None:
    """Whoever asked is gone, or wants no more."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGINT)


def main(address: str) -> int:
    """Read shards, have them run, write Records."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    shards: list[Shard] = []
    while (line := sys.stdin.readline()).strip():
        shards.append(json.loads(line))
    threading.Thread(target=_end_with_input, daemon=True).start()
    places = {shard["shard"]: Path(shard["record"]) for shard in shards}
    scheme = address.split("://")[0] if "://" in address else ""
    try:
        engine = ENGINES.get(scheme)
        if engine is None:
            known = ", ".join(f"{scheme}://" for scheme in ENGINES)
            raise Error(f"'{address}' names no engine: use {known}, such as tcp://192.0.2.1:8786 for a Dask scheduler")
        for number, files in engine(address, shards):
            keep(places[number], files)
            print(json.dumps({"done": number}), flush=True)
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
