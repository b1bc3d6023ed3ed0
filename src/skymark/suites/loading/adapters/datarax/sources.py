"""Elements as Datarax's sources: arrays on the device, or batches made on the host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from datarax.core.config import StructuralConfig
from datarax.core.data_source import DataSourceModule
from datarax.sources import MemorySource, MemorySourceConfig
from flax import nnx

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.canonical import Array


class EpochValues(nnx.Variable[Any]):  # type: ignore[misc]
    """Values of one epoch. A class of its own, so that no batch hands it back."""


class ArraySource(MemorySource):  # type: ignore[misc]
    """A `MemorySource` that serves its arrays in a given order, with columns of the epoch.

    Its own shuffle is not used because `Pipeline` draws a new permutation for every batch
    (Datarax 0.1.4), which repeats and loses elements.
    """

    def __init__(self, columns: Mapping[str, Array]) -> None:
        super().__init__(
            MemorySourceConfig(), {name: jnp.asarray(values) for name, values in columns.items()}
        )

    def begin(self, order: Any, columns: Mapping[str, Array], batch_size: int) -> None:
        """Set the order of an epoch, int32 ``[n]``, and its further columns ``[elements, ...]``."""
        self.length = len(order)
        # A batch cannot be short, so the order goes on to the end of the last one.
        self.order = EpochValues(jnp.pad(order, (0, -len(order) % batch_size), mode="edge"))
        self.epoch_columns = nnx.data(
            {name: EpochValues(values) for name, values in columns.items()}
        )

    def get_batch_at(self, start: Any, size: int, key: Any = None) -> dict[str, Any]:
        """Return the elements at places ``start:start + size`` of the order."""
        del key
        index = jax.lax.dynamic_slice(self.order[...], (start,), (size,))
        columns = dict(self.data) | {name: t[...] for name, t in self.epoch_columns.items()}
        rows = {name: jnp.take(v, index, axis=0) for name, v in columns.items()}
        return {"index": index, **rows}


class Feed:
    """The host's batches of the current epoch, in one object, so that nothing is compiled anew."""

    def __init__(self) -> None:
        self.batches: Iterator[dict[str, Any]] = iter(())


class HostSource(DataSourceModule):  # type: ignore[misc]
    """A stream of batches made on the host, of which the last may be short."""

    def __init__(self, feed: Feed) -> None:
        super().__init__(StructuralConfig())
        self.feed = feed

    def supports_indexed_access(self) -> bool:
        """Tell the pipeline to read in sequence."""
        return False

    def get_batch(self, batch_size: int) -> dict[str, Any]:
        """Return the next batch, empty at the end."""
        del batch_size
        return dict(next(self.feed.batches, {}))


class StepModule(nnx.Module):  # type: ignore[misc]
    """One step of the work as a stage of a pipeline."""

    def __init__(self, step: Any) -> None:
        self.step = step

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Apply the step."""
        result: dict[str, Any] = self.step(batch)
        return result


def permutation(seed: int, elements: int) -> Any:
    """Return a random order as `MemorySource` draws it, int32 ``[elements]``."""
    return jax.random.permutation(jax.random.key(seed), np.arange(elements, dtype=np.int32))
