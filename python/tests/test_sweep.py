"""Sweeps and comparisons: what the command writes and prints."""

import json
import subprocess
from pathlib import Path

import pytest
import wavelane

RATES = {"air.forward.rate": ["5 Mbit/s", "10 Mbit/s"]}
LENIENT = {"page-fills-the-link.at-least": "1 Mbit/s"}
BOTH = ["stacks=[\"tcp-cubic\", \"wavelane\"]"]


def test_a_sweep_is_the_commands(hop: Path, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = wavelane.sweep(hop, RATES, set=LENIENT, repeat=2, out="sweep")
    ours = Path("sweep").rename("ours")
    line = [command, "sweep", hop, "--sweep", "air.forward.rate=5 Mbit/s,10 Mbit/s", "--repeat", "2", "--out", "sweep"]
    subprocess.run([*line, "--set", "page-fills-the-link.at-least=1 Mbit/s"], stdout=subprocess.PIPE, check=True)
    for name in ("sweep.csv", "sweep.json", "sweep.parquet"):
        assert (ours / name).read_bytes() == (Path("sweep") / name).read_bytes(), name
    assert (found.verdict, found.axes) == ("pass", RATES)
    assert [record.verdict for record in wavelane.Sweep.load("sweep").records().values()] == ["pass", "pass"]


def test_its_table_is_long_or_wide_and_a_plot(hop: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="the Python package pandas is missing")
    pytest.importorskip("matplotlib", reason="the Python package matplotlib is missing")
    found = wavelane.sweep(hop, RATES, set=LENIENT, repeat=3)
    table, wide = found.table(), found.wide()
    assert isinstance(table, pandas.DataFrame) and {"metric", "value", "seed"} <= {*table.columns}
    pages = wide[wide.flow == "page"]
    assert len(pages) == 2 * 3 and (pages.goodput_bps > 1e6).all()
    figure = found.plot()
    (axis,) = figure.axes
    assert [line.get_label() for line in axis.get_lines()] == ["wavelane"] and len(axis.collections) == 1
    assert list(axis.get_lines()[0].get_xdata()) == [5e6, 10e6]
    with pytest.raises(ValueError, match="no flow has the metric"):
        found.plot("colour")


def test_what_cannot_be_swept_is_refused_in_the_commands_words(hop: Path, tmp_path: Path) -> None:
    for axes, words in (
        ({}, "nothing varies"),
        ({"air.forward.rate": ["5 furlongs"]}, "furlongs"),
        ({"air.forward.rate": []}, "has no value"),
        ({"air.forward.rate": ["5 Mbit/s", "5 Mbit/s"]}, "names 5 Mbit/s twice"),
    ):
        with pytest.raises(wavelane.Error, match=words):
            wavelane.sweep(hop, axes, out=tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_comparison_is_the_commands(hop: Path, command: str, tmp_path: Path) -> None:
    a = wavelane.run(hop, repeat=2, set=BOTH, out=tmp_path / "a")
    b = wavelane.run(hop, repeat=2, set=[*BOTH, "air.forward.rate=10 Mbit/s"], out=tmp_path / "b")
    for records in ([a, tmp_path / "b"], [a]):
        paths = [record.path if isinstance(record, wavelane.Record) else record for record in records]
        said = subprocess.run([command, "compare", *paths, "--json"], stdout=subprocess.PIPE, check=True)
        rows = wavelane.compare(*records)
        rows = rows if isinstance(rows, list) else rows.to_dict("records")
        theirs = json.loads(said.stdout)["differences"]
        assert [(r["stack"], r["metric"], r["first"]) for r in rows] == [
            (r["stack"], r["metric"], r["first"]) for r in theirs
        ]
    assert {row["stack"] for row in rows} == {"tcp-cubic -> wavelane"} and b.verdict == "fail"
    with pytest.raises(wavelane.Error, match="two records or more, or one of several stacks"):
        wavelane.compare(wavelane.run(hop))
