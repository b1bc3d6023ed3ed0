"""The scripted suite's program of ceilings."""

from __future__ import annotations

import sys
import time

from skymark.model.record import Ceiling, MachineLimits
from skymark.suite.contract import CeilingRequest

request = CeilingRequest.model_validate_json(sys.stdin.read())
with (request.cache / "asked").open("a") as asked:
    asked.write(f"{request.cell.label}\n")
does = request.cell.settings["ceilings"]
if does == "fail":
    sys.exit("no decoder")
if does == "hang":
    time.sleep(60)
limits = MachineLimits(ceilings=(Ceiling(name="decoding", rate=1000.0, basis="scripted"),))
if does == "lack":
    limits = MachineLimits(missing="codec is not in the venv")
sys.stdout.write(f"words of a library\n{limits.model_dump_json()}\n")
