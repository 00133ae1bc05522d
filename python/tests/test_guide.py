"""The guide's example, as it stands."""

import re
import shutil
from pathlib import Path

import pytest
import wavelane


def test_the_guides_example_runs(
    hop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(hop, tmp_path)
    wavelane.run("one_hop.toml", out="record")
    guide = (Path(__file__).parents[2] / "docs/guide/records.md").read_text()
    blocks = [block for block in re.findall(r"```python\n(.*?)```", guide, re.DOTALL) if "import wavelane" in block]
    assert len(blocks) == 1
    exec(blocks[0], {})
    said = capsys.readouterr().out
    assert "wavelane page 9 True" in said and "pass One clean hop" in said and "verdict pass" in said
