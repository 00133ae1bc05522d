"""The repository's files, and the command if `make test` says where it is."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def hop() -> Path:
    """The smallest complete scenario."""
    return ROOT / "scenarios/smoke/one_hop.toml"


@pytest.fixture(scope="session")
def command() -> str:
    """The program `wavelane`."""
    program = os.environ.get("WAVELANE", str(ROOT / "target/debug/wavelane"))
    if not Path(program).exists():
        pytest.fail(f"{program} is not built: cargo build --package wavelane-cli")
    return program


@pytest.fixture(scope="session")
def dask() -> Iterator[Any]:
    """A Dask cluster of two processes on this machine."""
    distributed = pytest.importorskip("distributed", reason="the Python package distributed is missing")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
    ) as cluster:
        yield cluster


@pytest.fixture
def on(dask: Any) -> list[str]:
    """What has a command use it."""
    return ["--on-cluster", dask.scheduler_address, "--python", sys.executable]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The line of cargo's test programs, which `make test` adds up; what was left out, as the others say it."""
    count = {what: len(terminalreporter.stats.get(what, [])) for what in ("passed", "failed", "error", "skipped")}
    for report in terminalreporter.stats.get("skipped", []):
        terminalreporter.write_line(f"SKIPPED ({report.longrepr[2].removeprefix('Skipped: ')}): {report.nodeid}")
    failed = count["failed"] + count["error"]
    word = "FAILED" if failed else "ok"
    terminalreporter.write_line(f"test result: {word}. {count['passed']} passed; {failed} failed; 0 ignored")
