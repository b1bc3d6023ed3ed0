"""Figures do not depend on how a device rounds: cells on a CPU that divides as CUDA does.

CUDA divides a tensor by a number by multiplying with the number's reciprocal (PyTorch's
`div_true_kernel_cuda`), so that quotients differ from the host's in the last bit.
"""

from __future__ import annotations

import io
from dataclasses import replace
from functools import wraps

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from open_clip import constants  # noqa: E402
from PIL import Image  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from skymark.suites.clip.encoding.encoder import Encoder, Settings  # noqa: E402
from skymark.suites.clip.encoding.loading import load_model  # noqa: E402
from skymark.suites.clip.pixels.preprocessing import Preprocessing  # noqa: E402
from tests.clip.conftest import Bench  # noqa: E402
from tests.clip.test_pixels import MEAN, SETTINGS, STD  # noqa: E402
from tests.clip.test_runner import PROBE  # noqa: E402

DIVISIONS = {"div", "div_", "divide", "divide_", "true_divide", "true_divide_"}
"""Packets of aten. torch decomposes some into others, but not everywhere."""
PLANTED = {
    "8-bit div": lambda batch: batch.div(255),
    "8-bit slash": lambda batch: batch / 255,
    "8-bit torch.div": lambda batch: torch.div(batch, 255),
    "8-bit true_divide": lambda batch: torch.true_divide(batch, 255.0),
    "float div": lambda batch: batch.float().div(255),
    "float div in place": lambda batch: batch.float().div_(255),
    "float slash in place": lambda batch: batch.float().__itruediv__(255),
    "float by a scalar on the host": lambda batch: batch.float() / torch.tensor(255.0),
    "torch.div into a tensor": lambda batch: torch.div(batch, 255, out=torch.empty(batch.shape)),
}
"""Ways to divide pixels that are right on a host and not on CUDA."""


class DividesAsCuda(TorchDispatchMode):
    """Divide tensors by numbers as CUDA does; a tensor without dimensions counts as a number."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        del types
        kwargs = kwargs or {}
        name = function.overloadpacket.__name__
        by_number = name in DIVISIONS and not (isinstance(args[1], torch.Tensor) and args[1].ndim)
        if not by_number or kwargs.get("rounding_mode") is not None:
            return function(*args, **kwargs)
        dividend, divisor = args
        kind = torch.result_type(dividend, divisor)
        kind = kind if kind.is_floating_point else torch.get_default_dtype()
        computed = torch.promote_types(kind, torch.float32)
        inverse = torch.tensor(1 / float(divisor), dtype=computed)
        found = (dividend.to(computed) * inverse).to(kind)
        out = dividend if name.endswith("_") else kwargs.get("out")
        return found if out is None else out.copy_(found)


def as_on_cuda(function):
    """Return a function that does what another does, and divides as CUDA does."""

    @wraps(function)
    def divides(*arguments, **settings):
        with DividesAsCuda():
            return function(*arguments, **settings)

    return divides


@pytest.fixture
def device(monkeypatch):
    """Have all that an encoder computes divide as CUDA does; the oracle's reference does not."""
    for name in ("__init__", "images", "image_tensor", "texts"):
        monkeypatch.setattr(Encoder, name, as_on_cuda(getattr(Encoder, name)))


@pytest.mark.parametrize("divided", PLANTED.values(), ids=PLANTED)
def test_the_stand_in_divides_by_a_number_as_cuda_and_by_a_tensor_as_the_host(divided):
    values = torch.arange(256, dtype=torch.uint8)
    expected = np.arange(256, dtype=np.float32) * (np.float32(1) / np.float32(255))
    exact = values.float() / torch.full((1,), 255.0)
    assert torch.equal(divided(values), exact)
    with DividesAsCuda():
        found = divided(values)
        by_tensor = values.float() / torch.full((1,), 255.0)
    assert found.numpy().tobytes() == expected.tobytes()
    assert (found != exact).float().mean() > 0.3
    assert torch.equal(by_tensor, exact)


@pytest.mark.parametrize(
    ("precision", "channels_last"),
    [("fp32", True), ("fp32", False), ("bf16", False), ("fp16", True)],
)
@pytest.mark.parametrize("prefix", ["OPENAI_DATASET", "IMAGENET", "INCEPTION"])
def test_all_256_values_of_a_channel_are_those_of_open_clips_transform(
    made, precision, channels_last, prefix
):
    mean, std = (getattr(constants, f"{prefix}_{what}") for what in ("MEAN", "STD"))
    preprocessing = Preprocessing.of({**SETTINGS, "size": 16, "mean": mean, "std": std})
    image = io.BytesIO()
    values = np.arange(256, dtype=np.uint8).reshape(16, 16, 1)
    Image.fromarray(np.concatenate([values, values[::-1], values.transpose(1, 0, 2)], 2)).save(
        image, "PNG"
    )
    loaded = load_model(Bench(made, made / "cache").model(), torch.device("cpu"), 0)
    encoder = Encoder(
        replace(loaded, preprocessing=preprocessing),
        Settings(precision, 1, False, channels_last, True),
    )
    pixels = torch.from_numpy(preprocessing.pixels(image.getvalue(), "it"))[None]
    with DividesAsCuda():
        tensor = encoder.image_tensor(pixels)
    assert torch.equal(tensor[0], preprocessing.reference(image.getvalue(), "it").to(tensor.dtype))
    assert tensor.is_contiguous(
        memory_format=torch.channels_last if channels_last else torch.contiguous_format
    )


@pytest.mark.parametrize(
    ("set", "task", "settings"),
    [
        ("shapes", "zeroshot_classification", {}),
        ("colours", "zeroshot_classification", {"architecture": "tiny-RN"}),
        ("captions", "zeroshot_retrieval", {"recall_k": (1, 5)}),
        ("captions", "image_caption_selection", {"precision": "bf16"}),
        ("shapes", "linear_probe", {"linear_probe": PROBE}),
    ],
)
def test_cells_are_valid_on_a_device_that_divides_as_cuda(bench, device, set, task, settings):
    result = bench.result(set, task, **settings)
    assert result.verification.passed, result.verification.cause


def plant(monkeypatch, divided):
    """Replace the encoder's preprocessing by one that computes on the device."""

    def computed(self, batch):
        mean, std = (torch.tensor(one).view(1, 3, 1, 1) for one in (MEAN, STD))
        return divided(batch).sub_(mean).div_(std)

    monkeypatch.setattr(Encoder, "image_tensor", as_on_cuda(computed))


@pytest.mark.parametrize("divided", PLANTED.values(), ids=PLANTED)
def test_preprocessing_that_divides_by_a_number_makes_the_cell_invalid(bench, monkeypatch, divided):
    plant(monkeypatch, divided)
    assert bench.result().verification.cause.kind == "wrong-images"


def test_preprocessing_that_divides_by_a_tensor_is_that_of_the_host(bench, monkeypatch):
    plant(monkeypatch, lambda batch: batch.float() / torch.full((1,), 255.0))
    assert bench.result().verification.passed
