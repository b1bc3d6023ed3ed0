"""Messages of machines: one wording for one thing."""

from __future__ import annotations

import re
from pathlib import Path

from skymark.model.errors import NoMachineError

SOURCE = Path(__file__).parents[3] / "src" / "skymark"


def test_a_machine_that_does_not_exist_has_one_message_everywhere():
    said = str(NoMachineError("box"))
    assert "skymark status" in said
    texts = {path: path.read_text() for path in SOURCE.rglob("*.py")}
    before = re.escape(said.partition("box")[0]).replace("machine", "(?:machine|cluster)")
    wordings = re.compile(rf'"{before}\{{')
    places = [path.name for path, text in texts.items() if wordings.search(text)]
    assert places == ["errors.py"]
