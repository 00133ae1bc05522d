"""Running a scenario in the simulator."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from . import _wavelane
from ._record import Record

#: Values in the place of the scenario's: ``{"air.forward.rate": "5 Mbit/s"}`` or ``["air.forward.rate=5 Mbit/s"]``.
Settings = Mapping[str, object] | Iterable[str]


def run(
    scenario: str | os.PathLike[str],
    *,
    seed: int | None = None,
    set: Settings = (),
    repeat: int = 1,
    jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    replace: bool = False,
) -> Record:
    """Run a scenario in the simulator and return its Record.

    ``scenario`` is the path of a file, or the TOML text itself (whatever has more than one line). ``seed`` takes the
    place of the file's, ``repeat`` runs that many seeds counting up, ``jobs`` at once (one per processor if not said).

    With ``out`` the Record stays in that directory, with captures and report.html, as ``wavelane run --out`` leaves it.
    A Record of other seeds there is an :class:`Error` unless ``replace`` is true.
    Without, it lies in a temporary directory, without captures and pages, for as long as the returned Record lives.

    A ``seed``, ``repeat`` or ``jobs`` out of its bounds is a :class:`ValueError`.

    Other threads go on meanwhile. Ctrl-C ends the run within a second, and leaves nothing behind. What cannot be run is an
    :class:`Error` that says why and what to do, in the words of the command with the names of these parameters.
    """
    _within("repeat", repeat, 1, _wavelane.REPEAT_MAX)
    if seed is not None:
        _within("seed", seed, 0, _wavelane.SEED_MAX)
    if jobs is not None:
        _within("jobs", jobs, 1, _wavelane.JOBS_MAX)
    text = scenario if isinstance(scenario, str) and "\n" in scenario else None
    path = Path("scenario.toml") if text is not None else Path(scenario)
    pairs = _pairs(set)
    folder = tempfile.TemporaryDirectory(prefix="wavelane-") if out is None else None
    place = Path(folder.name) / "record" if folder is not None else Path(out or "")
    _wavelane.run(path, text, pairs, seed, repeat, jobs, place, out is not None, replace)
    return Record(place, _keep=folder)


def _pairs(settings: Settings) -> list[str]:
    """Settings as the command has them."""
    if isinstance(settings, Mapping):
        return [f"{key}={_word(value)}" for key, value in settings.items()]
    return list(settings)


def _within(name: str, value: int, least: int, most: int) -> None:
    """Refuse a number that the command would refuse."""
    if not least <= value <= most:
        raise ValueError(f"{name} is {value}: use a whole number from {least} to {most}")


def _word(value: object) -> str:
    """A value as a scenario's file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
