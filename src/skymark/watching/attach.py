"""The libraries that a watch knows, and the hooks that it sets on their modules."""

from __future__ import annotations

import os
from functools import wraps
from typing import Any, Callable

from skymark.watching import batch_functions, keras_loop, torch_loader
from skymark.watching.after_import import Hook, after_import, replace
from skymark.watching.iterators import hook_grain, iterated
from skymark.watching.recorder import LOOP, recorder


def attach() -> None:
    """Set the hooks of all known libraries, now or at their import. A second call does nothing."""
    after_import(HOOKS)


def _staged(
    owner: Any, stage: str, *names: str, does: Callable[[Any], Any] = lambda _: True
) -> None:
    """Let functions of a class or module count as a stage, in watched processes.

    Args:
        owner: class or module.
        stage: that they are.
        names: of the functions.
        does: tells of a call's first value whether the call has anything to do.
    """

    def make(original: Any) -> Any:
        @wraps(original)
        def counted(*values: Any, **named: Any) -> Any:
            watch = recorder()
            if watch is None or watch.is_over or (values and not does(values[0])):
                return original(*values, **named)
            entry = watch.clock.enter()
            try:
                return original(*values, **named)
            finally:
                watch.clock.leave(stage, entry)

        return counted

    for name in names:
        replace(owner, name, make)


def _on(stage: str, *names: str, owner: str = "") -> Hook:
    """Return a hook that lets functions of a module, or of a class in it, count as a stage."""

    def hook(module: Any) -> None:
        _staged(getattr(module, owner) if owner else module, stage, *names)

    return hook


def _hook_pool(module: Any) -> None:
    """Look at the stacks of a pool's processes that make batches."""

    def make(original: Any) -> Any:
        @wraps(original)
        def worker(*values: Any, **named: Any) -> Any:
            watch = recorder()
            if watch is not None and (watch.asks_in_graph is not None or LOOP in os.environ):
                watch.wake()
            return original(*values, **named)

        return worker

    replace(module, "worker", make)


def _hook_pillow(module: Any) -> None:
    """Count the decoding of images, which `load` does at its first call alone."""
    _staged(module.ImageFile, "decode", "load", does=lambda image: image.tile)


HOOKS: dict[str, Hook] = {
    "torch.utils.data.dataloader": torch_loader.hook_loader,
    "torch.utils.data._utils.fetch": torch_loader.hook_fetch,
    "tensorflow.python.data.ops.dataset_ops": iterated("tf.data", "DatasetV2"),
    "keras.src.backend.tensorflow.trainer": keras_loop.hook_trainer,
    "keras.src.trainers.data_adapters.py_dataset_adapter": iterated(
        "keras", "PyDatasetAdapter", "get_jax_iterator"
    ),
    "keras.src.trainers.data_adapters.generator_data_adapter": iterated(
        "plain", "GeneratorDataAdapter", "get_jax_iterator"
    ),
    "grain._src.python.data_loader": iterated("grain", "DataLoader"),
    "grain._src.python.dataset.dataset": hook_grain,
    "datasets.arrow_dataset": iterated("datasets", "Dataset", "__iter__", "iter"),
    "datasets.iterable_dataset": iterated("datasets", "IterableDataset", "__iter__", "iter"),
    "webdataset.pipeline": iterated("webdataset", "DataPipeline"),
    "litdata.streaming.dataset": iterated("litdata", "StreamingDataset"),
    "ray.data.iterator": iterated("ray", "_IterableFromIterator"),
    "torch.optim.optimizer": batch_functions.hook_training,
    "jax": batch_functions.hook_training,
    "multiprocessing.reduction": _on("hand-over", "dumps", "loads", owner="ForkingPickler"),
    "multiprocessing.pool": _hook_pool,
    "PIL.ImageFile": _hook_pillow,
    "torchvision.io.image": _on(
        "decode", "decode_image", "decode_jpeg", "decode_png", "read_image"
    ),
    "torchvision.transforms.transforms": _on("transform", "__call__", owner="Compose"),
    "torchvision.transforms.v2._container": _on("transform", "forward", owner="Compose"),
    "albumentations.core.composition": _on("transform", "__call__", owner="Compose"),
    "cv2": _on("decode", "imread", "imdecode"),
}
"""Hooks by the module that they are for."""
