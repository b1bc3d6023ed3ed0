"""Runs on rented machines, made of a few fields."""

from __future__ import annotations

from skymark.cloud.rented_run import RentedRun
from skymark.model.requests import Job, Limits, Machine

KNOWN = {"name": "skymark-cpu-1", "run_id": "run", "profile": "cpu", "plan_hash": "0"}
REQUESTS = {"machine": Machine, "limits": Limits, "job": Job}


def run_of(**fields: object) -> RentedRun:
    """Return a run; fields that are not its own are those of its machine, its limits or its job."""
    made = {}
    for name, request in REQUESTS.items():
        own = (request.model_fields.keys() - RentedRun.model_fields.keys()) & fields.keys()
        if own or name not in fields:
            made[name] = request(**{field: fields.pop(field) for field in own})
    return RentedRun(**{**KNOWN, **made, **fields})
