"""Pictures of shapes with their labels and captions, and shards of them."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np

CLASSES = ["circle", "square", "cross", "bar", "dot", "frame"]
TEMPLATES = ["a photo of a {c}.", "a drawing of one {c}, and nothing else", "{c}"]
COLOURS = {"red": (230, 40, 40), "green": (30, 200, 60), "blue": (50, 60, 240)}


@dataclass(frozen=True)
class Picture:
    """An encoded picture with what it shows."""

    file: bytes
    label: int
    colour: str
    number: int

    @property
    def label_text(self) -> bytes:
        return str(self.label).encode()

    @property
    def multilabel(self) -> bytes:
        row = np.zeros(len(CLASSES), np.int64)
        row[[self.label, (self.label + self.number) % len(CLASSES)]] = 1
        out = io.BytesIO()
        np.save(out, row)
        return out.getvalue()


def pictures(count: int, seed: int) -> list[Picture]:
    """Draw pictures of different sizes."""
    from PIL import Image, ImageDraw

    random = np.random.default_rng(seed)
    drawn = []
    for number in range(count):
        label, colour = number % len(CLASSES), list(COLOURS)[int(random.integers(3))]
        width, height = int(random.integers(30, 60)), int(random.integers(30, 60))
        image = Image.fromarray(random.integers(0, 90, (height, width, 3), np.uint8))
        box = (width // 5, height // 5, 4 * width // 5, 4 * height // 5)
        draw, fill = ImageDraw.Draw(image), COLOURS[colour]
        left, top, right, bottom = box
        match CLASSES[label]:
            case "circle":
                draw.ellipse(box, fill=fill)
            case "square":
                draw.rectangle(box, fill=fill)
            case "cross":
                draw.line(box, fill=fill, width=5)
                draw.line((left, bottom, right, top), fill=fill, width=5)
            case "bar":
                draw.rectangle((left, height // 2 - 3, right, height // 2 + 3), fill=fill)
            case "dot":
                draw.ellipse(
                    (width // 2 - 4, height // 2 - 4, width // 2 + 4, height // 2 + 4), fill
                )
            case "frame":
                draw.rectangle(box, outline=fill, width=4)
        out = io.BytesIO()
        image.save(out, "PNG" if seed % 2 else "JPEG")
        drawn.append(Picture(out.getvalue(), label, colour, number))
    return drawn


def captions(one: Picture) -> list[str]:
    """Return two captions of a picture."""
    shape = CLASSES[one.label]
    return [f"a {one.colour} {shape}", f"picture {one.number} shows a {shape} in {one.colour}"]
