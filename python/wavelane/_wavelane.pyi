from collections.abc import Callable
from os import PathLike
from pathlib import Path

__version__: str
COMMIT: str | None
REPEAT_MAX: int
SEED_MAX: int
JOBS_MAX: int

class Error(Exception): ...

def run(
    path: str | PathLike[str],
    text: str | None,
    settings: list[str],
    seed: int | None,
    repeat: int,
    jobs: int | None,
    out: str | PathLike[str],
    full: bool,
    replace: bool,
) -> None: ...
def sweep(
    path: str | PathLike[str],
    axes: list[str],
    settings: list[str],
    seed: int | None,
    repeat: int | None,
    jobs: int | None,
    out: str | PathLike[str],
    replace: bool,
) -> str: ...
def compare(records: list[Path]) -> str: ...
def mean_ci95(values: list[float]) -> tuple[float, float | None] | None: ...
def shard(
    text: str,
    name: str,
    repeat: int,
    jobs: int,
    rerun: str,
    out: str | PathLike[str],
    record: str,
    stop: Callable[[], bool] | None,
) -> None: ...
def tasks(study: str, tasks: str, stop: Callable[[], bool] | None) -> str: ...
def foreign(record: str | PathLike[str]) -> Path | None: ...
def document(record: str | PathLike[str]) -> str: ...
def series(
    record: str | PathLike[str], stack: str, flow: str, seed: int
) -> tuple[list[str], list[int], list[int | None]]: ...
def summary(record: str | PathLike[str]) -> str: ...
def report(record: str | PathLike[str]) -> str: ...
