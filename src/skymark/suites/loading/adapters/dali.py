"""NVIDIA DALI: a pipeline of operators, fed by an external source that decides the order.

For CV-1, DALI's operators decode the drawn box, resize, mirror and normalise, in `workers` threads
on the CPU. On a platform with a GPU they run on the first one, with nvJPEG (``--set
dali_device=cpu`` keeps them off it). Batches stay there with ``--deliver device``, as tensors of
PyTorch; otherwise DALI copies them to the host. For other work, the source calls Python functions
in `workers` processes (``parallel=True``), or in the calling thread with 0 workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.image_formats import PLAIN_KINDS
from skymark.suites.loading.adapter import (
    Adapter,
    Execution,
    Loader,
    LoadingJob,
    adapter,
    all_but,
)
from skymark.suites.loading.devices import INDEX, TORCH_FOR_CUDA12, Acceleration
from skymark.suites.loading.element_streams import batches_of

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Element
    from skymark.suites.loading.work import Batch


class BatchSource:
    """A source of finished batches, each a function of epoch and iteration alone.

    Therefore DALI may call it in any process, and can resume it from a checkpoint.
    """

    def __init__(self, job: LoadingJob, first_epoch: int) -> None:
        self.job = job
        self.first_epoch = first_epoch
        self.reader = job.reader()
        self.ordered: tuple[int, list[list[int]]] = (-1, [])

    def __call__(self, info: Any) -> tuple[Any, ...]:
        epoch = self.first_epoch + info.epoch_idx
        if self.ordered[0] != epoch:
            self.ordered = (epoch, self.job.index_batches(epoch))
        batches = self.ordered[1]
        if info.iteration >= len(batches):
            raise StopIteration
        return tuple(self.fields(batches[info.iteration], epoch).values())

    def fields(self, indices: list[int], epoch: int) -> Batch:
        """Read elements, do the work on them and return a batch."""
        job = self.job
        elements = [job.transform(self.reader[index], epoch) for index in indices]
        return job.mix(job.collate(elements), epoch)


class ElementSource(BatchSource):
    """A source of lists of transformed elements, to be batched by length afterwards."""

    def fields(self, indices: list[int], epoch: int) -> Batch:
        """Read elements and do the work on them; each field is a list of arrays."""
        import numpy as np

        elements = [self.job.transform(self.reader[index], epoch) for index in indices]
        return {name: [np.asarray(e[name]) for e in elements] for name in elements[0]}


class CropSource(BatchSource):
    """A source of encoded images with their drawn crops, for `crop_resize_normalise`."""

    def fields(self, indices: list[int], epoch: int) -> Batch:
        """Read elements; ``corner`` and ``shape`` of the box are in pixels, vertical first."""
        import numpy as np

        scenario: Any = self.job.scenario
        elements = [self.reader[index] for index in indices]
        boxes = scenario.boxes(epoch, self.job.dataset)[indices]
        return {
            "index": np.array(indices),
            "label": np.stack([element["label"] for element in elements]),
            "jpeg": [np.asarray(element["jpeg"]) for element in elements],
            "corner": boxes[:, :2].copy(),
            "shape": boxes[:, 2:].copy(),
            "flip": scenario.table(epoch)["flip"][indices].astype(np.int32),
        }


def crop_resize_normalise(inputs: dict[str, Any], side: int, *, mixed: bool) -> dict[str, Any]:
    """Define the operators of CV-1 on the fields of a `CropSource`."""
    from nvidia.dali import fn, types

    from skymark.suites.loading.transforms.images import IMAGENET_DEVIATION, IMAGENET_MEAN

    image = fn.decoders.image_slice(
        inputs["jpeg"],
        start=inputs["corner"],
        shape=inputs["shape"],
        axis_names="HW",
        adjust_orientation=False,  # as the reference: pixels as the file stores them
        device="mixed" if mixed else "cpu",
    )
    image = fn.resize(image, size=[side, side], interp_type=types.INTERP_LINEAR, antialias=True)
    image = fn.crop_mirror_normalize(
        image,
        mirror=inputs["flip"],
        mean=[255 * value for value in IMAGENET_MEAN],
        std=[255 * value for value in IMAGENET_DEVIATION],
        dtype=types.FLOAT,
        output_layout="HWC",
    )
    return {"index": inputs["index"], "label": inputs["label"], "image": image}


class DaliLoader(Loader):
    """One `Pipeline`, reset from epoch to epoch."""

    def __init__(self, job: LoadingJob, *, native: bool) -> None:
        self.job = job
        self.native = native
        self.bucketed = bool(job.scenario.bucket_boundaries)
        devices = ("gpu", "cpu") if job.platform == "gpu" else ("cpu", "gpu")
        self.on_gpu = job.choice("dali_device", *devices) == "gpu" and native
        self.stays_there = self.on_gpu and job.deliver == "device"
        if self.on_gpu and not self.stays_there:
            self.worked_on = "gpu:0"
        self.pipeline: Any = None
        self.names: list[str] = []
        self.first_epoch = 0
        self.next_epoch: int | None = None
        """Position after a reset; None in the middle of an epoch."""

    def build(self, epoch: int, checkpoint: bytes | None = None) -> None:
        """Build a pipeline that starts at an epoch, or at a checkpoint of such a pipeline."""
        from nvidia.dali import Pipeline, fn

        self.close()
        job = self.job
        cls = CropSource if self.native else ElementSource if self.bucketed else BatchSource
        source = cls(job, epoch)
        names = list(source.fields([0], epoch))
        processes = 0 if self.native else job.workers
        ahead = {"prefetch_queue_depth": max(job.prefetch, processes)} if processes else {}
        self.pipeline = Pipeline(
            batch_size=job.batch_size,
            num_threads=max(1, job.workers) if self.native else 1,
            device_id=0 if self.on_gpu else None,
            prefetch_queue_depth=job.prefetch,
            py_num_workers=processes,
            enable_checkpointing=True,
            checkpoint=checkpoint,
        )
        with self.pipeline:
            nodes = fn.external_source(
                source=source,
                num_outputs=len(names),
                batch_info=True,
                parallel=processes > 0,
                **ahead,
            )
            fields = dict(zip(names, nodes, strict=True))
            if self.native:
                side = job.scenario.size["side"]
                fields = crop_resize_normalise(fields, side, mixed=self.on_gpu)
            if self.stays_there:
                fields = {
                    name: node if name == INDEX else node.gpu() for name, node in fields.items()
                }
            self.pipeline.set_outputs(*fields.values())
        self.pipeline.build()
        self.names, self.first_epoch = list(fields), epoch

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Yield batches of NumPy arrays, or of tensors on the GPU."""
        if self.pipeline is not None and self.next_epoch == epoch:
            self.pipeline.reset()
        else:
            self.build(epoch)
        return self.batches(epoch)

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Yield the rest of the epoch that the pipeline is in."""
        self.next_epoch = None
        runs = self.runs()
        if self.bucketed:
            yield from batches_of(
                (element for run in runs for element in elements_of(run)), self.job
            )
        elif self.stays_there:
            yield from map(on_gpu, runs)
        else:
            for run in runs:
                yield {name: tensors.as_cpu().as_array() for name, tensors in run.items()}
        self.next_epoch = epoch + 1

    def runs(self) -> Iterator[dict[str, Any]]:
        """Run the pipeline until its source ends the epoch."""
        while True:
            try:
                outputs = self.pipeline.run()
            except StopIteration:
                return
            yield dict(zip(self.names, outputs, strict=True))

    def state(self) -> bytes:
        """Return DALI's own checkpoint, with the epoch that the pipeline counts from."""
        checkpoint: bytes = self.pipeline.checkpoint()
        return b"%d " % self.first_epoch + checkpoint

    def resume(self, epoch: int, state: bytes) -> Iterator[Batch]:
        """Build the pipeline from the checkpoint and go on."""
        first_epoch, _, checkpoint = state.partition(b" ")
        self.build(int(first_epoch), checkpoint)
        return self.batches(epoch)

    def close(self) -> None:
        """Drop the pipeline, which ends its threads and processes."""
        self.pipeline = None


