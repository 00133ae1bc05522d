"""Wavelane's simulator from Python: run a scenario, read its Record.

    import wavelane
    record = wavelane.run("scenarios/demo.toml", seed=7, set={"air.forward.rate": "5 Mbit/s"})
    record.rows()[["stack", "flow", "goodput_bps"]]
    wavelane.compare(record)                                                  # its stacks, with ratios
    wavelane.sweep("scenarios/demo.toml", {"air.forward.rate": ["5 Mbit/s", "50 Mbit/s"]}, repeat=5).plot()
"""

from ._record import Record, Row
from ._run import Settings, run
from ._sweep import Sweep, compare, sweep
from ._wavelane import Error, __version__

__all__ = ["Error", "Record", "Row", "Settings", "Sweep", "__version__", "compare", "run", "sweep"]
