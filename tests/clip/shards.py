"""Shards of samples, as webdataset reads them."""

from __future__ import annotations

import io
import tarfile


def write_shards(place, samples, shards=2) -> None:
    """Write samples, bytes by extension, with the file that counts the shards."""
    place.mkdir(parents=True)
    for shard in range(shards):
        with tarfile.open(place / f"{shard}.tar", "w") as archive:
            for number in range(shard, len(samples), shards):
                for extension, data in samples[number].items():
                    member = tarfile.TarInfo(f"s{number:07d}.{extension}")
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))
    (place / "nshards.txt").write_text(f"{shards}\n")
