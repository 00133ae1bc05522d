"""Reading a Record."""

import json
from pathlib import Path

import pytest
import wavelane


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> wavelane.Record:
    scenario = Path(__file__).parents[2] / "scenarios/smoke/one_hop.toml"
    return wavelane.run(scenario, repeat=2, out=tmp_path_factory.mktemp("records") / "record")


def test_the_document_is_the_file(record: wavelane.Record) -> None:
    again = wavelane.Record.load(record.path)
    assert again.document == record.document == json.loads((record.path / "record.json").read_text())
    assert again.stacks == ["wavelane"] and again.verdict == "pass"
    assert repr(again) == "<wavelane.Record one_hop on sim: pass>"
    assert "verdict pass" in again.summary()


def test_rows_are_a_frame(record: wavelane.Record) -> None:
    pandas = pytest.importorskip("pandas")
    rows = record.rows()
    assert isinstance(rows, pandas.DataFrame) and len(rows) == 4
    page = rows[rows.flow == "page"]
    assert list(page.seed) == [1, 2] and page.completed.all() and (page.bytes == 2_000_000).all()
    # No more than the link carries, and the check's aim at least.
    assert page.goodput_bps.between(10e6, 20e6).all()


def test_series_hold_what_the_figures_count(record: wavelane.Record) -> None:
    pytest.importorskip("pandas")
    page = record.series("page", seed=2)
    assert list(page.columns) == ["t_ns", "bytes"] and page["bytes"].sum() == 2_000_000
    echo = record.series("echo", "wavelane")
    # Twice 10 ms of delay is the least.
    assert list(echo.columns) == ["sent_ns", "rtt_ns"] and echo.rtt_ns.min() >= 20_000_000


def test_missing_names_are_errors(record: wavelane.Record, tmp_path: Path) -> None:
    with pytest.raises(wavelane.Error, match="has no flow 'pages' of wavelane, seed 1"):
        record.series("pages")
    with pytest.raises(wavelane.Error, match="or the command `wavelane run` wrote"):
        wavelane.Record.load(tmp_path)


def test_without_pandas_rows_and_series_are_plain(record: wavelane.Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    rows = record.rows()
    assert rows == list(record) and rows[0]["flow"] == "page"
    assert sum(record.series("page")["bytes"]) == 2_000_000


def test_the_figure_has_an_axis_per_flow_and_a_curve_per_stack(record: wavelane.Record, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figure = record.plot(seed=1)
    page, echo = figure.axes
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["page", "echo"]
    assert [line.get_label() for line in page.lines] == ["wavelane"]
    at, rate = page.lines[0].get_data()
    # The area below the curve is what arrived.
    assert abs(sum(rate) * (at[1] - at[0]) * 1e6 / 8 - 2_000_000) < 1
    assert min(echo.lines[0].get_ydata()) >= 20
    figure.savefig(tmp_path / "figure.png")


def test_the_report_can_be_drawn(record: wavelane.Record) -> None:
    page = record.path / "report.html"
    page.unlink()
    assert record.report() == page and "One clean hop" in page.read_text()
