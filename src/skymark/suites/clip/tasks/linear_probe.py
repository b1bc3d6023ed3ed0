"""Linear probe: train a linear classifier on image features, and search its weight decay.

Definitions, optimiser, schedule and search follow clip_benchmark 1.6.2,
``metrics/linear_probe.py``, with its order of random numbers: with the same features, training sees
the same batches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from skymark.model.errors import DataError
from skymark.suites.clip.specification import LinearProbe
from skymark.suites.clip.tasks.zero_shot import TOP, Scores, single_label_metrics

LARGEST_STEP = 8
"""First distance of the search around the best weight decay; halved until it is 0."""


@dataclass(frozen=True)
class Features:
    """Image features with their labels, on one device."""

    values: Any
    """Float32 of shape (images, dimensions)."""
    labels: Any
    """Int64 of shape (images,)."""

    def chosen(self, indices: Any) -> Features:
        """Return the features at `indices`, in that order."""
        return Features(self.values[indices], self.labels[indices])

    def joined(self, other: Features) -> Features:
        """Return these features, followed by other features."""
        import torch

        return Features(
            torch.cat([self.values, other.values]), torch.cat([self.labels, other.labels])
        )


@dataclass(frozen=True)
class Draws:
    """Random draws in clip_benchmark's order, from the state after the model was made."""

    state: Any
    loaders: int
    """Number of splits; each draws a seed for its reading processes."""

    def split(self, count: int, val_proportion: float) -> tuple[Any, Any] | None:
        """Return indices of the training and the validation part; None without validation."""
        import torch

        torch.set_rng_state(self.state)
        if not val_proportion:
            return None
        # The sizes of torch.utils.data.random_split: rounded down, the rest one by one.
        sizes = [math.floor(count * share) for share in (1 - val_proportion, val_proportion)]
        for number in range(count - sum(sizes)):
            sizes[number % 2] += 1
        order = torch.randperm(count)
        return order[: sizes[0]], order[sizes[0] :]

    def order(self, count: int) -> Any:
        """Return the order of training images; call it after `split`."""
        import torch

        for _ in range(self.loaders):
            _draw_seed()
        return torch.randperm(count)


def probe(
    train: Features,
    val: Features | None,
    test: Features,
    order: Any,
    settings: LinearProbe,
    seed: int,
    *,
    autocast: bool = False,
) -> Scores:
    """Train a linear classifier, and return its metrics on the test images.

    Args:
        train: features for training.
        val: features to search the weight decay; None for a weight decay of 0.
        test: features to score.
        order: order of the training images; few-shot training takes the first of each class.
        settings: settings of the training.
        seed: seed of each training.
        autocast: whether training runs in mixed precision.

    Raises:
        DataError: a class has fewer images than few-shot training takes.
    """
    classes = int(train.labels.max()) + 1
    if int(test.labels.max()) >= classes:
        raise DataError(f"the training images have {classes} classes, and the test images more")
    chosen = train.chosen(_few_of_each(train.labels, order, settings.fewshot_k))
    trainer = Trainer(chosen, classes, settings, seed, autocast)
    weight_decay = 0.0
    final = trainer
    if val is not None:
        weight_decay = _best_weight_decay(trainer, val)
        if settings.fewshot_k < 0:
            final = Trainer(chosen.joined(val), classes, settings, seed, autocast)
    logits = final.logits(weight_decay, test)
    scores = single_label_metrics(logits, test.labels)
    found = {f"lp_{name}": value for name, value in scores.metrics.items()}
    if int(test.labels.max()) < TOP:
        found.pop("lp_acc5", None)
    return Scores({**found, "weight_decay": weight_decay}, scores.parts)


@dataclass(frozen=True)
class Trainer:
    """Training of a linear layer on some features."""

    features: Features
    classes: int
    settings: LinearProbe
    seed: int
    autocast: bool

    def logits(self, weight_decay: float, others: Features) -> Any:
        """Train with a weight decay, and return the logits of other features."""
        import torch

        layer = self._trained(weight_decay)
        with torch.no_grad(), self._casting():
            return layer(others.values).float()

    def _trained(self, weight_decay: float) -> Any:
        import torch

        values, labels = self.features.values, self.features.labels
        size = self.settings.batch_size
        batches = math.ceil(len(values) / size)
        steps = self.settings.epochs * batches
        torch.manual_seed(self.seed)
        layer = torch.nn.Linear(values.shape[1], self.classes).to(values.device)
        optimizer = torch.optim.AdamW(
            layer.parameters(), lr=self.settings.learning_rate, weight_decay=weight_decay
        )
        loss_of = torch.nn.CrossEntropyLoss()
        for step in range(steps):
            number = step % batches
            if number == 0:
                order = _shuffled(len(values)).to(values.device)
            rate = 0.5 * (1 + np.cos(np.pi * step / steps)) * self.settings.learning_rate
            for group in optimizer.param_groups:
                group["lr"] = rate
            chosen = order[number * size : (number + 1) * size]
            optimizer.zero_grad()
            with self._casting():
                loss = loss_of(layer(values[chosen]), labels[chosen])
            loss.backward()
            optimizer.step()
        return layer

    def _casting(self) -> Any:
        import torch

        return torch.autocast(self.features.values.device.type, enabled=self.autocast)


def _best_weight_decay(trainer: Trainer, val: Features) -> float:
    """Search the weight decay by accuracy: first coarsely, then ever closer around the best.

    The grid has 97 values from 1e-6 to 1e2 in equal ratios, as in CLIP (Radford et al. 2021, A.3).
    """
    grid = np.logspace(-6, 2, num=97).tolist()
    coarse = np.logspace(-6, 2, num=7).tolist()
    start = [number for number, value in enumerate(grid) if value in coarse]

    @cache
    def accuracy(number: int) -> float:
        logits = trainer.logits(grid[number], val)
        return float((logits.argmax(dim=1) == val.labels).double().mean())

    def best(numbers: list[int]) -> int:
        found, highest = 0, 0.0
        for number in numbers:
            if accuracy(number) > highest:
                found, highest = number, accuracy(number)
        return found

    peak = best(start)
    step = LARGEST_STEP
    while step:
        peak = best([max(peak - step, 0), peak, min(peak + step, len(grid) - 1)])
        step //= 2
    return float(grid[peak])


def _few_of_each(labels: Any, order: Any, fewshot_k: int) -> Any:
    """Return indices for training: all in order, or the first few of each class."""
    import torch

    if fewshot_k < 0:
        return order
    taken: dict[int, int] = {}
    chosen: list[int] = []
    known = labels.tolist()
    for index in order.tolist():
        label = known[index]
        if taken.setdefault(label, 0) < fewshot_k:
            taken[label] += 1
            chosen.append(index)
    for label, count in taken.items():
        if count < fewshot_k:
            raise DataError(f"class {label} has {count} training images, fewer than {fewshot_k}")
    return torch.tensor(chosen)


def _shuffled(count: int) -> Any:
    """Return the order of one epoch in a shuffling `DataLoader` of torch."""
    import torch

    _draw_seed()
    generator = torch.Generator()
    generator.manual_seed(_draw_seed())
    return torch.randperm(count, generator=generator)


def _draw_seed() -> int:
    """Draw a seed from torch's generator, like `DataLoader` and its sampler for each epoch."""
    import torch

    return int(torch.empty((), dtype=torch.int64).random_().item())
