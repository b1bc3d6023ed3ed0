"""Training programs as users write them; each prints its losses: watched_programs.py NAME."""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.nn.functional import cross_entropy, interpolate
from torch.utils.data import DataLoader, Dataset

STATUS = 5
CLASSES = 4


class Photos(Dataset):
    """Images of noise, with more noise drawn in the workers.

    Each is decoded a number of times.
    """

    def __init__(self, decodings: int = 1) -> None:
        self.decodings = decodings
        pixels = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
        content = io.BytesIO()
        Image.fromarray(pixels).save(content, "JPEG")
        self.jpeg = content.getvalue()

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, Any]:
        for _ in range(self.decodings):
            pixels = np.asarray(Image.open(io.BytesIO(self.jpeg)).convert("RGB"), np.float32) / 255
        image = torch.from_numpy(pixels).permute(2, 0, 1) + torch.randn(1) / 100
        return {"pixel_values": image, "labels": index % CLASSES}


def network() -> torch.nn.Module:
    """A small network."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, stride=4),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(4, CLASSES),
    )


def loader() -> Any:
    """A shuffled loader with workers."""
    return DataLoader(Photos(), batch_size=8, shuffle=True, num_workers=2)


def trainer() -> None:
    """Hugging Face's Trainer."""
    from transformers import Trainer, TrainingArguments

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def forward(self, pixel_values: Any, labels: Any) -> dict[str, Any]:
            logits = self.net(pixel_values)
            return {"loss": cross_entropy(logits, labels), "logits": logits}

    class Printing(Trainer):
        def log(self, logs: dict[str, float], *_: Any, **__: Any) -> None:
            print({name: logs[name] for name in ("loss", "grad_norm") if name in logs})

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            num_train_epochs=2,
            per_device_train_batch_size=8,
            logging_steps=4,
            report_to=[],
            save_strategy="no",
            use_cpu=True,
            dataloader_num_workers=2,
            disable_tqdm=True,
            seed=1,
        )
        Printing(Model(), arguments, train_dataset=Photos()).train()


def lightning() -> None:
    """A loop of Lightning."""
    from lightning import LightningModule, Trainer

    class Module(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def training_step(self, batch: Any, _: int) -> Any:
            loss = cross_entropy(self.net(batch["pixel_values"]), batch["labels"])
            print(loss.item())
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

    Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    ).fit(Module(), loader())


def plain(model: torch.nn.Module, batches: Any, size: int, backward: Callable[[Any], Any]) -> None:
    """Two epochs in a loop."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        for batch in batches:
            images = interpolate(batch["pixel_values"], size=(size, size))
            loss = cross_entropy(model(images), batch["labels"])
            backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            print(f"{loss.item()}\n", end="")  # at once, because ranks share the output


def timm() -> None:
    """A model of timm in a plain loop."""
    import timm

    model = timm.create_model("test_vit", num_classes=CLASSES)
    plain(model, loader(), 160, torch.Tensor.backward)


def accelerate() -> None:
    """A plain loop with Accelerate."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model, batches = accelerator.prepare(network(), loader())
    plain(model, batches, 64, accelerator.backward)


def ranks() -> None:
    """A plain loop in each process of torchrun, whose rank 1 decodes each image forty times."""
    from torch.distributed import destroy_process_group, get_rank, init_process_group
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DistributedSampler

    init_process_group("gloo")
    photos = Photos(decodings=40 if get_rank() == 1 else 1)
    sampler = DistributedSampler(photos, seed=1)
    batches = DataLoader(photos, batch_size=4, sampler=sampler, num_workers=1)
    plain(DistributedDataParallel(network()), batches, 64, torch.Tensor.backward)
    destroy_process_group()


PROGRAMS = {
    function.__name__: function for function in (trainer, lightning, timm, accelerate, ranks)
}

if __name__ == "__main__":
    torch.manual_seed(3)
    torch.set_num_threads(1)
    PROGRAMS[sys.argv[1]]()
    sys.exit(0 if "RANK" in os.environ else STATUS)  # torchrun ends with 1 for any other
