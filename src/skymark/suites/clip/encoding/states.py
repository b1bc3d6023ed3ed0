"""States of checkpoints, read without running anything in them, whichever program wrote them."""

from __future__ import annotations

import pickle
import shlex
import zipfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import file_digest
from pathlib import Path
from typing import Any, NoReturn

from skymark.model.errors import DataError

STATE_KEYS = ("state_dict", "model_state_dict", "model", "module")
"""Fields of training checkpoints that hold the state; others hold an optimizer and options."""
WRAPPED = "module."
"""Prefix of all names in the state of a parallel model."""
COMPILED = "_orig_mod."
"""Part of the names in the state of a compiled model."""
NO_WEIGHTS = frozenset({"input_resolution", "context_length", "vocab_size", "attn_mask"})
"""Tensors of archives such as OpenAI's that the architecture gives."""
HARMLESS = ("numpy.", "argparse.", "pathlib.", "collections.")
"""Modules of the objects that training scripts usually leave in checkpoints."""
SHA256_DIGITS = 64


class StateReader:
    """A replacement for open_clip's own reader that runs no code; remembers the file."""

    file: Path | None = None

    def __call__(self, checkpoint_path: str, **_: object) -> dict[str, Any]:
        """Return the state in a checkpoint, with tensors on the host.

        Raises:
            DataError: the file holds other objects than weights.
        """
        self.file = Path(checkpoint_path)
        return state_in(self.file)

    @contextmanager
    def in_open_clip(self) -> Iterator[None]:
        """Let open_clip read states by this reader meanwhile."""
        from open_clip import factory

        original = factory.load_state_dict
        factory.load_state_dict = self
        try:
            yield
        finally:
            factory.load_state_dict = original

    @property
    def digest(self) -> str | None:
        """SHA-256 hex digest of the file; None if none was read.

        The hub's cache names a file's content by it.
        """
        if self.file is None:
            return None
        cached = self.file.resolve().name
        if len(cached) == SHA256_DIGITS and self.file.resolve().parent.name == "blobs":
            return cached
        with self.file.open("rb") as opened:
            return file_digest(opened, "sha256").hexdigest()


def state_in(file: Path) -> dict[str, Any]:
    """Return the state in a checkpoint, with tensors on the host.

    Raises:
        DataError: the file holds other objects than weights.
    """
    import torch

    if file.suffix == ".safetensors":
        from safetensors.torch import load_file  # type: ignore[import-not-found,unused-ignore]

        return _plain(load_file(file))
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            if any(name.endswith("/constants.pkl") for name in archive.namelist()):
                return _plain(_archived(archive))
    try:
        return _plain(torch.load(file, map_location="cpu", weights_only=True))
    except pickle.UnpicklingError as error:
        _refuse(file, error)


def _refuse(file: Path, error: Exception) -> NoReturn:
    """Raise the error for a checkpoint with other objects than weights.

    Raises:
        DataError: always.
    """
    import torch

    try:
        names = torch.serialization.get_unsafe_globals_in_checkpoint(file)
    except Exception:
        names = []
    if not names:
        raise DataError(f"{file} cannot be read: {' '.join(str(error).split())[:400]}") from error
    holds = f"{file} holds objects besides weights ({', '.join(sorted(names))})"
    if not all(name.startswith(HARMLESS) for name in names):
        raise DataError(f"{holds}, which may run anything; do not load it") from error
    weights = f"{file.stem}-weights.pt"
    line = (
        f"import torch; c = torch.load({str(file)!r}, weights_only=False); "
        f"torch.save(next((c[k] for k in {STATE_KEYS} if k in c), c), {weights!r})"
    )
    raise DataError(
        f"{holds}; if you trust it, save its weights alone: python -c {shlex.quote(line)}"
    ) from error


def _plain(content: Any) -> dict[str, Any]:
    """Return the state of a checkpoint by the names of a plain model.

    Raises:
        DataError: there is no state.
    """
    import torch

    if isinstance(content, Mapping):
        held = (content[key] for key in STATE_KEYS if isinstance(content.get(key), Mapping))
        content = next(held, content)
    if not isinstance(content, Mapping) or not content:
        raise DataError("the checkpoint has no state; save the model's state_dict()")
    state = {str(name).replace(COMPILED, ""): value for name, value in content.items()}
    while all(name.startswith(WRAPPED) for name in state):
        state = {name.removeprefix(WRAPPED): value for name, value in state.items()}
    if not any(isinstance(value, torch.Tensor) for value in state.values()):
        raise DataError("the checkpoint has no tensors; save the model's state_dict()")
    return state


class _Module:
    """A module of a TorchScript archive: its attributes alone."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.attributes = state


class _Archive(pickle.Unpickler):
    """Reader of a TorchScript archive's state; its code is not looked at."""

    def __init__(self, archive: zipfile.ZipFile, pickled: str) -> None:
        self._archive = archive
        self._folder = pickled.removesuffix(".pkl")
        super().__init__(archive.open(pickled))

    def find_class(self, module: str, name: str) -> Any:
        """Return a stand-in for a class of the archive, and few functions besides.

        Raises:
            DataError: the archive asks for anything else.
        """
        import torch
        from torch._utils import _rebuild_tensor_v2

        if module.startswith("__torch__"):
            return _Module
        if module == "torch" and name.endswith("Storage"):
            return getattr(torch, name)
        if module == "torch.jit._pickle":  # lists of numbers or tensors
            return list
        known: dict[tuple[str, str], Any] = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor_v2,
        }
        if (module, name) not in known:
            raise DataError(f"the archive holds {module}.{name}, which is no weight")
        return known[module, name]

    def persistent_load(self, pid: Any) -> Any:
        """Return the storage of a tensor.

        Raises:
            DataError: the archive is damaged.
        """
        import torch

        kind, storage, key, _, count = pid
        data = bytearray(self._archive.read(f"{self._folder}/{key}"))
        size = torch.empty((), dtype=storage.dtype).element_size()
        if kind != "storage" or len(data) != count * size:
            raise DataError(f"the archive has {len(data)} bytes in place of {count * size}")
        untyped = torch.frombuffer(data, dtype=torch.uint8).untyped_storage()
        return torch.storage.TypedStorage(wrap_storage=untyped, dtype=storage.dtype, _internal=True)


def _archived(archive: zipfile.ZipFile) -> dict[str, Any]:
    """Return the tensors of a TorchScript archive by their names."""
    import torch

    pickled = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
    state: dict[str, Any] = {}
    waiting = [("", _Archive(archive, pickled).load())]
    while waiting:
        prefix, module = waiting.pop()
        for name, value in getattr(module, "attributes", {}).items():
            if isinstance(value, _Module):
                waiting.append((f"{prefix}{name}.", value))
            elif isinstance(value, torch.Tensor) and name not in NO_WEIGHTS:
                state[prefix + name] = value
    return state
