"""End the cluster that this machine belongs to, as SkyPilot's own idle timer does.

Nobody imports it: its text is sent to each machine, whose SkyPilot runs it there.
"""

import os
from pathlib import Path

from sky import provision
from sky.utils import cluster_utils, yaml_utils

NOT_OURS = {"kubernetes", "slurm", "ssh"}
"""Clusters of one's own; whose machines are not to be ended."""
OTHER_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
"""Of a bucket perhaps; on AWS a machine ends itself by its own role."""


def main() -> None:
    """Ask the provider to end the workers first, then all."""
    config = yaml_utils.read_yaml(str(Path("~/.sky/sky_ray.yml").expanduser()))
    provider = cluster_utils.get_provider_name(config)
    if provider in NOT_OURS:
        return
    for name in OTHER_KEYS:
        os.environ.pop(name, None)
    os.environ["AWS_SHARED_CREDENTIALS_FILE"] = os.environ["AWS_CONFIG_FILE"] = os.devnull
    asked = {
        "provider_name": provider,
        "cluster_name_on_cloud": config["cluster_name"],
        "provider_config": config["provider"],
    }
    try:
        if config["max_workers"] > 0:
            provision.terminate_instances(**asked, worker_only=True)
    finally:
        provision.terminate_instances(**asked)


if __name__ == "__main__":
    main()
