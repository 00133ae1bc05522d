"""Wavelane's simulator from Python: run a scenario, read its Record.

    import wavelane
    record = wavelane.run("scenarios/demo.toml", seed=7, set={"air.forward.rate": "5 Mbit/s"})
    record.rows()[["stack", "flow", "goodput_bps"]]
"""

from ._record import Record, Row
from ._run import Settings, run
from ._wavelane import Error, __version__

__all__ = ["Error", "Record", "Row", "Settings", "__version__", "run"]
