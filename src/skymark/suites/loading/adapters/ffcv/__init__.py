"""FFCV: a beton file, decoded and transformed by compiled code in threads.

Some scenarios run inside FFCV's pipelines, as its own operators. For other scenarios, FFCV reads
and decodes the fields, and the calling thread does the work: no Python may run inside the
pipelines. `workers` are the decoding threads, at least one. The order is `OrderOption.RANDOM`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from skymark.suites.loading.adapter import (
    Adapter,
    Execution,
    Loader,
    LoadingJob,
    adapter,
    all_but,
)
from skymark.suites.loading.devices import TORCH
from skymark.suites.loading.element_streams import batches_of
from skymark.suites.loading.operators import OperatorTable

if TYPE_CHECKING:
    from pathlib import Path

    from skymark.model.record import Setting
    from skymark.suites.loading.dataset.canonical import Array, Column, Dataset, Element
    from skymark.suites.loading.scenario import Scenario
    from skymark.suites.loading.work import Batch

FILE = "data.beton"

Factory = Callable[[Any], dict[str, list[Any]]]
"""From the scenario to each column's operations."""
Draw = Callable[[Any, "Dataset", int], "dict[str, dict[str, Array]]"]
"""Function of scenario, data and epoch: metadata as arrays ``[elements]``, by column and name."""


def nothing_drawn(scenario: Any, dataset: Dataset, epoch: int) -> dict[str, dict[str, Array]]:
    """Return no metadata."""
    del scenario, dataset, epoch
    return {}


@dataclass(frozen=True)
class Operators:
    """The operators of one scenario's work."""

    pipelines: Factory
    draw: Draw = nothing_drawn
    delivered_as: Mapping[str, str] = field(default_factory=dict)
    """Fields of the batch that are called otherwise than the columns that they are made of."""


OPERATORS = OperatorTable(Operators)


def crop_and_flip(scenario: Any, dataset: Dataset, epoch: int) -> dict[str, dict[str, Array]]:
    """Return each image's crop and whether it is mirrored."""
    from skymark.suites.loading.adapters.ffcv.compiled import DRAWN

    drawn = (*scenario.boxes(epoch, dataset).T, scenario.table(epoch)["flip"])
    return {"jpeg": dict(zip(DRAWN, drawn, strict=True))}


@OPERATORS.work("CV-1", "CV-6", draw=crop_and_flip, delivered_as={"jpeg": "image"})
def image(scenario: Any) -> dict[str, list[Any]]:
    """Decode, crop, flip and normalise an image."""
    from ffcv.fields.decoders import IntDecoder

    from skymark.suites.loading.adapters.ffcv.compiled import DrawnCrop, normalise

    return {"jpeg": [DrawnCrop(scenario.size["side"]), normalise()], "label": [IntDecoder()]}


@OPERATORS.work("TAB-1")
def standardise(scenario: Any) -> dict[str, list[Any]]:
    """Subtract the features' means and divide by their deviations."""
    from ffcv.fields.decoders import IntDecoder, NDArrayDecoder

    from skymark.suites.loading.adapters.ffcv.compiled import Standardise
    from skymark.suites.loading.dataset.tabular import feature_moments

    moments = feature_moments(scenario.size["features"])
    return {"features": [NDArrayDecoder(), Standardise(*moments)], "label": [IntDecoder()]}


def field_of(column: Column, format: str) -> Any:
    """Return the FFCV field that stores a column; scalars are stored as 64 bits."""
    import numpy as np
    from ffcv.fields import BytesField, FloatField, IntField, NDArrayField

    if column.encoding == "jpeg" and format == "beton-images":
        from skymark.suites.loading.adapters.ffcv.compiled import StoredJpeg

        return StoredJpeg()
    dtype = np.dtype(column.dtype)
    if column.shape is None:
        return BytesField()
    if column.shape == ():
        return FloatField() if dtype.kind == "f" else IntField()
    return NDArrayField(dtype, column.shape)


