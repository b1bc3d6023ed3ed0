"""`skymark schema`: the JSON Schemas of requests, plans, records, manifests and comparisons."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from cyclopts import Parameter

from skymark.cli.caller import print_json
from skymark.report.schemas import schema_of

Name = Literal["request", "plan", "record", "manifest", "comparison"]


def schema(name: Annotated[Name, Parameter(help="What is described.")], /) -> int:
    """Print the JSON Schema of a file or a request.

    request is what `skymark.Work` takes; plan is the file of `plan --output`; record and manifest
    are files of a run's directory; comparison is what `compare --json` prints.
    """
    print_json(json.dumps(schema_of(name), indent=1))
    return 0
