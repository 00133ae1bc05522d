"""Sweeps in the simulator, and comparisons of Records."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _wavelane
from ._record import Record
from ._run import Settings, _pairs, _within, _word

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


class Sweep:
    """The directory that a sweep wrote. :attr:`document` is its ``sweep.json``."""

    def __init__(self, path: str | os.PathLike[str], *, _keep: object = None) -> None:
        self.path = Path(path)
        self._keep = _keep
        self.document: dict[str, Any] = json.loads((self.path / "sweep.json").read_text())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Sweep:
        """The sweep in a directory that ``wavelane sweep`` or :func:`wavelane.sweep` wrote."""
        return cls(path)

    @property
    def verdict(self) -> str:
        """``pass``, ``fail``, ``inconclusive``, or ``info`` where nothing was judged."""
        return str(self.document["verdict"])

    @property
    def axes(self) -> dict[str, list[str]]:
        """What varies, and over which values."""
        return {axis["key"]: list(axis["values"]) for axis in self.document["axes"]}

    def records(self) -> dict[tuple[str, ...], Record]:
        """The Record of each combination, by its values in the order of :attr:`axes`."""
        return {tuple(cell["values"]): Record(self.path / cell["record"]) for cell in self.document["cells"]}

    def table(self) -> pandas.DataFrame | list[dict[str, Any]]:
        """Every figure of every flow, stack, seed and combination, a row each (``metric``, ``value``): a DataFrame if
        pandas is installed, else a list."""
        path = self.path / "sweep.csv"
        if importlib.util.find_spec("pandas") is not None:
            import pandas

            return pandas.read_csv(path)
        with path.open(newline="") as file:
            return [{**row, "value": float(row["value"])} for row in csv.DictReader(file)]

    def wide(self) -> pandas.DataFrame:
        """The same with a column per metric, so that ``wide().set_index([...]).to_xarray()`` is a Dataset. Needs pandas."""
        import pandas

        table = self.table()
        assert isinstance(table, pandas.DataFrame)
        index = [name for name in table.columns if name not in ("metric", "value", "verdict")]
        return table.pivot(index=index, columns="metric", values="value").reset_index().rename_axis(columns=None)

    def plot(self, metric: str = "goodput_bps", *, flow: str | None = None, logx: bool = False) -> Figure:
        """A figure of one metric over the first axis of numbers: a line per stack through the means over the seeds, and
        areas for their 95 % intervals. Other axes have a panel per combination. Needs matplotlib."""
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise ImportError("plot() needs matplotlib: pip install 'wavelane[plot]'") from None
        with (self.path / "sweep.csv").open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["metric"] == metric and flow in (None, row["flow"])]
        if not rows:
            raise ValueError(f"no flow has the metric {metric!r}: table()['metric'] has those there are")
        keys = list(rows[0])[: len(self.axes)]
        along = next((key for key in keys if all(_is_number(row[key]) for row in rows)), None)
        if along is None:
            raise ValueError("no axis of this sweep is of numbers: use table()")
        flows = list(dict.fromkeys(row["flow"] for row in rows))
        if len(flows) > 1:
            raise ValueError(f"flows {', '.join(flows)} have {metric}: name one with flow=")
        others = [key for key in keys if key != along]
        panels = list(dict.fromkeys(tuple(row[key] for key in others) for row in rows))
        figure = Figure(figsize=(8, 2.8 * len(panels)), layout="constrained")
        axes = figure.subplots(len(panels), squeeze=False, sharex=True)[:, 0]
        for axis, panel in zip(axes, panels, strict=True):
            for stack in dict.fromkeys(row["stack"] for row in rows):
                values: dict[float, list[float]] = {}
                for row in rows:
                    if row["stack"] == stack and tuple(row[key] for key in others) == panel:
                        values.setdefault(float(row[along]), []).append(float(row["value"]))
                xs = sorted(values)
                found = [_wavelane.mean_ci95(values[x]) or (float("nan"), None) for x in xs]
                means, halves = [mean for mean, _ in found], [half or 0.0 for _, half in found]
                (line,) = axis.plot(xs, means, marker=".", label=stack)
                low = [mean - half for mean, half in zip(means, halves, strict=True)]
                high = [mean + half for mean, half in zip(means, halves, strict=True)]
                axis.fill_between(xs, low, high, alpha=0.16, color=line.get_color())
            axis.set_title(", ".join(f"{key} {value}" for key, value in zip(others, panel, strict=True)), loc="left")
            axis.set_ylabel(metric)
            axis.set_ylim(bottom=0)
            if logx:
                axis.set_xscale("log")
        axes[0].legend()
        axes[-1].set_xlabel(along)
        return figure

    def __repr__(self) -> str:
        return f"<wavelane.Sweep of {', '.join(self.axes)}: {len(self.document['cells'])} combinations, {self.verdict}>"


def sweep(
    scenario: str | os.PathLike[str],
    axes: Mapping[str, Iterable[object]] | None = None,
    *,
    seed: int | None = None,
    set: Settings = (),
    repeat: int | None = None,
    jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    replace: bool = False,
) -> Sweep:
    """Run a scenario in the simulator at every combination of values, as ``wavelane sweep`` does, and return what it left.

        wavelane.sweep("demo.toml", {"air.forward.rate": ["5 Mbit/s", "50 Mbit/s"]}, repeat=5).plot()

    ``axes`` stand beside or instead of the file's ``[sweep]``. With ``out`` everything stays in that directory, and the same
    call goes on with what is there; without, it lies in a temporary one for as long as the returned object lives.
    """
    if repeat is not None:
        _within("repeat", repeat, 1, _wavelane.REPEAT_MAX)
    if seed is not None:
        _within("seed", seed, 0, _wavelane.SEED_MAX)
    if jobs is not None:
        _within("jobs", jobs, 1, _wavelane.JOBS_MAX)
    named = [f"{key}={','.join(_value(value) for value in values)}" for key, values in (axes or {}).items()]
    folder = tempfile.TemporaryDirectory(prefix="wavelane-") if out is None else None
    place = Path(folder.name) / "sweep" if folder is not None else Path(out or "")
    _wavelane.sweep(Path(scenario), named, _pairs(set), seed, repeat, jobs, place, replace)
    return Sweep(place, _keep=folder)


def compare(*records: Record | str | os.PathLike[str]) -> pandas.DataFrame | list[dict[str, Any]]:
    """Compare Records with the first, runs of the same seed with each other; of a single one its stacks.

    A row per figure and flow, with difference and ratio and both ends of their 95 % intervals (``None`` of single runs): a
    DataFrame if pandas is installed, else a list. The columns are those of ``wavelane compare --json``.
    """
    paths = [record.path if isinstance(record, Record) else Path(record) for record in records]
    rows: list[dict[str, Any]] = json.loads(_wavelane.compare(paths))["differences"]
    if importlib.util.find_spec("pandas") is None:
        return rows
    import pandas

    return pandas.DataFrame(rows)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _value(value: object) -> str:
    """A value of an axis, in quotes where it holds a comma and is no table or list."""
    word = _word(value)
    return json.dumps(word) if "," in word and word[0] not in "{[\"'" else word