class Fields:
    """The dataset for FFCV's writer: a tuple of fields per element."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        import numpy as np

        element = self.dataset[index]
        values = [(column, element[column.name]) for column in self.dataset.columns]
        return (
            index,
            *(np.array(v).view(np.uint8) if c.shape is None else v for c, v in values),
        )


class FFCVLoader(Loader):
    """One ffcv Loader; its threads live on from epoch to epoch."""

    def __init__(self, job: LoadingJob) -> None:
        from ffcv.fields.decoders import IntDecoder
        from ffcv.loader import Loader as Reader
        from ffcv.loader import OrderOption

        self.job = job
        self.operators = OPERATORS.get(job.scenario.id)
        self.running: Any = None
        columns = job.dataset.columns
        self.outputs = {"index": [IntDecoder()], **self.pipelines()}
        custom = {}
        if job.format == "beton-images":
            from skymark.suites.loading.adapters.ffcv.compiled import StoredJpeg

            custom = {c.name: StoredJpeg for c in columns if c.encoding == "jpeg"}
        self.loader = Reader(
            str(job.storage / FILE),
            batch_size=job.batch_size,
            num_workers=max(1, job.workers),
            order=OrderOption.RANDOM if job.shuffle else OrderOption.SEQUENTIAL,
            seed=job.shuffle_seed(0),
            indices=range(job.rank, len(job.dataset), job.world),
            pipelines={**{c.name: None for c in columns}, **self.outputs},
            custom_fields=custom,
            drop_last=job.drop_last,
            batches_ahead=max(1, job.prefetch),
        )
        self.metadata = self.loader.reader.metadata = self.loader.reader.metadata.copy()
        self.places = {name: f"f{place}" for place, name in enumerate(self.loader.reader.handlers)}

    def pipelines(self) -> dict[str, list[Any]]:
        """Return each field's operations: the scenario's work, or the decoders alone."""
        job = self.job
        if self.operators is not None:
            return self.operators.pipelines(job.scenario)
        decoders = {c.name: field_of(c, job.format) for c in job.dataset.columns}
        return {name: [field.get_decoder_class()()] for name, field in decoders.items()}

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Yield batches of NumPy arrays; FFCV writes into their memory again some batches later."""
        job = self.job
        self.stop()
        if self.operators is not None:
            self.draw(self.operators, epoch)
        self.loader.next_epoch = epoch
        self.running = iter(self.loader)
        if self.operators is not None:
            names = self.operators.delivered_as
            return (self.named(fields, names) for fields in self.running)
        if job.scenario.bucket_boundaries:
            return batches_of((e for f in self.running for e in self.elements(f, epoch)), job)
        return (
            job.mix(job.collate(self.elements(fields, epoch)), epoch) for fields in self.running
        )

    def stop(self) -> None:
        """End the thread of an epoch that was left in its middle."""
        if self.running is not None:
            self.running.terminate_event.set()

    def draw(self, operators: Operators, epoch: int) -> None:
        """Give the epoch's random parameters to the compiled code, in the fields' metadata."""
        drawn = operators.draw(self.job.scenario, self.job.dataset, epoch)
        for column, parameters in drawn.items():
            for name, values in parameters.items():
                self.metadata[self.places[column]][name] = values

    def named(self, fields: tuple[Any, ...], names: Mapping[str, str]) -> dict[str, Any]:
        """Return a native batch by field; the index is copied, because it is read later."""
        batch = dict(zip(self.loader.pipeline_specs, fields, strict=True))
        scalars = {c.name for c in self.job.dataset.columns if c.shape == ()} | {"index"}
        return {
            names.get(name, name): value.reshape(-1).copy() if name in scalars else value
            for name, value in batch.items()
        }

    def elements(self, fields: tuple[Any, ...], epoch: int) -> list[Element]:
        """Return the transformed elements of a batch of decoded fields."""
        import numpy as np

        job = self.job
        decoded = dict(zip(self.loader.pipeline_specs, fields, strict=True))
        indices = decoded.pop("index").reshape(-1).tolist()
        transformed = []
        for place, index in enumerate(indices):
            element: Element = {"index": index}
            for column in job.dataset.columns:
                value = decoded[column.name][place]
                if column.shape is None:
                    size = int(self.metadata[self.places[column.name]]["size"][index])
                    value = value[:size].view(column.dtype)
                elif column.shape == ():
                    value = value.astype(column.dtype).reshape(())
                element[column.name] = np.array(value)
            transformed.append(job.transform(element, epoch))
        return transformed

    def close(self) -> None:
        """End the running epoch, and drop the loader."""
        self.stop()
        if self.running is not None:
            self.running.join()
        del self.loader


@adapter
class FFCV(Adapter):
    """`ffcv.loader.Loader` over a beton file."""

    slug: ClassVar = "ffcv"
    name: ClassVar = "FFCV"
    distribution: ClassVar = "ffcv"
    imports: ClassVar = "ffcv"
    requirements: ClassVar = ("ffcv", "torch")
    homepage: ClassVar = "https://docs.ffcv.io"
    guide: ClassVar = "https://docs.ffcv.io/performance_guide.html"
    loader: ClassVar = FFCVLoader
    abilities: ClassVar = all_but(
        {
            "mix": "it has no weighted mixing of sources",
            "seek": "its elements lie in a beton file, of all of which it draws a permutation",
            "checkpoint": "its Loader has no position to save",
            "eager": "elements are read from its beton file on demand",
            "jax": "it makes NumPy arrays or PyTorch tensors, not JAX arrays",
            "source:http": "its beton file must be on a local disk",
        }
    )
    formats: ClassVar = ("beton", "beton-images")
    framework: ClassVar = "torch"
    acceleration: ClassVar = TORCH
    native: ClassVar = frozenset(OPERATORS)
    decodes: ClassVar = dict.fromkeys(("CV-1", "CV-6"), frozenset({"JPEG", "grey JPEG", "MPO"}))
    """As libjpeg-turbo's function for RGB, which converts no inks."""
    install_hint: ClassVar = (
        "apt-get install build-essential pkg-config libopencv-dev libturbojpeg0-dev && "
        "pip install ffcv, then add --env current"
    )

    @classmethod
    def format_for(cls, scenario: type[Scenario], axes: Mapping[str, Setting]) -> str:
        """Return the file whose images FFCV decodes itself, where it does the scenario's work."""
        if scenario.id in cls.native and scenario.encoded_media:
            return "beton-images"
        return super().format_for(scenario, axes)

    def convert(self, dataset: Dataset, directory: Path, format: str) -> None:
        """Write a beton file."""
        from ffcv.fields import IntField
        from ffcv.writer import DatasetWriter

        fields = {c.name: field_of(c, format) for c in dataset.columns}
        writer = DatasetWriter(
            str(directory / FILE), {"index": IntField(), **fields}, num_workers=1
        )
        writer.from_indexed_dataset(Fields(dataset))

    def execution(self, job: LoadingJob) -> Execution:
        """Return its threads: it has at least one."""
        return Execution("threads", max(1, job.workers))