def elements_of(run: dict[str, Any]) -> Iterator[Element]:
    """Yield the elements of one run over an `ElementSource`."""
    import numpy as np

    for row in zip(*run.values(), strict=True):
        yield dict(zip(run, map(np.array, row), strict=True))


def on_gpu(run: dict[str, Any]) -> dict[str, Any]:
    """Copy the results of one run, whose memory DALI uses again, to tensors on the first GPU."""
    import torch
    from nvidia.dali.plugin.pytorch import feed_ndarray, to_torch_type

    stream = torch.cuda.current_stream(0)
    batch: dict[str, Any] = {INDEX: run[INDEX].as_array()}
    for name in run.keys() - {INDEX}:
        made = run[name].as_tensor()
        kind = to_torch_type[made.dtype]
        batch[name] = torch.empty(made.shape(), dtype=kind, device=stream.device)
        feed_ndarray(made, batch[name], cuda_stream=stream)
    stream.synchronize()
    return batch


@adapter
class Dali(Adapter):
    """`nvidia.dali.Pipeline` with `fn.external_source`."""

    slug: ClassVar = "dali"
    name: ClassVar = "NVIDIA DALI"
    distribution: ClassVar = "nvidia-dali-cuda130"
    imports: ClassVar = "nvidia.dali"
    requirements: ClassVar = ("nvidia-dali-cuda130", "pyarrow", "torch")
    homepage: ClassVar = "https://docs.nvidia.com/deeplearning/dali"
    guide: ClassVar = (
        "https://docs.nvidia.com/deeplearning/dali/user-guide/docs/examples/"
        "general/data_loading/parallel_external_source.html"
    )
    abilities: ClassVar = all_but(
        {
            "mix": "it has no weighted mixing of sources",
            "seek": "its external source takes the order as a list of all indices",
            "pack": "all outputs of an external source have as many rows",
            "jax": "DALI's JAX iterators place batches on GPUs only, and need CUDA",
        }
    )
    formats: ClassVar = ("files", "canonical", "memory", "tar", "parquet", "http")
    acceleration: ClassVar = Acceleration(
        seen_by={"gpu": "dali"},
        # One wheel per major version of CUDA; the newest needs driver 580.
        builds={"cuda12": ("nvidia-dali-cuda120", TORCH_FOR_CUDA12)},
        distributions={"cuda12": "nvidia-dali-cuda120"},
    )
    framework: ClassVar = "torch"
    options: ClassVar = {
        "dali_device": "`gpu` or `cpu`, where CV-1 is done; else `gpu` on a platform that has one"
    }
    native: ClassVar = frozenset({"CV-1", "CV-6"})
    decodes: ClassVar = dict.fromkeys(
        native,
        PLAIN_KINDS
        | {
            *("WEBP", "RGBA WEBP", "animated WEBP"),
            *("BMP", "palette BMP", "grey BMP", "1-bit BMP"),
            *("TIFF", "RGBA TIFF", "palette TIFF", "CMYK TIFF", "grey TIFF", "1-bit TIFF"),
            *("16-bit TIFF", "16-bit grey TIFF", "white-is-zero grey TIFF"),
        },
    )

    def execution(self, job: LoadingJob) -> Execution:
        """Return the threads of its operators, or the processes of a parallel source."""
        if job.scenario.id in self.native:
            return Execution("threads", max(1, job.workers))
        return Execution("processes", job.workers)

    def open(self, job: LoadingJob) -> Loader:
        """Return the loader; the first epoch builds its pipeline."""
        return DaliLoader(job, native=job.scenario.id in self.native)
