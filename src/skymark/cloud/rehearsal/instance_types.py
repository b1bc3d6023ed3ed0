"""Instance types of the simulated Lambda Cloud, from SkyPilot's price catalogue."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from skymark.cloud.rehearsal.errors import RehearsalUnfitError


@dataclass(frozen=True)
class InstanceType:
    """One kind of machine."""

    name: str
    hourly_price_usd: float
    cpus: int
    memory_gib: int
    gpus: int
    gpu_name: str | None
    regions: tuple[str, ...]


def read_instance_types(catalogs: Path) -> Mapping[str, InstanceType]:
    """Read ``lambda/vms.csv`` below a directory in the layout of ``~/.sky/catalogs/v8``.

    Raises:
        RehearsalUnfitError: there is no such file.
    """
    path = catalogs / "lambda" / "vms.csv"
    if not path.is_file():
        raise RehearsalUnfitError(
            f"{path} is not there; leave out --catalogs, or name a directory such as "
            "~/.sky/catalogs/v8"
        )
    types: dict[str, InstanceType] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            name = row["InstanceType"]
            regions = types[name].regions if name in types else ()
            types[name] = InstanceType(
                name=name,
                hourly_price_usd=float(row["Price"]),
                cpus=round(float(row["vCPUs"])),
                memory_gib=round(float(row["MemoryGiB"])),
                gpus=round(float(row["AcceleratorCount"] or 0)),
                gpu_name=row["AcceleratorName"] or None,
                regions=(*regions, row["Region"]),
            )
    return types
