"""Print the accelerators that a library computes on, or the fault that keeps it from them, as JSON.

Runs in the venv that is asked, as a program or in a worker, and imports nothing of skymark. The
library computes something: a driver that is too old is found by that, not by counting devices.
"""

from __future__ import annotations

import ctypes
import importlib.util
import io
import json
import os
import sys
from collections.abc import Iterable


def try_jax(platform: str) -> list[str]:
    """Add two numbers with JAX on the accelerator."""
    import jax

    devices = jax.devices(platform)
    jax.device_put(1, devices[0]).__add__(1).block_until_ready()
    return [str(device.device_kind) for device in devices]


def try_torch(platform: str) -> list[str]:
    """Add two numbers with torch on the accelerator."""
    import torch

    del platform
    if torch.version.cuda is None:
        raise RuntimeError(f"torch {torch.__version__} is a build for the CPU")
    torch.ones(2, device="cuda").sum().item()
    return [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]


def try_tensorflow(platform: str) -> list[str]:
    """Add two numbers with TensorFlow on the accelerator."""
    import tensorflow as tf

    devices = tf.config.list_physical_devices(platform.upper())
    if not devices:
        build = "with" if tf.test.is_built_with_cuda() else "without"
        raise RuntimeError(f"TensorFlow {tf.__version__}, built {build} CUDA, lists none")
    with tf.device(f"{platform.upper()}:0"):
        tf.add(1.0, 1.0).numpy()
    details = [tf.config.experimental.get_device_details(device) for device in devices]
    return [str(one.get("device_name", platform)) for one in details]


def try_dali(platform: str) -> list[str]:
    """Decode an image with DALI on the accelerator, which its nvJPEG does."""
    import numpy as np
    from nvidia.dali import Pipeline, fn
    from PIL import Image

    image = io.BytesIO()
    Image.new("RGB", (16, 16)).save(image, "JPEG")
    pipeline = Pipeline(batch_size=1, num_threads=1, device_id=0)
    with pipeline:
        data = fn.external_source(lambda: [np.frombuffer(image.getvalue(), np.uint8)])
        pipeline.set_outputs(fn.decoders.image(data, device="mixed"))
    pipeline.build()
    pipeline.run()[0].as_cpu()
    # DALI itself does not tell; it uses the first, so that is the one to name.
    name = ctypes.create_string_buffer(256)
    ctypes.CDLL("libcuda.so.1").cuDeviceGetName(name, len(name), 0)
    return [name.value.decode() or platform.upper()]


TRIALS = {"dali": try_dali, "jax": try_jax, "tensorflow": try_tensorflow, "torch": try_torch}


LITTLE_MEMORY = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
}
"""Variables by which a library takes no more of a device than it needs: others ask, too."""


def answer_of(library: str, platform: str, measured: Iterable[str]) -> dict[str, object]:
    """Return the accelerators that a library computes on, or its fault.

    Keeps the device until the process ends.

    Args:
        library: one of `TRIALS`.
        platform: ``gpu`` or ``tpu``.
        measured: modules that are to be measured; where none is installed, nothing is tried.

    Returns:
        ``absent``, the modules that are not installed, and ``names`` or ``fault``.
    """
    wanted = set(measured)
    absent = {one for one in wanted if importlib.util.find_spec(one.partition(".")[0]) is None}
    answer: dict[str, object] = {"absent": sorted(absent)}
    if absent != wanted:
        os.environ.update(LITTLE_MEMORY)
        try:
            answer["names"] = TRIALS[library](platform)
        except Exception as error:  # the process boundary: whatever it is becomes the answer
            answer["fault"] = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return answer


def main() -> None:
    """Try the library that is named, if one that is to be measured is installed."""
    library, platform, *measured = sys.argv[1:]
    sys.stdout.write(f"{json.dumps(answer_of(library, platform, measured))}\n")


if __name__ == "__main__":
    main()
