"""Networks made without random weights: drawing them takes longer than reading a checkpoint."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any


def blank_weights() -> AbstractContextManager[Any]:
    """Return a context in which tensors get NaN where they would be filled with random numbers.

    All other values, such as masks and positions that no checkpoint has, are computed as ever.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Blank(TorchDispatchMode):  # type: ignore[misc]  # torch is not installed here
        def __torch_dispatch__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            del types
            draws = torch.Tag.nondeterministic_seeded in function.tags
            in_place = str(function.overloadpacket).endswith("_")
            if draws and in_place and args[0].is_floating_point():
                return args[0].fill_(float("nan"))
            return function(*args, **(kwargs or {}))

    return Blank()


def still_blank(network: Any) -> list[str]:
    """Return the names of tensors with NaN in them that no checkpoint gives: none, if all is well.

    Those that a checkpoint gives are all overwritten, or open_clip refuses it.
    """
    import torch

    given = {id(one) for one in network.state_dict(keep_vars=True).values()}
    return [
        f"{place}.{name}".lstrip(".")
        for place, module in network.named_modules()
        for name, one in {**vars(module), **dict(module.named_buffers(recurse=False))}.items()
        if isinstance(one, torch.Tensor) and id(one) not in given
        if one.is_floating_point() and bool(one.isnan().any())
    ]
