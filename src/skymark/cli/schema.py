"""`skymark schema`: the JSON Schemas of requests, plans, records, manifests and comparisons."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from cyclopts import Parameter

from skymark.cli.caller import print_json
from skymark.report.schemas import schema_of

Name = Literal["request", "plan", "record", "manifest", "comparison", "report"]


def schema(name: Annotated[Name, Parameter(help="The thing to describe.")], /) -> int:
    """Print the JSON Schema of a file or a request.

    request: the arguments of `skymark.Work`. plan: the file of `plan --output`. record and
    manifest: files of a run's directory. comparison and report: the output of `compare --json` and
    `report --json`.

    Examples:
      skymark schema record
      skymark schema comparison
    """
    print_json(json.dumps(schema_of(name), indent=1))
    return 0
