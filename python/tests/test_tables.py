"""Parquet files, read by Arrow's own implementation, hold what the CSV files hold, with types."""

import csv
import io
import subprocess
from pathlib import Path
from typing import Any

import pytest

pq = pytest.importorskip("pyarrow.parquet", reason="the Python package pyarrow is missing")

CAPTURES = Path(__file__).parents[2] / "fuzz/corpus/capture"


def compare(table: Any, text: str, apart: float = 0.0) -> None:
    """Every cell, by its column's type; `apart` is how much a number may differ in seconds since 1970."""
    rows = list(csv.DictReader(io.StringIO(text)))
    assert table.num_rows == len(rows) > 0
    assert table.column_names == list(rows[0])
    for name, kind in zip(table.column_names, table.schema.types, strict=True):
        for row, cell in zip(rows, table[name].to_pylist(), strict=True):
            spelled = row[name]
            if cell is None:
                assert spelled == "", name
            elif str(kind) == "double":
                assert float(spelled) == pytest.approx(cell, rel=0, abs=apart), name
            elif str(kind) == "uint64":
                assert int(spelled) == cell, name
            else:
                assert (str(kind), spelled) == ("string", cell), name


def test_a_sweeps_two_tables_are_one(hop: Path, command: str, tmp_path: Path) -> None:
    losses = 'air.forward.loss={ kind = "none" },{ kind = "random", p = "1/100" }'
    arguments = ["--sweep", "air.forward.rate=5 Mbit/s,10 Mbit/s", "--sweep", losses, "--repeat", "2"]
    arguments += ["--set", "page-fills-the-link.at-least=1 Mbit/s"]
    swept = subprocess.run([command, "sweep", hop, *arguments, "--out", tmp_path / "s"], capture_output=True, text=True)
    assert swept.returncode == 0, swept.stderr
    table = pq.read_table(tmp_path / "s/sweep.parquet")
    compare(table, (tmp_path / "s/sweep.csv").read_text())
    types = dict(zip(table.column_names, map(str, table.schema.types), strict=True))
    assert types == {
        "air.forward.rate_bps": "double",
        "air.forward.loss": "string",
        "backend": "string",
        "stack": "string",
        "seed": "uint64",
        "flow": "string",
        "app": "string",
        "metric": "string",
        "value": "double",
        "verdict": "string",
    }
    # As the guide says, with the extras that it names.
    pandas = pytest.importorskip("pandas", reason="the Python package pandas is missing")
    read = pandas.read_parquet(tmp_path / "s/sweep.parquet")
    assert (list(read.columns), len(read)) == (table.column_names, table.num_rows)
    goodput = [row for row in table.to_pylist() if row["metric"] == "goodput_bps"]
    assert len(goodput) == 8 and {row["seed"] for row in goodput} == {1, 2}
    whole = [row for row in table.to_pylist() if row["seed"] is None]
    assert {row["flow"] for row in whole} == {None}
    assert [row["metric"] for row in whole].count("wire_bytes_per_delivered_byte") == 4


def test_a_captures_two_tables_are_one(command: str, tmp_path: Path) -> None:
    types: dict[str, str] = {}
    for name in ("reno-sack.pcap", "loss.pcapng.gz", "reordering-sll.pcapng", "six-nanoseconds.pcap"):
        out = tmp_path / f"{name}.parquet"
        traced = subprocess.run([command, "trace", CAPTURES / name, "--csv", "--parquet", out], capture_output=True, text=True)
        assert traced.returncode == 0, traced.stderr
        table = pq.read_table(out)
        # CSV has times to the microsecond.
        compare(table, traced.stdout, apart=1e-6)
        # Tables of several captures fit together.
        for column, kind in zip(table.column_names, map(str, table.schema.types), strict=True):
            assert types.setdefault(column, kind) == kind, f"{column} in {name}"
    assert types["RTT_avg_a2b"] == "double" and types["retransmits_fast_b2a"] == "uint64" and types["host_a"] == "string"


def test_a_file_that_is_there_is_left_alone(command: str, tmp_path: Path) -> None:
    capture = tmp_path / "mine.pcap"
    capture.write_bytes((CAPTURES / "reno-sack.pcap").read_bytes())
    refused = subprocess.run([command, "trace", capture, "--parquet", capture], capture_output=True, text=True)
    why = "exists, and nothing is written over: choose another name or remove it"
    assert refused.returncode == 2 and refused.stderr == f"wavelane: {capture}: {why}\n"
    assert capture.read_bytes() == (CAPTURES / "reno-sack.pcap").read_bytes()
