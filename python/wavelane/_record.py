"""A Record: what a run left."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _wavelane

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

#: One flow of one stack and seed: names and figures, those of pages, calls and fetches after a dot.
Row = dict[str, str | int | float | bool | None]


class Record:
    """The directory that a run wrote.

    :attr:`document` is its ``record.json``; its keys and their meaning are in docs/guide/records.md.
    """

    def __init__(self, path: str | os.PathLike[str], *, _keep: object = None) -> None:
        self.path = Path(path)
        #: Where a temporary Record lies; it goes with the last Record that holds it.
        self._keep = _keep
        self.document: dict[str, Any] = json.loads(_wavelane.document(self.path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Record:
        """The Record in a directory that ``wavelane run`` or :func:`wavelane.run` wrote, in simulator or lab."""
        return cls(path)

    @property
    def verdict(self) -> str:
        """``pass``, ``fail``, ``inconclusive``, or ``info`` where nothing was judged."""
        return str(self.document["verdict"])

    @property
    def stacks(self) -> list[str]:
        """The stacks that ran, in the scenario's order."""
        return [stack["stack"] for stack in self.document["stacks"]]

    def summary(self) -> str:
        """The table that ``wavelane run`` prints."""
        return _wavelane.summary(self.path)

    def report(self) -> Path:
        """Draw ``report.html`` and its pictures into the Record, and say where it is."""
        return Path(_wavelane.report(self.path))

    def __iter__(self) -> Iterator[Row]:
        """Every flow of every stack and seed."""
        for stack in self.document["stacks"]:
            for flow in stack["flows"]:
                yield {"stack": stack["stack"], **_flat(flow)}

    def rows(self) -> pandas.DataFrame | list[Row]:
        """Every flow of every stack and seed, a row each: a DataFrame if pandas is installed, else a list."""
        rows = list(self)
        if importlib.util.find_spec("pandas") is None:
            return rows
        import pandas

        return pandas.DataFrame(rows)

    def series(
        self, flow: str, stack: str | None = None, seed: int | None = None
    ) -> pandas.DataFrame | dict[str, list[int | None]]:
        """The series of a flow, of the first stack and seed if not said: when bytes arrived (``t_ns``, ``bytes``), or how
        long probes (``sent_ns``, ``rtt_ns``) or fetches (``connect_ns``, ``total_ns``) took. What was lost has no time.

        A DataFrame if pandas is installed, else its columns.
        """
        heads, at, values = self._columns(flow, stack, seed)
        if importlib.util.find_spec("pandas") is None:
            return {heads[0]: list(at), heads[1]: values}
        import pandas

        whole = {heads[0]: at, heads[1]: pandas.array(values, dtype="Int64")}
        return pandas.DataFrame(whole)

    def _columns(self, flow: str, stack: str | None, seed: int | None) -> tuple[list[str], list[int], list[int | None]]:
        stack = self.stacks[0] if stack is None else stack
        seed = int(self.document["seed"]) if seed is None else seed
        return _wavelane.series(self.path, stack, flow, seed)

    def plot(self, *, seed: int | None = None, bins: int = 100) -> Figure:
        """A figure with an axis per flow and a curve per stack, of one seed: goodput over ``bins`` spans of time, or how long
        probes and fetches took. Needs matplotlib: ``pip install 'wavelane[plot]'``.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise ImportError("plot() needs matplotlib: pip install 'wavelane[plot]'") from None
        flows = list(dict.fromkeys(str(row["flow"]) for row in self))
        figure = Figure(figsize=(8, 2.6 * len(flows)), layout="constrained")
        axes = figure.subplots(len(flows), squeeze=False, sharex=True)[:, 0]
        for axis, flow in zip(axes, flows, strict=True):
            for stack in self.stacks:
                heads, at, values = self._columns(flow, stack, seed)
                if heads[1] == "bytes":
                    axis.plot(*_rate(at, values, bins), label=stack, drawstyle="steps-mid")
                    axis.set_ylabel("Mbit/s")
                else:
                    points = [(t / 1e9, v / 1e6) for t, v in zip(at, values, strict=True) if v is not None]
                    axis.plot([t for t, _ in points], [v for _, v in points], ".", markersize=3, label=stack)
                    axis.set_ylabel("ms")
            axis.set_title(flow, loc="left")
            axis.set_ylim(bottom=0)
        axes[0].legend()
        axes[-1].set_xlabel("time (s)")
        figure.suptitle(str(self.document["title"] or self.document["scenario"]))
        return figure

    def __repr__(self) -> str:
        return f"<wavelane.Record {self.document['scenario']} on {self.document['backend']}: {self.verdict}>"


def _flat(figures: dict[str, Any], before: str = "") -> Row:
    """Figures with those inside others after a dot."""
    row: Row = {}
    for key, value in figures.items():
        if isinstance(value, dict):
            row.update(_flat(value, f"{before}{key}."))
        elif not isinstance(value, list):
            row[before + key] = value
    return row


def _rate(at: list[int], octets: list[int | None], bins: int) -> tuple[list[float], list[float]]:
    """Mbit/s over equal spans of time, at their middles."""
    if not at:
        return [], []
    width = max(at[-1] // bins + 1, 1)
    sums = [0] * (at[-1] // width + 1)
    for t, count in zip(at, octets, strict=True):
        sums[t // width] += count or 0
    return [(i + 0.5) * width / 1e9 for i in range(len(sums))], [s * 8e3 / width for s in sums]
